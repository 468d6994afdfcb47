"""Policies against problems: one loop over rounds for every policy, over many runs."""
