"""A policy's state as named arrays, and as data that can be saved."""
