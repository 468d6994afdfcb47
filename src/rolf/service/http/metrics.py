"""Metrics of this process, for Prometheus."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from rolf import __version__

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
CONTENT_TYPE = CONTENT_TYPE_LATEST


class Metrics:
    """Counters, gauges and histograms."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        self.requests = Counter(
            "rolf_requests", "Requests", ["method", "route", "status"], registry=registry
        )
        self.seconds = Histogram(
            "rolf_request_seconds",
            "Time to answer a request",
            ["method", "route"],
            buckets=SECONDS,
            registry=registry,
        )
        self.in_flight = Gauge("rolf_requests_in_flight", "Requests now", registry=registry)
        self.decisions = Counter("rolf_decisions", "Decisions made", registry=registry)
        self.rewards = Counter("rolf_rewards", "Rewards told, new ones", registry=registry)
        self.problems = Counter(
            "rolf_problems", "Requests that ended in a problem", ["problem"], registry=registry
        )
        self.open = Gauge("rolf_open_experiments", "Experiments in memory", registry=registry)
        version = Gauge("rolf_info", "The version of rolf", ["version"], registry=registry)
        version.labels(__version__).set(1)

    def text(self) -> bytes:
        return generate_latest(self.registry)
