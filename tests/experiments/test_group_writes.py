"""Asks and rewards that come together are written together, and are what they would be alone."""

from __future__ import annotations

import pytest

import rolf
from rolf.errors import (
    AlreadyTold,
    DifferentRequest,
    ExperimentPaused,
    InvalidArgument,
    StorageUnavailable,
    UnknownDecision,
    UnknownExperiment,
)
from rolf.experiments.batch import Ask, Tell
from rolf.experiments.storage.contract import PART
from rolf.testing.storage import create_experiment, current_state, folded_state
from support.helpers import count_appends
from support.stores import KINDS, make_url

every_store = pytest.mark.parametrize("kind", KINDS)


@every_store
def test_together_as_one_after_the_other(kind, monkeypatch):
    settings = {"policy": "rolf-bayes", "options": {"rule": "sample"}, "seed": 5}
    together = create_experiment(make_url(kind), **settings)
    apart = create_experiment(make_url(kind), **settings)
    calls = [
        {},
        {"n": 3},
        {"available": [1, 2]},
        {},
        {"n": 2, "distinct": True},
        {},
    ]
    for _ in range(3):
        asks = [Ask(**call) for call in calls]
        sizes = count_appends(together, monkeypatch)
        together.submit(asks)
        assert sizes == [9]
        monkeypatch.undo()
        decided = []
        for call in calls:
            asked = apart.ask_many(**{"n": 1, **call})
            decided += asked
        got = [decision for ask in asks for decision in ask.result()]
        assert [each.arm for each in got] == [each.arm for each in decided]
        assert [each.probability for each in got] == [each.probability for each in decided]
        rewards = [float(each.arm) for each in got]
        sizes = count_appends(together, monkeypatch)
        tells = [Tell([pair]) for pair in zip(got, rewards, strict=True)]
        together.submit(tells=tells)
        assert sizes == [9]
        monkeypatch.undo()
        assert [tell.result() for tell in tells] == [1] * 9
        apart.tell_many(zip(decided, rewards, strict=True))
    assert current_state(together) == folded_state(together)
    assert together.status().arms == apart.status().arms


@every_store
def test_the_same_key_twice_at_once(kind):
    experiment = create_experiment(make_url(kind), policy="ucb")
    asks = [Ask(idempotency_key=key) for key in "aabca"] + [Ask(2, idempotency_key="a"), Ask(n=2)]
    experiment.submit(asks)
    first = asks[0].result()
    assert asks[1].result() == asks[4].result() == first
    with pytest.raises(DifferentRequest):
        asks[5].result()
    assert len(asks[6].result()) == 2
    assert experiment.counts().asked == 5
    again = [Ask(idempotency_key="b"), Ask(idempotency_key="d")]
    experiment.submit(again)
    assert again[0].result() == asks[2].result()
    assert experiment.counts().asked == 6


@every_store
def test_mistakes_stay_with_those_who_make_them(kind):
    experiment = create_experiment(make_url(kind), policy="ucb")
    asks = [Ask(), Ask(available=["nobody"]), Ask(7, distinct=True), Ask(2)]
    experiment.submit(asks)
    for place in (1, 2):
        with pytest.raises(InvalidArgument):
            asks[place].result()
    [one], two = asks[0].result(), asks[3].result()
    tells = [
        Tell({one.id: 1.0}),
        Tell({one.id: 2.0}),
        Tell({two[0].id: 1.0, "x-1": 1.0}),
        Tell({two[1].id: 0.5}),
        Tell({two[1].id: 0.5}),
        Tell({one.id: "much"}),
        Tell({}),
    ]
    experiment.submit(tells=tells)
    assert [tells[place].result() for place in (0, 3, 4, 6)] == [1, 1, 0, 0]
    for place, error in ((1, AlreadyTold), (2, UnknownDecision), (5, InvalidArgument)):
        with pytest.raises(error):
            tells[place].result()
    assert experiment.counts() == (3, 2)
    experiment.pause()
    paused = [Ask(), Ask(idempotency_key="k")]
    experiment.submit(paused)
    for ask in paused:
        with pytest.raises(ExperimentPaused):
            ask.result()


