"""A client of the decision service: the experiments of a server as if they were here."""
