"""What is believed: ridge, lasso, doubly robust, posterior; each from totals alone."""
