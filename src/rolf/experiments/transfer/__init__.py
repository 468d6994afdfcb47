"""Moving data: backups of experiments, exported logs, and imported history."""
