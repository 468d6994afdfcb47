"""The policies that ours are compared with, one per file."""
