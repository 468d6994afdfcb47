"""Experiments and logs that go elsewhere, and history that comes from elsewhere."""
