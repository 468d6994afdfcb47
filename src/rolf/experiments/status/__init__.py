"""The status of an experiment: numbers, text and uplift."""
