"""Two instances of the service on one PostgreSQL, under load, while processes are killed."""

from __future__ import annotations

import itertools
import random
import signal
import threading
import time
import uuid

import pytest

import rolf
from rolf.errors import ServiceUnavailable
from rolf.experiments.storage.rows import DECISION, IDEMPOTENCY, REWARD
from rolf.testing.experiments import current_state, folded_state, roster_of, rows_of
from rolf.testing.service import RunningService
from support.stores import Restarts

FEATURES = [[0.0, 1.0], [1.0, 0.5], [0.3, 0.2], [0.7, 0.1]]
NAME = "under fire"


class Client(threading.Thread):
    """Asks and tells until it is stopped, and notes what was acknowledged.

    When an instance is not available it turns to the other one, with the same key and the same
    reward, as behind a load balancer.
    """

    def __init__(self, urls, key):
        super().__init__()
        services = [rolf.connect(url, key, timeout=1.0) for url in urls]
        self._instances = itertools.cycle([each.experiment(NAME) for each in services])
        self.decisions, self.rewards, self.retried = {}, {}, 0
        self.stopped, self.failure = threading.Event(), None
        self._services = services

    def run(self):
        try:
            while not self.stopped.is_set():
                self._round()
        except BaseException as error:
            self.failure = error
        for service in self._services:
            service.close()

    def _round(self):
        key = uuid.uuid4().hex
        decision = self._try(lambda experiment: experiment.ask(idempotency_key=key))
        self.decisions[key] = decision
        if decision.id.endswith("0"):  # the next instance gives the same decision
            assert self._try(lambda experiment: experiment.ask(idempotency_key=key)) == decision
        reward = float(number(decision.id) % 7)
        self._try(lambda experiment: experiment.tell(decision, reward))
        self.rewards[decision.id] = reward

    def _try(self, call):
        """Go from one instance to the next until one answers."""
        for _ in range(200):
            try:
                return call(next(self._instances))
            except ServiceUnavailable:
                self.retried += 1
        raise AssertionError("no instance is available")


def attack(database, services, seconds):
    """Kill an instance again and again, once the other one, and let the database crash."""
    moment = random.Random(2)
    victim, other = services
    kills, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(moment.uniform(0.3, 1.5))
        victim.kill()
        kills += 1
        if kills == 2:
            database.crash()
        victim.start()
        if kills == 4:
            other.kill()
            other.start()
    return kills


@pytest.fixture
def database():
    database = Restarts("postgresql")
    yield database
    database.end()


@pytest.fixture
def services(database, tmp_path):
    """Two instances on one database."""
    logs = [tmp_path / "first", tmp_path / "second"]
    services = [RunningService(database.url, "--rate", "0", log=log) for log in logs]
    yield services
    for service, log in zip(services, logs, strict=True):
        print(log.read_text()[-3000:])
        service.kill()


def load(services, key):
    """Clients that keep both instances busy."""
    urls = [each.url for each in services]
    clients = [Client(urls[place % 2 :] + urls[: place % 2], key) for place in range(6)]
    for client in clients:
        client.start()
    return clients


def acknowledged(clients):
    """Stop the clients; what they were told, decisions by key and rewards by id."""
    for client in clients:
        client.stopped.set()
    for client in clients:
        client.join(60.0)
        if client.failure is not None:
            raise client.failure
    decisions = {key: each for client in clients for key, each in client.decisions.items()}
    return decisions, {id: each for client in clients for id, each in client.rewards.items()}


def number(id):
    return int(id.rpartition("-")[2])


@pytest.mark.slow
def test_nothing_is_lost_and_nothing_counts_twice(database, services):
    key = services[0].key
    first, second = (rolf.connect(each.url, key) for each in services)
    first.create(NAME, features=FEATURES, policy="ucb", seed=3)
    clients = load(services, key)
    try:
        assert attack(database, services, 40.0) >= 4
    finally:
        decisions, rewards = acknowledged(clients)
    assert sum(client.retried for client in clients) > 0
    assert len(rewards) == len(decisions) > 200
    for service in (first, second):
        for asked in random.Random(3).sample(sorted(decisions), 20):
            assert service.experiment(NAME).ask(idempotency_key=asked) == decisions[asked]
    experiment = rolf.open_experiment(database.url, NAME)
    rows, labels = rows_of(experiment), roster_of(experiment).arms.labels
    made = {row.number: labels[row.arm] for row in rows if row.kind == DECISION}
    told = [(row.number, row.reward) for row in rows if row.kind == REWARD]
    assert made == {number(each.id): each.arm for each in decisions.values()}
    assert sorted(told) == sorted((number(id), each) for id, each in rewards.items())
    assert sum(row.kind == IDEMPOTENCY for row in rows) == len(decisions)
    assert sorted(made) == list(range(1, len(made) + 1))
    assert current_state(experiment) == folded_state(experiment)
    experiment.close()
    for service in services:
        assert service.stop() in (0, -signal.SIGTERM)
