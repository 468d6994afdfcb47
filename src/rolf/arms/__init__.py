"""The table of arms: one class, the only check of its shape, and reading it from files."""
