"""The lasso: its exact path, and the doubly robust estimators that rest on it."""
