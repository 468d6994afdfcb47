"""The log of an experiment, and the replica into which each process folds it."""
