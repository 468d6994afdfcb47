"""What a policy is composed of: an estimator and a rule."""
