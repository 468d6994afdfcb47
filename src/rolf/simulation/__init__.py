"""Policies against problems: one loop over rounds for every policy, over many runs."""

from rolf.simulation.tasks import simulate

__all__ = ["simulate"]
