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
from rolf.experiments.asking import Asking
from rolf.experiments.storage.contract import PART
from rolf.experiments.telling import Telling
from rolf.testing.storage import create_experiment, current_state, folded_state
from support.helpers import count_appends
from support.stores import KINDS, make_url

every_store = pytest.mark.parametrize("kind", KINDS)


@every_store
def test_together_as_one_after_the_other(kind, monkeypatch):
    settings = {"policy": "rolf-bayes", "options": {"rule": "sample"}, "seed": 5}
    together = create_experiment(make_url(kind), **settings)
    apart = create_experiment(make_url(kind), **settings)
    calls = [{}, {"n": 3}, {"available": [1, 2]}, {"key": "a"}, {"n": 2, "distinct": True}, {}]
    for _ in range(3):
        askings = [Asking(**{**call, "key": None}) for call in calls]
        sizes = count_appends(together, monkeypatch)
        together.serve_each(askings)
        assert sizes == [9]
        monkeypatch.undo()
        decided = []
        for call in calls:
            asked = apart.ask(**{**call, "key": None})
            decided += asked if isinstance(asked, list) else [asked]
        got = [decision for asking in askings for decision in asking.result()]
        assert [each.arm for each in got] == [each.arm for each in decided]
        assert [each.probability for each in got] == [each.probability for each in decided]
        rewards = [float(each.arm) for each in got]
        sizes = count_appends(together, monkeypatch)
        tellings = [Telling([pair]) for pair in zip(got, rewards, strict=True)]
        together.serve_each(tellings=tellings)
        assert sizes == [9]
        monkeypatch.undo()
        assert [telling.result() for telling in tellings] == [1] * 9
        apart.tell_many(zip(decided, rewards, strict=True))
    assert current_state(together) == folded_state(together)
    assert together.status().arms == apart.status().arms


@every_store
def test_the_same_key_twice_at_once(kind):
    experiment = create_experiment(make_url(kind), policy="ucb")
    askings = [Asking(key=key) for key in "aabca"] + [Asking(2, key="a"), Asking(n=2)]
    experiment.serve_each(askings)
    first = askings[0].result()
    assert askings[1].result() == askings[4].result() == first
    with pytest.raises(DifferentRequest):
        askings[5].result()
    assert len(askings[6].result()) == 2
    assert experiment.counts().asked == 5
    again = [Asking(key="b"), Asking(key="d")]
    experiment.serve_each(again)
    assert again[0].result() == askings[2].result()
    assert experiment.counts().asked == 6


@every_store
def test_mistakes_stay_with_those_who_make_them(kind):
    experiment = create_experiment(make_url(kind), policy="ucb")
    askings = [Asking(), Asking(available=["nobody"]), Asking(7, distinct=True), Asking(2)]
    experiment.serve_each(askings)
    for place in (1, 2):
        with pytest.raises(InvalidArgument):
            askings[place].result()
    [one], two = askings[0].result(), askings[3].result()
    tellings = [
        Telling({one.id: 1.0}),
        Telling({one.id: 2.0}),
        Telling({two[0].id: 1.0, "x-1": 1.0}),
        Telling({two[1].id: 0.5}),
        Telling({two[1].id: 0.5}),
        Telling({one.id: "much"}),
        Telling({}),
    ]
    experiment.serve_each(tellings=tellings)
    assert [tellings[place].result() for place in (0, 3, 4, 6)] == [1, 1, 0, 0]
    for place, error in ((1, AlreadyTold), (2, UnknownDecision), (5, InvalidArgument)):
        with pytest.raises(error):
            tellings[place].result()
    assert experiment.counts() == (3, 2)
    experiment.pause()
    paused = [Asking(), Asking(key="k")]
    experiment.serve_each(paused)
    for asking in paused:
        with pytest.raises(ExperimentPaused):
            asking.result()


@every_store
def test_what_was_decided_is_given_although_it_could_not_be_decided_now(kind):
    experiment = create_experiment(make_url(kind), policy="ucb")
    old = experiment.ask(key="k")
    experiment.pause()
    askings = [Asking(key="k"), Asking(key="new"), Asking(2, key="k")]
    experiment.serve_each(askings)
    assert askings[0].result() == [old]
    with pytest.raises(ExperimentPaused):
        askings[1].result()
    with pytest.raises(DifferentRequest):
        askings[2].result()


def test_large_requests_are_written_part_by_part(monkeypatch):
    experiment = create_experiment(make_url("sqlite"), policy="ucb")
    sizes = count_appends(experiment, monkeypatch)
    askings = [Asking(PART - 1), Asking(5), Asking(PART, key="k"), Asking(2 * PART)]
    experiment.serve_each(askings)
    assert max(sizes) <= PART + 1
    assert [len(asking.result()) for asking in askings] == [PART - 1, 5, PART, 2 * PART]
    assert current_state(experiment) == folded_state(experiment)


def test_two_processes_in_each_others_way():
    url = make_url("sqlite")
    one = create_experiment(url, policy="rolf-bayes")
    two = rolf.open_experiment(url, "one")
    seen = {}
    for round in range(20):
        for experiment in (one, two):
            askings = [Asking(key=f"{round}-{i}") for i in range(3)] + [Asking()]
            experiment.serve_each(askings)
            for i, asking in enumerate(askings[:3]):
                [decision] = asking.result()
                assert seen.setdefault((round, i), decision.id) == decision.id
            experiment.serve_each(
                tellings=[Telling([(asking.result()[0], 1.0)]) for asking in askings]
            )
    assert one.counts() == two.counts() == (100, 100)
    assert current_state(one) == folded_state(one)
    two.close()


def test_a_database_that_fails_is_everybodys_error(monkeypatch):
    url = make_url("sqlite")
    experiment = create_experiment(url, policy="ucb")
    decision = experiment.ask()

    def fail(*_):
        raise StorageUnavailable("gone for a moment")

    monkeypatch.setattr(experiment._store, "append", fail)
    askings, tellings = [Asking(), Asking()], [Telling({decision.id: 1.0})] * 2
    experiment.serve_each(askings)
    experiment.serve_each(tellings=tellings)
    for work in (*askings, *tellings):
        with pytest.raises(StorageUnavailable):
            work.result()
    monkeypatch.undo()
    experiment.tell(decision, 1.0)
    assert experiment.counts() == (1, 1)
    rolf.delete_experiment(url, "one", confirm="one")
    askings = [Asking(), Asking(key="k"), Asking(available=["added meanwhile"])]
    experiment.serve_each(askings)
    for asking in askings:
        with pytest.raises(UnknownExperiment):
            asking.result()


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
