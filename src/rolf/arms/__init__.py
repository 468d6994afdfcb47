"""The table of arms: its class, the check of its shape, and readers for files and DataFrames."""
