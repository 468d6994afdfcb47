"""Experiments that outlive a process: their logs, and what can be learned from them."""
