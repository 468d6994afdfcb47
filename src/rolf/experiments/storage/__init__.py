"""Where experiments are kept: one contract, three databases."""
