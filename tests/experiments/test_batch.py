"""Asks and rewards that come together: one write where nothing is in the way, and never two."""

from __future__ import annotations

import uuid
from datetime import timedelta

import pytest

import rolf
from rolf.errors import AlreadyTold, ExperimentPaused, InvalidArgument, UnknownDecision
from rolf.experiments.batch import Ask, Tell
from rolf.experiments.storage.rows import DECISION, IDEMPOTENCY, REWARD
from rolf.testing.experiments import current_state, folded_state, rows_of
from support.helpers import count_appends

FEATURES = [[0.0, 1.0], [1.0, 0.5], [0.3, 0.2]]


def new(url, **settings):
    settings = {"policy": "rolf-ridge", "seed": 5, **settings}
    return rolf.open_experiment(url, uuid.uuid4().hex, features=FEATURES, **settings)


@pytest.fixture
def writes(monkeypatch):
    """How many rows each write has."""
    return lambda experiment: count_appends(experiment, monkeypatch)


def test_one_write_for_all(url, writes):
    experiment = new(url)
    first, second = experiment.ask_many(2)
    sizes = writes(experiment)
    asks = [Ask(idempotency_key="k"), Ask(2), Ask()]
    tells = [Tell([(first, 1.0)]), Tell({second.id: 0.5})]
    experiment.submit(asks, tells)
    assert sizes == [7]  # four decisions, the row of the key, two rewards
    assert [len(each.result()) for each in asks] == [1, 2, 1]
    assert [each.result() for each in tells] == [1, 1]
    kinds = [row.kind for row in rows_of(experiment)]
    assert kinds == [DECISION] * 3 + [IDEMPOTENCY] + [DECISION] * 3 + [REWARD] * 2
    assert experiment.counts() == (6, 2)
    assert experiment.ask(idempotency_key="k") == asks[0].decisions[0]
    assert current_state(experiment) == folded_state(experiment)


def test_the_same_decisions_as_one_after_the_other(url):
    together, apart = new(url), new(url)
    decisions = {each: each.ask_many(4) for each in (together, apart)}
    for number in range(3):
        ask = Ask(2)
        tell = Tell([(decisions[together][number], float(number))])
        together.submit([ask], [tell])
        asked = apart.ask_many(2)
        apart.tell(decisions[apart][number], float(number))
        assert [each.arm for each in ask.decisions] == [each.arm for each in asked]
    assert (together.estimates() == apart.estimates()).all()


def test_what_another_process_did_is_not_done_twice(url):
    """Rewards that were told elsewhere meanwhile, equal and different ones."""
    experiment = new(url)
    other = rolf.open_experiment(url, experiment.name)
    first, second, third = experiment.ask_many(3)
    other.tell(first, 1.0)
    other.tell(second, 1.0)
    ask = Ask()
    tells = [Tell([(first, 1.0)]), Tell([(second, 2.0)]), Tell([(third, 3.0)])]
    experiment.submit([ask], tells)
    assert tells[0].result() == 0
    assert tells[2].result() == 1
    with pytest.raises(AlreadyTold):
        tells[1].result()
    assert ask.result()[0].id.endswith("-4")
    assert experiment.counts() == (4, 3)
    assert current_state(experiment) == folded_state(experiment)
    other.close()


def test_errors_stay_with_their_own(url):
    experiment = new(url)
    (decision,) = experiment.ask_many(1)
    asks = [Ask(available=["nobody"]), Ask()]
    tells = [Tell([("nobody-1", 1.0)]), Tell([(decision, 1.0)]), Tell([(decision, 1)])]
    experiment.submit(asks, tells)
    assert isinstance(asks[0].error, InvalidArgument)
    assert len(asks[1].result()) == 1
    assert isinstance(tells[0].error, UnknownDecision)
    assert [each.result() for each in tells[1:]] == [1, 0]
    experiment.pause()
    late = Tell([(asks[1].decisions[0], 1.0)])
    paused = Ask()
    experiment.submit([paused], [late])
    assert isinstance(paused.error, ExperimentPaused)
    assert late.result() == 1
    disagreeing = [Tell([(decision, 1.0)]), Tell([(decision, 2.0)])]
    experiment.submit([], disagreeing)
    assert disagreeing[0].result() == 0
    assert isinstance(disagreeing[1].error, AlreadyTold)
    assert experiment.counts() == (2, 2)


def test_late_rewards_replace_default_ones(url, monkeypatch):
    experiment = new(url, reward_after=timedelta(seconds=60), default_reward=0.5)
    (decision,) = experiment.ask_many(1)
    now = experiment.synced.now()
    monkeypatch.setattr(experiment.synced, "now", lambda: now + 100.0)
    tell = Tell([(decision, 2.0)])
    experiment.submit([Ask()], [tell])  # the ask gives the default reward first
    assert tell.result() == 1
    assert experiment.status().total_reward == 2.0
    assert current_state(experiment) == folded_state(experiment)