@every_store
def test_what_was_decided_is_given_although_it_could_not_be_decided_now(kind):
    experiment = create_experiment(make_url(kind), policy="ucb")
    old = experiment.ask(idempotency_key="k")
    experiment.pause()
    asks = [Ask(idempotency_key="k"), Ask(idempotency_key="new"), Ask(2, idempotency_key="k")]
    experiment.submit(asks)
    assert asks[0].result() == [old]
    with pytest.raises(ExperimentPaused):
        asks[1].result()
    with pytest.raises(DifferentRequest):
        asks[2].result()


def test_large_requests_are_written_part_by_part(monkeypatch):
    experiment = create_experiment(make_url("sqlite"), policy="ucb")
    sizes = count_appends(experiment, monkeypatch)
    asks = [Ask(PART - 1), Ask(5), Ask(PART, idempotency_key="k"), Ask(2 * PART)]
    experiment.submit(asks)
    assert max(sizes) <= PART + 1
    assert [len(ask.result()) for ask in asks] == [PART - 1, 5, PART, 2 * PART]
    assert current_state(experiment) == folded_state(experiment)


def test_two_processes_in_each_others_way():
    url = make_url("sqlite")
    one = create_experiment(url, policy="rolf-bayes")
    two = rolf.open_experiment(url, "one")
    seen = {}
    for round in range(20):
        for experiment in (one, two):
            asks = [Ask(idempotency_key=f"{round}-{i}") for i in range(3)] + [Ask()]
            experiment.submit(asks)
            for i, ask in enumerate(asks[:3]):
                [decision] = ask.result()
                assert seen.setdefault((round, i), decision.id) == decision.id
            experiment.submit(tells=[Tell([(ask.result()[0], 1.0)]) for ask in asks])
    assert one.counts() == two.counts() == (100, 100)
    assert current_state(one) == folded_state(one)
    two.close()


def test_a_database_that_fails_is_everybodys_error(monkeypatch):
    url = make_url("sqlite")
    experiment = create_experiment(url, policy="ucb")
    decision = experiment.ask()

    def fail(*_):
        raise StorageUnavailable("gone for a moment")

    monkeypatch.setattr(experiment.synced.store, "append", fail)
    asks, tells = [Ask(), Ask()], [Tell({decision.id: 1.0})] * 2
    experiment.submit(asks)
    experiment.submit(tells=tells)
    for work in (*asks, *tells):
        with pytest.raises(StorageUnavailable):
            work.result()
    monkeypatch.undo()
    experiment.tell(decision, 1.0)
    assert experiment.counts() == (1, 1)
    rolf.connect(url).delete("one", confirm="one")
    asks = [Ask(), Ask(idempotency_key="k"), Ask(available=["added meanwhile"])]
    experiment.submit(asks)
    for ask in asks:
        with pytest.raises(UnknownExperiment):
            ask.result()


def test_rows_by_column_are_a_table():
    rows = [
        {"arm": "a", "width": 1.0, "colour": "red"},
        {"arm": "b", "width": 2.5, "colour": "blue"},
        {"arm": "c", "width": "3", "colour": "red", "new": True},
    ]
    with pytest.warns(rolf.errors.RolfWarning, match="new"):
        arms = rolf.read_arms(rows)
    assert arms.labels == ["a", "b", "c"]
    assert "width" in arms.columns
    policy = rolf.UCB([{"arm": "x", "w": 1}, {"arm": "y", "w": 2}], seed=0)
    assert policy.ask().arm in ("x", "y")
    with pytest.raises(InvalidArgument, match="x"):
        rolf.read_arms([{"arm": "a", "x": [1]}, {"arm": "b", "x": [2]}])
