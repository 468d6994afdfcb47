"""The lasso: its exact path, and the doubly robust estimators built on it."""
