"""The client and a service that takes less at a time than is asked for."""

from __future__ import annotations

import asyncio

import pytest

import rolf
from rolf.errors import RequestTooLarge
from support.served import service

FEATURES = [[0.0, 1.0], [1.0, 0.5], [0.3, 0.2]]


@pytest.fixture(scope="module")
def small():
    """The address and key of a service that takes 70 decisions at a time."""
    with service(max_batch=70, max_body=100_000, rate=0.0) as client:
        yield client.base_url, client.headers["authorization"].partition(" ")[2]


@pytest.fixture
def connected(small):
    with rolf.connect(str(small[0]), small[1]) as connected:
        yield connected


def test_as_much_is_sent_at_a_time_as_the_service_takes(connected):
    experiment = connected.create("asks", features=FEATURES, policy="ucb")
    decisions = experiment.ask_many(500)
    assert [int(each.id.rpartition("-")[2]) for each in decisions] == list(range(1, 501))
    assert experiment.tell_many([(each, 1.0) for each in decisions]) == 500
    assert experiment.tell_many([(each, 1.0) for each in decisions]) == 0
    assert experiment.counts() == (500, 500)


def test_rewards_alone_are_split_too(connected):
    experiment = connected.create("tells", features=FEATURES, policy="ucb")
    decisions = [each for _ in range(3) for each in experiment.ask_many(50)]

    async def tell():
        async with rolf.connect(
            connected.url, connected.transport.headers["Authorization"][7:]
        ) as other:
            return await other.experiment("tells").atell_many([(each, 1.0) for each in decisions])

    assert asyncio.run(tell()) == 150


def test_what_cannot_be_split_says_how_much_is_too_much(connected):
    experiment = connected.create("whole", features=FEATURES, policy="ucb")
    with pytest.raises(RequestTooLarge, match="71 decisions; up to 70 at a time"):
        experiment.ask_many(71, idempotency_key="visit-1")
    with pytest.raises(RequestTooLarge, match="701 rounds; up to 700 at a time"):
        experiment.learn([0] * 701, [1.0] * 701)
    with pytest.raises(RequestTooLarge, match="71 arms; up to 70 at a time"):
        connected.create("many", features=[[float(i)] for i in range(71)])
    with pytest.raises(RequestTooLarge, match="more than 100000 bytes"):
        experiment.ask_many(100, features=[[0.123456789] * 900] * 20)
    assert len(experiment.ask_many(70, idempotency_key="visit-2")) == 70
    assert experiment.counts() == (70, 0)
    assert experiment.transport.part == 1_000  # a body too large says nothing of the numbers


def test_decisions_that_store_large_features_are_asked_for_in_parts(connected):
    table = [[0.5] * 200] * 20
    experiment = connected.create("wide", features=table, policy="linucb-varying")
    with pytest.raises(RequestTooLarge, match=r"280000 numbers .* up to 70000 at a time"):
        experiment.ask_many(70, features=table, idempotency_key="visit-1")
    assert len(experiment.ask_many(70, features=table)) == 70
    assert experiment.counts() == (70, 0)
    assert experiment.transport.part == 1_000
