"""What an experiment says about itself: numbers, words and uplift."""
