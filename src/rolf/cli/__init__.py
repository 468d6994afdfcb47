"""The command line: parsing and printing only, one file per group of commands."""

from rolf.cli.commands import app, main

__all__ = ["app", "main"]
