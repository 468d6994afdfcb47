"""Sweeps: policies against problems over grids of their arguments, stored as they finish."""
