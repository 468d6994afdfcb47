"""Evaluate policies on logged decisions: replay and off-policy estimates."""
