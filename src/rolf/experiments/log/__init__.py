"""The log of an experiment, and the replica that each process folds it into."""
