"""Snapshots are never believed: they must agree with the log."""

from __future__ import annotations

import json

import numpy as np
import pytest

import rolf
from rolf.errors import RolfWarning
from rolf.experiments.log import synced as live
from rolf.experiments.log.snapshot import FORMAT, seal, unseal
from rolf.experiments.storage.rows import (
    CORRECTION,
    DECISION,
    DEFAULT,
    HISTORY,
    IDEMPOTENCY,
    REWARD,
    ROSTER,
)
from rolf.policies.state.arrays import pack, unpack
from rolf.testing.experiments import rows_of
from rolf.testing.storage import (
    ARMS,
    FEATURES,
    create_experiment,
    current_state,
    folded_state,
    play,
)


def changed(data, *path, to):
    """The data with another value at a path of keys."""
    copy = json.loads(json.dumps(data))
    inner = copy
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = to
    return copy


def without(data, key):
    return {each: value for each, value in data.items() if each != key}


def saved(url, rounds):
    """An experiment, its store, its id there, and its snapshot."""
    experiment = create_experiment(url)
    play(experiment, rounds)
    experiment.snapshot()
    store, id = experiment.synced.store, experiment.record.id
    return experiment, store, id, store.snapshot(id)


def falsified(snapshot):
    """The data of a snapshot with wrong counts, which can be loaded all the same."""
    data = json.loads(unseal(snapshot))
    told = data["told"]
    rich = told.index(max(told))
    told[rich] -= 1
    told[rich - 1] += 1
    return data


def unusable_data(data):
    """The data of snapshots that are damaged or contradict the log."""
    yield from ("{}", "no JSON", "[]", json.dumps(data)[:-10])
    arrays = data["arrays"]
    short = pack(unpack(arrays["belief.sums"])[:-1])
    for damaged in (
        *(without(data, key) for key in data),
        {**data, "arrays": without(arrays, "clock")},
        changed(data, "arrays", "belief.sums", to=short),
        changed(data, "arrays", "belief.sums", to=["<f8", [ARMS], "?"]),
        changed(data, "arrays", "belief.more", to=short),
        changed(data, "asked", 0, to=data["asked"][0] + 5),
        changed(data, "told", 0, to=data["told"][0] + 5),
        changed(data, "told", 0, to=None),
        changed(data, "told", to=data["told"][1:]),
        changed(data, "defaults", to=3),
        changed(data, "requests", to=1),
        changed(data, "changes", to=-1),
        changed(data, "issued", to=2),
        changed(data, "issued", to="x"),
        changed(data, "issued", to=2**60),
        changed(data, "totals", "anchor", to="x"),
        changed(data, "totals", "sums", 0, to=1e999),
        changed(data, "arrays", "clock", to=pack(np.array([-1, 5]))),
        changed(data, "arrays", "belief.sums", to=pack(np.full(ARMS, np.nan))),
        changed(data, "row", to=[1, 1, 1.0]),
        changed(data, "totals", "sums", to=[0.0]),
        changed(data, "pending", to=[["x", 1.0]]),
        changed(data, "pending", to=[pack(np.array([1, 2])), pack(np.array([1.0]))]),
        changed(data, "pending", to=[pack(np.array([1.5])), pack(np.array([1.0]))]),
        changed(data, "table", to="{}"),
    ):
        yield json.dumps(damaged)


def test_a_damaged_snapshot_is_not_used(url):
    """The log is right. Wrong counts beside the damage would show if it were used."""
    experiment, store, id, snapshot = saved(url, 20)
    wrong = falsified(snapshot)
    state = snapshot.state
    flipped = [state[:100] + chr(ord(state[100]) ^ 1) + state[101:], state[:-1], ""]
    for text in unusable_data(wrong):
        flipped.append(seal(snapshot.upto, text).state)
    moved = [seal(upto, json.dumps(wrong)) for upto in (3, snapshot.upto + 1, 10**9)]
    for each in [*(snapshot._replace(state=text) for text in flipped), *moved]:
        store.save(id, each)
        with pytest.warns(RolfWarning, match="'one' is damaged .* recomputed from the log"):
            again = rolf.open_experiment(url, "one")
        assert current_state(again) == folded_state(experiment)
        assert store.snapshot(id) is None
    store.save(id, seal(snapshot.upto, json.dumps(wrong)))  # would have been noticed
    again = rolf.open_experiment(url, "one")
    assert current_state(again) != folded_state(experiment)
    again.rebuild()
    assert current_state(again) == folded_state(experiment)


def test_rows_of_every_kind_fit_a_snapshot(url):
    """Saved and opened again after each: whatever the log holds, its snapshot is used."""
    experiment = create_experiment(url, reward_after=60.0)
    decision = experiment.ask()
    steps = [
        lambda: experiment.tell(decision, 1.0),
        lambda: experiment.ask_many(2, idempotency_key="a"),
        lambda: experiment.learn([0, 1], [0.5, 1.0]),
        lambda: experiment.correct(decision, 0.25, reason="a test"),
        lambda: experiment.add_arms(FEATURES[:1]),
        lambda: experiment.pause(),
        lambda: experiment.resume(),
        lambda: experiment.ask(idempotency_key="b"),  # two minutes later
    ]
    now = experiment.synced.store.now
    for step in steps:
        experiment.synced.now = lambda step=step: now() + 120.0 * (step is steps[-1])
        step()
        experiment.snapshot()
        snapshot = experiment.synced.store.snapshot(experiment.record.id)
        again = rolf.open_experiment(url, "one")  # a warning would be an error
        assert again.synced.store.snapshot(experiment.record.id) == snapshot
        assert current_state(again) == folded_state(experiment)
    kinds = {row.kind for row in rows_of(experiment)}
    assert kinds == {IDEMPOTENCY, DECISION, REWARD, DEFAULT, ROSTER, HISTORY, CORRECTION}


def test_a_zero_with_a_sign_is_a_zero(url):
    experiment = create_experiment(url)
    experiment.tell(experiment.ask(), -0.0)
    assert current_state(experiment) == folded_state(experiment)


def test_a_snapshot_of_another_format_is_replaced(url, monkeypatch):
    experiment, store, id, snapshot = saved(url, 20)
    for version in ("", "0.1.0", str(FORMAT - 1), str(FORMAT + 1)):
        store.save(id, snapshot._replace(version=version, state="of another kind"))
        assert current_state(rolf.open_experiment(url, "one")) == folded_state(experiment)
    monkeypatch.setattr(live, "SNAPSHOT_INTERVAL", 5)
    rolf.open_experiment(url, "one")
    assert store.snapshot(id) == snapshot


def test_rebuilding_overrules_any_snapshot(url, monkeypatch):
    """One that claims to know more than the log, and one that another process saves meanwhile."""
    experiment, store, id, snapshot = saved(url, 5)
    wrong = seal(snapshot.upto, json.dumps(falsified(snapshot)))
    forget = store.forget

    def forget_and_save_again(experiment):
        forget(experiment)
        store.save(experiment, wrong)

    store.save(id, wrong._replace(upto=wrong.upto + 1000))
    monkeypatch.setattr(store, "forget", forget_and_save_again)
    experiment.rebuild()
    assert store.snapshot(id) == snapshot
    assert current_state(experiment) == folded_state(experiment)
