"""Asks and rewards that come together: one write where nothing is in the way, and never two."""

from __future__ import annotations

import uuid
from datetime import timedelta

import pytest

import rolf
from rolf.errors import AlreadyTold, ExperimentPaused, InvalidArgument, UnknownDecision
from rolf.experiments.asking import Asking
from rolf.experiments.storage.contract import DECISION, REQUEST, REWARD
from rolf.experiments.telling import Telling
from rolf.testing.experiments import current_state, folded_state
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
    first, second = experiment.ask(2)
    sizes = writes(experiment)
    askings = [Asking(key="k"), Asking(2), Asking()]
    tellings = [Telling([(first, 1.0)]), Telling({second.id: 0.5})]
    experiment.serve_each(askings, tellings)
    assert sizes == [7]  # four decisions, the row of the key, two rewards
    assert [len(each.result()) for each in askings] == [1, 2, 1]
    assert [each.result() for each in tellings] == [1, 1]
    kinds = [row.kind for row in experiment.log()]
    assert kinds == [DECISION] * 3 + [REQUEST] + [DECISION] * 3 + [REWARD] * 2
    assert experiment.counts() == (6, 2)
    assert experiment.ask(key="k") == askings[0].decisions[0]
    assert current_state(experiment) == folded_state(experiment)


def test_the_same_decisions_as_one_after_the_other(url):
    together, apart = new(url), new(url)
    decisions = {each: each.ask(4) for each in (together, apart)}
    for number in range(3):
        asking = Asking(2)
        telling = Telling([(decisions[together][number], float(number))])
        together.serve_each([asking], [telling])
        asked = apart.ask(2)
        apart.tell(decisions[apart][number], float(number))
        assert [each.arm for each in asking.decisions] == [each.arm for each in asked]
    assert (together.estimates() == apart.estimates()).all()


def test_what_another_process_did_is_not_done_twice(url):
    """Rewards that were told elsewhere meanwhile, equal and different ones."""
    experiment = new(url)
    other = rolf.open_experiment(url, experiment.name)
    first, second, third = experiment.ask(3)
    other.tell(first, 1.0)
    other.tell(second, 1.0)
    asking = Asking()
    tellings = [Telling([(first, 1.0)]), Telling([(second, 2.0)]), Telling([(third, 3.0)])]
    experiment.serve_each([asking], tellings)
    assert tellings[0].result() == 0
    assert tellings[2].result() == 1
    with pytest.raises(AlreadyTold):
        tellings[1].result()
    assert asking.result()[0].id.endswith("-4")
    assert experiment.counts() == (4, 3)
    assert current_state(experiment) == folded_state(experiment)
    other.close()


def test_errors_stay_with_their_own(url):
    experiment = new(url)
    (decision,) = experiment.ask(1)
    askings = [Asking(available=["nobody"]), Asking()]
    tellings = [Telling([("nobody-1", 1.0)]), Telling([(decision, 1.0)]), Telling([(decision, 1)])]
    experiment.serve_each(askings, tellings)
    assert isinstance(askings[0].error, InvalidArgument)
    assert len(askings[1].result()) == 1
    assert isinstance(tellings[0].error, UnknownDecision)
    assert [each.result() for each in tellings[1:]] == [1, 0]
    experiment.pause()
    late = Telling([(askings[1].decisions[0], 1.0)])
    paused = Asking()
    experiment.serve_each([paused], [late])
    assert isinstance(paused.error, ExperimentPaused)
    assert late.result() == 1
    disagreeing = [Telling([(decision, 1.0)]), Telling([(decision, 2.0)])]
    experiment.serve_each([], disagreeing)
    assert disagreeing[0].result() == 0
    assert isinstance(disagreeing[1].error, AlreadyTold)
    assert experiment.counts() == (2, 2)


def test_late_rewards_replace_default_ones(url, monkeypatch):
    experiment = new(url, reward_after=timedelta(seconds=60), default_reward=0.5)
    (decision,) = experiment.ask(1)
    now = experiment._now()
    monkeypatch.setattr(experiment, "_now", lambda: now + 100.0)
    telling = Telling([(decision, 2.0)])
    experiment.serve_each([Asking()], [telling])  # the ask gives the default reward first
    assert telling.result() == 1
    assert experiment.status().total_reward == 2.0
    assert current_state(experiment) == folded_state(experiment)
