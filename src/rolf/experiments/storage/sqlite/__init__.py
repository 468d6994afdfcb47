"""Experiments in one SQLite file."""
