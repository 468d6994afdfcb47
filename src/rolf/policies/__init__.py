"""How decisions are made: an estimator and a rule, composed; one policy per file."""
