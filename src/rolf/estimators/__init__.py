"""Estimators of the mean rewards, as functions over sufficient statistics."""
