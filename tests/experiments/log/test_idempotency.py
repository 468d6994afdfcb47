"""Asking again with the same key, and pausing."""

from __future__ import annotations

import multiprocessing

import numpy as np
import pandas as pd
import pytest

import rolf
from rolf.errors import DifferentRequest, ExperimentPaused, InvalidArgument, UnknownExperiment
from rolf.experiments.log import idempotency as requests
from rolf.experiments.storage.rows import DECISION, IDEMPOTENCY
from rolf.testing.experiments import rows_of
from rolf.testing.storage import create_experiment, current_state, folded_state, play
from support.helpers import FEATURES, delete_decisions
from support.stores import KINDS, make_url

every_store = pytest.mark.parametrize("kind", KINDS)
shared_stores = pytest.mark.parametrize("kind", KINDS[1:])


@every_store
def test_the_same_key_gives_the_same_decisions(kind):
    url = make_url(kind)
    experiment = create_experiment(url, policy="rolf-bayes")
    one, two = experiment.ask(idempotency_key="a"), experiment.ask(idempotency_key="b")
    assert one.id != two.id
    several = experiment.ask_many(3, idempotency_key="c", available=[0, 1])
    experiment.tell(one, 1.0)
    other = rolf.open_experiment(url, "one")
    for handle in (experiment, other):
        assert handle.ask(idempotency_key="a") == one
        assert handle.ask(idempotency_key="b") == two
        assert handle.ask_many(3, idempotency_key="c", available=[0, 1]) == several
    assert other.counts().asked == 5
    other.tell(one, 1.0)
    assert [row.kind for row in rows_of(other)].count(IDEMPOTENCY) == 3
    assert current_state(other) == folded_state(other)


@every_store
def test_a_key_is_for_one_request(kind):
    experiment = create_experiment(make_url(kind), policy="ucb")
    experiment.ask(idempotency_key="a")
    for different in ({"n": 2}, {"available": [1]}, {"distinct": True}):
        with pytest.raises(DifferentRequest, match="different request"):
            experiment.ask_many(**{"n": 1, **different}, idempotency_key="a")
    assert experiment.counts().asked == 1


@pytest.mark.parametrize(
    ("first", "again"),
    [
        ({}, {"n": 1}),
        ({"available": [0, 2, 1]}, {"available": {2, 1, 0}}),
        ({"available": np.array([1, 0])}, {"available": [0.0, 1]}),
        ({"context": {"age": 1}}, {"context": {"age": 1.0}}),
    ],
)
def test_the_same_in_other_words_is_one_request(first, again):
    context = ["age"] if "context" in first else None
    experiment = create_experiment(make_url("memory"), policy=None, context=context)
    decision = experiment.ask(idempotency_key="a", **first)
    assert experiment.ask_many(**{"n": 1, **again}, idempotency_key="a") == [decision]
    assert experiment.counts().asked == 1


@pytest.mark.parametrize("context", [{("age",): 1.0}, {1: 2.0, "age": 3.0}, {"age": {"age"}}])
def test_a_key_leaves_what_is_wrong_to_the_ask(context):
    experiment = create_experiment(make_url("memory"), policy=None, context=["age"])
    with pytest.raises(InvalidArgument, match="context"):
        experiment.ask(idempotency_key="a", context=context)


def test_booleans_that_choose_arms_keep_their_order():
    experiment = create_experiment(make_url("memory"), policy="ucb")
    mask = np.arange(len(FEATURES)) == 1
    experiment.ask(idempotency_key="a", available=mask)
    with pytest.raises(DifferentRequest):
        experiment.ask(idempotency_key="a", available=mask[::-1])


@pytest.mark.parametrize("key", ["", "\n", "a" * 256, 7, "\ud800", b"a"])
def test_what_is_no_key_is_refused(key):
    experiment = create_experiment(make_url("memory"), policy="ucb")
    with pytest.raises(InvalidArgument, match="key: got"):
        experiment.ask(idempotency_key=key)
    with pytest.raises(InvalidArgument, match="n: got 1001"):
        experiment.ask_many(1001, idempotency_key="a")
    assert experiment.counts().asked == 0


def test_a_request_is_answered_although_it_could_not_be_made_now():
    experiment = create_experiment(make_url("sqlite"), policy="ucb")
    decision = experiment.ask(idempotency_key="a", available=[2])
    experiment.retire_arms([2])
    assert experiment.ask(idempotency_key="a", available=[2]) == decision
    experiment.pause()
    assert experiment.ask(idempotency_key="a", available=[2]) == decision
    with pytest.raises(ExperimentPaused):
        experiment.ask(idempotency_key="b")


