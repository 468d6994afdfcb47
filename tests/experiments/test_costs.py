"""What calls cost in a long log, how long others wait, and what is left behind."""

from __future__ import annotations

import gc
import sqlite3
import threading
import time
from contextlib import closing

import numpy as np
import psycopg
import pytest

import rolf
from rolf.errors import UnknownExperiment
from rolf.experiments.database import Database
from rolf.experiments.log import rewards as log_rewards
from rolf.experiments.log import snapshot as snapshots
from rolf.experiments.log.snapshot import dump
from rolf.experiments.storage import contract as base
from rolf.experiments.storage.contract import ABANDONED, PART, import_name
from rolf.experiments.storage.postgres import store as postgres
from rolf.experiments.storage.rows import DECISION, Row, Snapshot
from rolf.experiments.storage.sqlite import file as sqlite_file
from rolf.experiments.storage.sqlite import store as sqlite
from rolf.experiments.storage.urls import connect
from rolf.experiments.transfer.backup import fill_experiment
from rolf.testing.experiments import rows_of
from rolf.testing.storage import (
    FEATURES,
    create_experiment,
    current_state,
    decision_row,
    folded_state,
    play,
)
from support.helpers import count_appends
from support.stores import make_url, postgres_url

LONG = 40_000


@pytest.fixture(autouse=True)
def _no_garbage_collection():
    """What is measured here is not how many objects earlier tests have left behind."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def long_log(url, decisions=LONG):
    """An experiment with a long log, in a database that has no statistics about it yet."""
    short = create_experiment(url, "short", policy="ucb")
    rows = [decision_row(number) for number in range(1, decisions + 1)]
    fill_experiment(short.synced.store, short.record._replace(name="long", tag="long"), rows)
    return rolf.open_experiment(url, "long")


def cpu_seconds(action):
    start = time.thread_time()
    action()
    return time.thread_time() - start


@pytest.mark.parametrize("analysed", [False, True])
def test_rewards_are_found_by_an_index(shared_url, analysed):
    """Early ones as fast as late ones, in a log of which the database knows nothing, or knows how
    it was when it was empty."""
    if analysed:
        play(create_experiment(shared_url, "short", policy="ucb"), 500)
        module = psycopg if shared_url.startswith("postgresql") else sqlite3
        with closing(module.connect(shared_url.removeprefix("sqlite:///"))) as connection:
            connection.execute("ANALYZE rolf_log")
            connection.commit()
    experiment = long_log(shared_url)
    store, id = experiment.synced.store, experiment.record.id
    if shared_url.startswith("sqlite"):
        plan = str(store._query(f"EXPLAIN QUERY PLAN {sqlite.FIND}", (id, 7)))
        assert "rolf_places (experiment=? AND number=?)" in plan
    else:
        statement = f"EXPLAIN {postgres.FIND}"
        rows = store._query(statement, (id, [7, 8]), prepare=False)
        plan = " ".join(line for (line,) in rows)
        assert "rolf_places" in plan
        assert "Index Cond: (((experiment + 0) = '" in plan
        assert "(number = ANY" in plan
        assert "Filter: (number" not in plan
    ids = [f"long-{number}" for number in range(1, LONG + 1)]
    experiment.tell(ids[0], 1.0)
    few = cpu_seconds(lambda: experiment.tell_many([(each, 1.0) for each in ids[1:501]]))
    many = cpu_seconds(lambda: experiment.tell_many([(each, 1.0) for each in ids[501:10_501]]))
    assert many < 60 * few  # 20 times as many
    again = cpu_seconds(lambda: [experiment.tell(each, 1.0) for each in ids[:50]])
    assert again < 0.5
    assert experiment.counts() == (LONG, 10_501)


def test_no_write_holds_the_lock_for_long(monkeypatch):
    """Whatever the size of the batch, in time that this process spends."""
    longest = 0.0
    attempt = sqlite_file.File._attempt

    def timed(file, action, write):
        nonlocal longest
        start = time.thread_time()
        try:
            return attempt(file, action, write)
        finally:
            if write:
                longest = max(longest, time.thread_time() - start)

    monkeypatch.setattr(sqlite_file.File, "_attempt", timed)
    url = make_url("sqlite")
    experiment = create_experiment(url, policy="ucb")
    batch = experiment.ask_many(10_000)
    experiment.tell_many([(each, 1.0) for each in batch])
    copy = long_log(url)
    copy.delete(confirm="long")
    assert 0.0 < longest < 0.05


def test_nothing_is_locked_while_a_decision_is_computed(shared_url, monkeypatch):
    """Or compiled: meanwhile others ask and tell."""
    one = create_experiment(shared_url, policy="ucb")
    other = rolf.open_experiment(shared_url, "one", timeout=1.0)
    choose = one.synced.replica.decide
    calls = []

    def slow(*args):
        if not calls:
            calls.append(args)
            thread = threading.Thread(target=play, args=(other, 3))
            thread.start()
            thread.join(20.0)
            assert other.counts().told == 3
        return choose(*args)

    monkeypatch.setattr(one.synced.replica, "decide", slow)
    assert one.ask().id.endswith("-4")
    assert calls
    assert one.counts() == (4, 3)


def test_parts_are_appended_one_by_one(shared_url, monkeypatch):
    experiment = create_experiment(shared_url, policy="ucb")
    sizes = count_appends(experiment, monkeypatch)
    batch = experiment.ask_many(2 * PART + 1)
    experiment.tell_many([(each, 1.0) for each in batch])
    assert sizes == [PART, PART, 1, PART, PART, 1]


def test_large_tables_of_features_make_small_parts(shared_url, monkeypatch):
    """Each decision of a varying policy holds the features of all arms."""
    experiment = create_experiment(shared_url, policy="rolf-varying")
    experiment.ask(features=FEATURES)
    (row,) = rows_of(experiment)
    monkeypatch.setattr(base, "MAX_TEXT", 3 * len(row.details))
    sizes = count_appends(experiment, monkeypatch)
    experiment.ask_many(7, features=FEATURES)
    assert sizes == [3, 3, 1]
    copy = experiment.record._replace(name="copy")
    fill_experiment(experiment.synced.store, copy, rows_of(experiment))
    assert sizes[3:] == [3, 3, 2]


def test_a_batch_with_a_fault_records_nothing(url):
    experiment = create_experiment(url, policy="ucb")
    batch = experiment.ask_many(PART + 10)
    experiment.tell(batch[-2], 0.5)
    rewards = {each.id: 1.0 for each in batch}
    with pytest.raises(rolf.errors.AlreadyTold):
        experiment.tell_many(rewards)
    rewards[batch[-2].id] = 0.5
    with pytest.raises(rolf.errors.UnknownDecision):
        experiment.tell_many({**rewards, f"{experiment.record.tag}-99999": 1.0})
    assert experiment.counts().told == 1
    experiment.tell_many(rewards)
    assert experiment.counts().told == PART + 10


def test_a_batch_that_was_cut_short_is_completed(shared_url, monkeypatch):
    experiment = create_experiment(shared_url, policy="ucb")
    rewards = {each.id: 1.0 for each in experiment.ask_many(2 * PART)}
    append, calls = experiment.synced.store.append, []

    def interrupted(*args):
        calls.append(args)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return append(*args)

    with monkeypatch.context() as patch:
        patch.setattr(experiment.synced.store, "append", interrupted)
        with pytest.raises(KeyboardInterrupt):
            experiment.tell_many(rewards)
    assert experiment.counts().told == PART
    experiment.tell_many(rewards)
    assert experiment.counts().told == 2 * PART
    assert current_state(experiment) == folded_state(experiment)


@pytest.mark.slow
def test_asks_while_many_decisions_expire(url):
    """They get their default reward little by little; nobody waits for all of them."""
    experiment = create_experiment(url, policy="rolf-ridge", reward_after=10.0)
    now = 0.0
    experiment.synced.now = lambda: now
    play(experiment, 1)  # loads compiled code
    experiment.ask_many(20_000)
    now = 100.0
    slowest = max(cpu_seconds(experiment.ask) for _ in range(20))
    assert slowest < 0.05
    assert 0 < experiment.synced.replica.defaults < 20_000
    assert experiment.status().defaults == 20_000  # a status waits for all of them
    assert current_state(experiment) == folded_state(experiment)


def test_time_is_the_databases(monkeypatch):
    url = postgres_url()
    experiment = create_experiment(url, policy="ucb", reward_after=100.0)
    wrong = time.time() + 1e6
    monkeypatch.setattr(time, "time", lambda: wrong)
    other = rolf.open_experiment(url, "one")
    experiment.ask()
    other.ask()
    assert experiment.status().defaults == 0
    with psycopg.connect(url) as connection:
        sql = "SELECT max(abs(time - extract(epoch FROM now()))) FROM rolf_log"
        (difference,) = connection.execute(sql).fetchone()
    assert difference < 10.0


# --- what is left behind ---


def rows_left(url):
    """How many rows the tables have, of all experiments."""
    store = connect(url)
    tables = ["rolf_log", *store.tables]
    return {table: store._query(f"SELECT count(*) FROM {table}")[0][0] for table in tables}


def test_deleting_leaves_no_rows(shared_url):
    """Not even if somebody asks, tells or saves a snapshot at the same moment."""
    for attempt in range(5):
        name = str(attempt)
        one = create_experiment(shared_url, name, policy="ucb")
        two = rolf.open_experiment(shared_url, name)
        play(one, 20)

        noticed = []

        def busy(two=two, noticed=noticed):
            try:
                while True:
                    two.tell(two.ask(), 1.0)
                    two.snapshot()
            except UnknownExperiment as error:
                noticed.append(error)

        thread = threading.Thread(target=busy)
        thread.start()
        time.sleep(0.02 * attempt)
        one.delete(confirm=name)
        thread.join(60)
        assert noticed
        two.synced.store.save(two.record.id, Snapshot(1, "4", "late"))
    assert set(rows_left(shared_url).values()) == {0}


def test_what_a_dead_process_left_is_cleared_up(shared_url):
    """One that was deleting an experiment, and one that was importing one."""
    experiment = create_experiment(shared_url, policy="ucb")
    store, record = experiment.synced.store, experiment.record
    play(experiment, 5)
    store._delete(record.id)
    recent = store.create(record._replace(name=import_name()))
    old = store.create(record._replace(name=f" {int(time.time() - 2 * ABANDONED)} x"))
    for hidden in (old, recent):
        store.append(hidden.id, [decision_row(1)])
    assert Database(shared_url).names() == []
    other = create_experiment(shared_url, "other", policy="ucb")
    other.delete(confirm="other")
    assert [row[:1] for row in store._query("SELECT experiment FROM rolf_log")] == [(recent.id,)]


# --- the size of a snapshot ---


@pytest.mark.parametrize("name", ["rolf-lasso", "rolf-bayes", "rolf-bayes-varying"])
def test_large_arrays_are_computed_again(name, monkeypatch):
    """A snapshot keeps the totals, and what follows from them agrees up to rounding."""
    monkeypatch.setattr(snapshots, "MAX_DERIVED", 0)
    url = make_url("memory")
    experiment = create_experiment(url, policy=name, reward_after=1000.0)
    features = {"features": FEATURES} if "varying" in name else {}
    rng = np.random.default_rng(1)
    for _ in range(60):
        experiment.tell(experiment.ask(**features), rng.normal())
    experiment.snapshot()
    snapshot = experiment.synced.store.snapshot(experiment.record.id)
    again = rolf.open_experiment(url, "one")
    assert again.synced.snapshot_upto == snapshot.upto == 120
    for derived in experiment.synced.replica.policy.derived:
        assert f'"{derived}' not in snapshot.state
    for one, two in zip(
        experiment.status(**features).arms, again.status(**features).arms, strict=True
    ):
        assert np.isclose(one.estimate, two.estimate, rtol=1e-7, atol=1e-9)
    assert again.synced.replica.asked == experiment.synced.replica.asked
    again.ask(**features)


def test_a_snapshot_of_many_arms_is_small():
    features = np.random.default_rng(0).standard_normal((600, 5))
    experiment = create_experiment(make_url("memory"), policy="rolf-lasso", features=features)
    play_arm = experiment.ask()
    experiment.tell(play_arm, 1.0)
    assert len(dump(experiment.synced.replica).state) < 600 * 5 * 60


def test_a_row_knows_its_place():
    decision = decision_row(3)
    assert decision.place == (3, DECISION)
    assert Row(0, 4, 3, 0.0).place != decision.place
    assert log_rewards.DEFAULTS_PART < PART
