"""Policies: one a file, all in one catalogue."""
