"""Policies on logged decisions: logs, replay, off-policy estimates, and their result."""
