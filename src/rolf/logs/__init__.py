"""Logged decisions, read from files."""
