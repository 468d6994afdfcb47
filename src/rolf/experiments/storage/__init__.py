"""Storage of experiments: one contract, three databases."""
