"""Experiments in PostgreSQL."""
