"""Posteriors over the scales: what RoLF-Bayes believes."""
