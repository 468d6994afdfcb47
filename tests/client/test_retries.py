"""The client of the service when connections fail: everything is tried again, nothing twice."""

from __future__ import annotations

import asyncio
import itertools
import random
import socket
import time
import uuid
from email.utils import formatdate

import httpx
import pytest

import rolf
from rolf.client import exchange
from rolf.errors import ServiceError, ServiceUnavailable, StorageUnavailable
from rolf.testing.service import free_port
from support.proxies import AFTER, BEFORE

FEATURES = [[0.0, 1.0], [1.0, 0.5], [0.3, 0.2]]


def new(service):
    return service.create(f"e {uuid.uuid4().hex}", features=FEATURES, policy="ucb", seed=7)


@pytest.fixture
def impatient(monkeypatch):
    """Clients that try again soon."""
    monkeypatch.setattr(exchange, "FIRST_PAUSE", 0.002)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("fault", [BEFORE, AFTER, (503, {})])
def test_nothing_is_counted_twice(proxy, running, fault):
    service = rolf.connect(proxy.url, running.key)
    experiment = new(service)
    proxy.faults += [fault] * 2
    decision = experiment.ask()
    proxy.faults += [fault]
    experiment.tell(decision, 1.0)
    proxy.faults += [fault]
    experiment.tell_many([(each, 0.5) for each in experiment.ask_many(3)])
    proxy.faults += [fault]
    experiment.correct(decision, 2.0, "a slip")
    proxy.faults += [fault]
    assert experiment.learn([0, 1], [1.0, 2.0]) == 2
    assert experiment.learn([0, 1], [1.0, 2.0]) == 2
    proxy.faults += [fault]
    experiment.pause()
    proxy.faults += [fault]
    experiment.resume()
    status = experiment.status()
    assert (status.asked, status.told, status.pending, status.history) == (4, 4, 0, 4)
    assert status.total_reward == 3.5
    proxy.faults += [fault]
    experiment.delete(confirm=experiment.name)
    keys = [seen[2]["Idempotency-Key"] for seen in proxy.seen if seen[1].endswith("/ask")]
    assert len(keys) == 5
    assert len(set(keys)) == 2  # the same over the attempts of an ask, and another for the next
    service.close()


@pytest.mark.usefixtures("impatient")
def test_the_same_for_coroutines(proxy, running):
    async def visitor(experiment):
        decision = await experiment.aask()
        await experiment.atell(decision, 1.0)
        return decision.id

    async def visit():
        async with rolf.connect(proxy.url, running.key) as service:
            experiment = await service.acreate(
                uuid.uuid4().hex, features=FEATURES, policy="ucb", seed=1
            )
            chance = random.Random(1)
            proxy.faults += [chance.choice([BEFORE, AFTER, None]) for _ in range(40)]
            ids = await asyncio.gather(*(visitor(experiment) for _ in range(20)))
            return ids, await experiment.acounts()

    ids, counts = asyncio.run(visit())
    assert len(set(ids)) == 20
    assert counts == (20, 20)


def test_arms_without_names_are_not_added_twice(proxy, running):
    with rolf.connect(proxy.url, running.key) as service:
        experiment = new(service)
        proxy.faults += [AFTER]
        with pytest.raises(ServiceUnavailable, match="may have been done"):
            experiment.add_arms([[1.0, 1.0]])
        assert len(experiment.arm_table()) == 4
        proxy.faults += [(429, {})]
        assert experiment.add_arms([[1.0, 1.0]]) == [4]


def test_a_service_that_is_gone(running):
    with rolf.connect(f"http://127.0.0.1:{free_port()}", running.key, timeout=0.5) as service:
        start = time.monotonic()
        with pytest.raises(StorageUnavailable, match="cannot be reached") as raised:
            service.experiment("e").ask()
        assert 0.1 < time.monotonic() - start < 1.0
        assert isinstance(raised.value, ServiceUnavailable)


def test_an_answer_that_does_not_come(running):
    """A server that accepts connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with rolf.connect(url, running.key, timeout=0.6) as service:
            start = time.monotonic()
            with pytest.raises(ServiceUnavailable, match=r"given up after 0\.6 s"):
                service.experiment("e").ask()
            assert time.monotonic() - start < 1.2


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_what_is_tried_again(status):
    steps = exchange.exchange(one_request(), 60.0)
    attempt = next(steps)
    assert steps.send(httpx.Response(status)).request is attempt.request


def test_nobody_waits_for_what_comes_too_late(proxy, running):
    with rolf.connect(proxy.url, running.key) as service:
        proxy.faults += [(503, {"Retry-After": "3600"})]
        start = time.monotonic()
        with pytest.raises(ServiceUnavailable, match="given up after 30 s"):
            service.experiment("e").ask()
        assert time.monotonic() - start < 5.0


def test_the_service_says_when():
    date = formatdate(time.time() + 7.9, usegmt=True)
    for later, known in (("7", True), (date, True), ("soon", False), ("-3", False)):
        steps = exchange.exchange(one_request(), 60.0)
        next(steps)
        pause = steps.send(httpx.Response(429, headers={"Retry-After": later})).pause
        assert (pause > 5.0) == known, later
        assert pause <= 8.0


def one_request():
    yield exchange.Request("GET", "/")


def test_pauses_grow_and_end(monkeypatch):
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    steps = exchange.exchange(one_request(), 60.0)
    attempt, pauses = next(steps), []

    def fail_on():
        nonlocal attempt, now
        while True:
            now += attempt.pause + 0.01
            attempt = steps.send(httpx.ConnectError("no"))
            pauses.append(attempt.pause)
            assert attempt.timeout <= 20.0

    with pytest.raises(ServiceUnavailable):
        fail_on()
    assert 0.05 <= pauses[0] <= 0.1
    assert max(pauses) <= exchange.LONGEST_PAUSE
    assert all(after >= 0.99 * before for before, after in itertools.pairwise(pauses[:6]))
    assert 50.0 < sum(pauses) < 60.0
    assert len(pauses) < 30


@pytest.mark.parametrize("status", [200, 302, 400, 404, 418, 500])
@pytest.mark.parametrize("body", ["<html>", "{}", "[]", '{"type": 3, "errors": [4]}'])
def test_answers_that_no_service_gives(proxy, running, status, body):
    with rolf.connect(proxy.url, running.key) as service:
        proxy.faults += [(status, {"Location": "/elsewhere"}, body)]
        with pytest.raises(ServiceError):
            service.experiment("e").ask()
        assert len(proxy.seen) == 1  # tried once
