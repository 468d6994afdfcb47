"""The routes, a file per group."""
