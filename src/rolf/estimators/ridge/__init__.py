"""Ridge regressions: on fixed, augmented and varying features."""
