"""The table of arms: one class, the only check of its shape, reading from files and frames."""