def test_keys_whose_places_are_taken_by_others(monkeypatch):
    monkeypatch.setattr(requests, "FIRST", 2)  # the numbers 2 and 3, for all keys
    monkeypatch.setattr(requests.Request, "__init__", _with_few_places)
    experiment = create_experiment(make_url("sqlite"), policy="ucb")
    experiment.ask_many(5)
    decisions = {key: experiment.ask(idempotency_key=key) for key in "abc"}
    assert len({decision.id for decision in decisions.values()}) == 3
    assert {key: experiment.ask(idempotency_key=key) for key in "abc"} == decisions


def _with_few_places(self, key, **arguments):
    self.key, self.arguments = key, ""
    self.numbers = [2**62, 2**62 + 1, 2**62 + 2]


def test_features_and_contexts_are_part_of_a_request():
    url = make_url("sqlite")
    experiment = create_experiment(url, policy="rolf-bayes-varying")
    rng = np.random.default_rng(0)
    table = rng.normal(size=FEATURES.shape)
    one = experiment.ask(idempotency_key="a", features=table)
    assert experiment.ask(idempotency_key="a", features=table.tolist()) == one
    assert experiment.ask(idempotency_key="a", features=pd.DataFrame(table)) == one
    with pytest.raises(DifferentRequest):
        experiment.ask(idempotency_key="a", features=table + 1.0)
    crowd = rolf.open_experiment(url, "crowd", features=FEATURES, context=["age"])
    one = crowd.ask(idempotency_key="a", context={"age": 0.5})
    assert crowd.ask(idempotency_key="a", context={"age": 0.5}) == one
    with pytest.raises(DifferentRequest):
        crowd.ask(idempotency_key="a", context={"age": 0.6})


def _ask_all(url, barrier, queue):
    with rolf.open_experiment(url, "one") as experiment:
        barrier.wait()
        queue.put([experiment.ask(idempotency_key=f"key {number}").id for number in range(40)])


@shared_stores
def test_processes_that_ask_at_the_same_time_get_the_same(kind):
    url = make_url(kind)
    create_experiment(url, policy="ucb").close()
    context = multiprocessing.get_context("spawn")
    barrier, queue = context.Barrier(3), context.Queue()
    processes = [context.Process(target=_ask_all, args=(url, barrier, queue)) for _ in range(3)]
    for process in processes:
        process.start()
    answers = [queue.get(timeout=60) for _ in processes]
    for process in processes:
        process.join()
    assert answers[0] == answers[1] == answers[2]
    with rolf.open_experiment(url, "one") as experiment:
        kinds = [row.kind for row in rows_of(experiment)]
    assert kinds.count(DECISION) == kinds.count(IDEMPOTENCY) == 40


@shared_stores
def test_a_request_whose_decisions_are_being_deleted(kind):
    experiment = create_experiment(make_url(kind), policy="ucb")
    experiment.ask(idempotency_key="a")
    experiment.pause()
    delete_decisions(experiment)
    with pytest.raises(UnknownExperiment):
        experiment.ask(idempotency_key="a")


def test_an_export_has_every_decision_and_a_backup_keeps_a_pause(tmp_path):
    url = make_url("sqlite")
    experiment = create_experiment(url, policy="ucb")
    play(experiment, 5)
    experiment.ask_many(2, idempotency_key="a")
    experiment.pause()
    assert experiment.export(tmp_path / "log.parquet") == 7
    experiment.backup(tmp_path / "copy.db")
    backup = f"sqlite:///{tmp_path}/copy.db"
    copy = rolf.open_experiment(backup, "one")
    assert copy.paused
    copy.resume()
    assert not rolf.open_experiment(backup, "one").paused
    assert rolf.open_experiment(backup, "one").counts() == experiment.counts()
    assert experiment.status(timeline=True).timeline


@every_store
def test_a_paused_experiment_decides_nothing(kind):
    url = make_url(kind)
    experiment = create_experiment(url, policy="rolf-bayes")
    other = rolf.open_experiment(url, "one")
    waiting = experiment.ask()
    for _ in range(2):
        experiment.pause()
    assert other.paused
    for handle in (experiment, other, rolf.open_experiment(url, "one")):
        with pytest.raises(ExperimentPaused, match="paused"):
            handle.ask()
    other.tell(waiting, 1.0)
    assert other.status().paused
    assert other.probability_best().sum() == pytest.approx(1.0)
    assert "; paused" in str(other.status())
    other.add_arms(FEATURES[:1])
    other.snapshot()
    reopened = rolf.open_experiment(url, "one")
    assert reopened.paused
    for _ in range(2):
        reopened.resume()
    assert not experiment.paused
    assert experiment.ask().id != waiting.id
    assert [row.parsed for row in rows_of(experiment) if "paused" in (row.details or "")] == [
        {"paused": True},
        {"paused": False},
    ]
    assert current_state(experiment) == folded_state(experiment)
