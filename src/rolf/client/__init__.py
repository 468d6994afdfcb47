"""A client of the decision service: the experiments of a server as if they were here."""

from rolf.client.remote import RemoteExperiment
from rolf.client.service import Service, connect

__all__ = ["RemoteExperiment", "Service", "connect"]
