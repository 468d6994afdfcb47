"""What is on the disk when a call returns, and what others can do meanwhile."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

import rolf
from rolf.errors import StorageError, StorageUnavailable
from rolf.experiments.database import Database
from rolf.experiments.storage.contract import log_rows
from rolf.experiments.storage.rows import DECISION, REWARD, ROSTER, Row
from rolf.experiments.storage.sqlite import file as sqlite_file
from rolf.testing.storage import create_experiment, current_state, folded_state, play
from support.stores import postgres_url, quick_folder, start_server


class Disk:
    """What a power failure would leave of a SQLite database: the files as last synced."""

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
            shutil.copy(f"{self.path}{end}", f"{self.image}{end}")

    @property
    def image(self):
        return self.folder / f"{self.syncs}.db"

    def rows(self, kind):
        connection = sqlite3.connect(self.image)
        sql = "SELECT number, reward FROM rolf_log WHERE kind = ?"
        rewards = dict(connection.execute(sql, (kind,)).fetchall())
        connection.close()
        return rewards


def number(decision):
    return int(decision.id.rpartition("-")[2])


@pytest.mark.parametrize("contended", [False, True])
def test_what_is_acknowledged_is_on_the_disk(contended, monkeypatch):
    path = quick_folder("rolf-disk") / "experiments.db"
    url = f"sqlite:///{path}"
    one, two = create_experiment(url, policy="ucb"), create_experiment(url, policy="ucb")
    disk = Disk(path, monkeypatch)
    for step in range(6):
        decision = one.ask()
        assert number(decision) in disk.rows(DECISION)
        batch = (two if contended else one).ask_many(2)
        assert {number(each) for each in batch} <= set(disk.rows(DECISION))
        one.tell(decision, step)
        assert disk.rows(REWARD)[number(decision)] == step
        two.tell_many([(each, 0.5) for each in batch])
        assert {number(each) for each in batch} <= set(disk.rows(REWARD))
    one.retire_arms([0])
    assert set(disk.rows(ROSTER)) == {1}
    create_experiment(url, "another", policy="ucb")
    assert Database(f"sqlite:///{disk.image}").names() == ["another", "one"]


def test_a_reward_that_is_not_yet_on_the_disk_does_not_count_as_told(monkeypatch):
    """While the first process has committed and waits for the disk, the second waits too."""
    path = quick_folder("rolf-disk") / "experiments.db"
    url = f"sqlite:///{path}"
    one, two = create_experiment(url, policy="ucb"), create_experiment(url, policy="ucb")
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
    assert current_state(one) == folded_state(one)


def test_a_foreign_transaction_stops_nothing_but_the_log_it_has_locked():
    """It has added a row, by hand, and does not end."""
    url = postgres_url()
    one, two = create_experiment(url, policy="ucb"), create_experiment(url, "two", policy="ucb")
    with psycopg.connect(url) as foreign:
        foreign.execute(
            "INSERT INTO rolf_log SELECT %s, 1, 1, 1, 0, 0, 1, 0, 0, true, 1, 0", (one.record.id,)
        )
        start = time.monotonic()
        play(two, 3)
        two.snapshot()
        assert rolf.open_experiment(url, "one").status().asked == 0
        create_experiment(url, "three", policy="ucb").ask()
        assert Database(url).names() == ["one", "three", "two"]
        assert time.monotonic() - start < 2.0
        foreign.rollback()
        foreign.execute(
            "SELECT 1 FROM rolf_heads WHERE experiment = %s FOR UPDATE", (one.record.id,)
        )
        play(two, 3)
        impatient = rolf.open_experiment(url, "one", timeout=0.2)
        with pytest.raises(StorageUnavailable, match="locked by other"):
            impatient.ask()
    impatient.ask()
    assert one.status().asked == 1


def with_role(url, privileges="ALL"):
    """The URL with a new role, which has these privileges in the schema and nothing else."""
    schema = url.rpartition("%3D")[2]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {schema} LOGIN")
        connection.execute(f"GRANT {privileges} ON SCHEMA {schema} TO {schema}")
    mine = url.replace("postgres:@", f"{schema}:@")
    assert mine != url
    return mine


def test_an_ordinary_role_can_use_it():
    """The only privilege needed is to create tables."""
    mine = with_role(postgres_url())
    one, two = create_experiment(mine, policy="ucb"), create_experiment(mine, policy="ucb")
    for handle in (one, two, one, two):
        play(handle, 2)
    assert one.status().told == 8
    one.snapshot()
    one.delete(confirm="one")


@pytest.fixture(params=["role", "database", "url"])
def unsynchronised_url(request):
    """A database whose commits do not wait for the disk by default."""
    url = postgres_url()
    if request.param == "url":
        yield url.replace("options=", "options=-csynchronous_commit%3Doff%20")
        return
    mine = with_role(url)
    role = url.rpartition("%3D")[2]
    with psycopg.connect(url, autocommit=True) as connection:
        (database,) = connection.execute("SELECT current_database()").fetchone()
        owner = f"ROLE {role}" if request.param == "role" else f"DATABASE {database}"
        connection.execute(f"ALTER {owner} SET synchronous_commit = off")
        yield mine
        connection.execute(f"ALTER {owner} RESET synchronous_commit")


def test_commits_wait_for_the_disk_whatever_the_default(unsynchronised_url):
    setting = "SHOW synchronous_commit"
    with psycopg.connect(unsynchronised_url) as connection:
        assert connection.execute(setting).fetchone() == ("off",)
    one, two = (create_experiment(unsynchronised_url, policy="ucb") for _ in range(2))
    assert one.synced.store._query(setting) == [("on",)]
    for handle in (one, two, one, two):
        play(handle, 1)
    assert one.synced.store._query(setting) == [("on",)]  # though appending commits first
    one.synced.store._run(lambda connection: connection.close())
    assert one.status().told == 4
    assert one.synced.store._query(setting) == [("on",)]


def test_a_stricter_default_is_left_alone():
    url = postgres_url().replace("options=", "options=-csynchronous_commit%3Dremote_apply%20")
    experiment = create_experiment(url, policy="ucb")
    assert experiment.synced.store._query("SHOW synchronous_commit") == [("remote_apply",)]


def slow_down_wal_writer(url):
    """From now on nothing but a synchronous commit flushes the server's log to the disk."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET wal_writer_delay = '10s'")
        connection.execute("SELECT pg_reload_conf()")
    time.sleep(0.5)  # the writer wakes up once more


def add_unflushed_decision(url):
    """Add a decision that others see but that is not flushed to the disk; returns its id."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET synchronous_commit = off")
        tag, last = connection.execute(
            "WITH head AS (UPDATE rolf_heads SET last = last + 1 RETURNING last) "
            "INSERT INTO rolf_log SELECT experiment, head.last, kind, number + 1, time, arm, "
            "probability, greedy, pseudo_action, matched, clock_steps, ordinal FROM rolf_log, head "
            "WHERE kind = 1 ORDER BY number DESC LIMIT 1 "
            "RETURNING (SELECT tag FROM rolf_experiments), number"
        ).fetchone()
    return f"{tag}-{last}"


def test_what_was_acknowledged_survives_a_crash_of_the_server():
    """Only rows that the server had not flushed to the disk are lost."""
    server = start_server()
    url = server.get_uri()
    one, two = (create_experiment(url, policy="ucb") for _ in range(2))
    slow_down_wal_writer(url)
    asked, told = set(), {}
    for step in range(40):
        each = (one, two)[step % 2]
        decision = each.ask()
        asked.add(number(decision))
        if step % 3:
            each.tell(decision, step)
            told[number(decision)] = step
    decision = two.ask()
    asked.add(number(decision))
    ghost = add_unflushed_decision(url)
    assert one.status().asked == two.status().asked == len(asked) + 1
    process = server.get_postmaster_info().process
    process.send_signal(signal.SIGQUIT)  # stops at once without flushing anything
    process.wait(30)
    with pytest.raises(StorageUnavailable):
        one.ask()
    server.ensure_postgres_running()
    log = [Row(*row) for row in log_rows(one.synced.store, one.record)]
    assert {row.number for row in log if row.kind == DECISION} == asked
    assert {row.number: row.reward for row in log if row.kind == REWARD} == told
    assert one.ask().id == ghost
    two.tell(decision, 1.0)
    assert one.status().asked == two.status().asked == len(asked) + 1
    play(one, 3)
    one.snapshot()
    assert current_state(rolf.open_experiment(url, "one")) == folded_state(one)
    server.cleanup()


def test_workers_that_start_together_create_the_tables_once():
    url = postgres_url()
    with ThreadPoolExecutor(6) as pool:
        opened = list(pool.map(lambda _: create_experiment(url, policy="ucb"), range(6)))
    for each in opened:
        play(each, 1)
    assert opened[0].status().told == 6


@pytest.mark.parametrize("isolation", ["", "-cdefault_transaction_isolation%3Dserializable%20"])
def test_threads_that_write_to_one_log(isolation):
    url = postgres_url().replace("options=", f"options={isolation}")
    one, two = create_experiment(url, policy="ucb"), create_experiment(url, policy="ucb")
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda each: play(each, 30), (one, two)))
    assert one.status().told == two.status().told == 60


def test_missing_privileges_are_reported():
    url = postgres_url()
    mine = with_role(url, "USAGE")
    with pytest.raises(StorageError, match="permission denied for schema"):
        create_experiment(mine)
    create_experiment(url, policy="ucb")
    with pytest.raises(StorageError, match="permission denied for table"):
        create_experiment(mine)


def test_symbolic_links_and_another_working_folder(monkeypatch):
    folder = quick_folder("rolf-links")
    (folder / "real").mkdir()
    (folder / "link.db").symlink_to(folder / "real" / "a.db")
    monkeypatch.chdir(folder)
    experiment = create_experiment("sqlite:///link.db", policy="ucb")
    play(experiment, 2)
    monkeypatch.chdir(folder / "real")
    play(experiment, 2)
    experiment.close()
    assert rolf.open_experiment("sqlite:///a.db", "one").status().told == 4


def test_opening_waits_for_others():
    path = quick_folder("rolf-busy") / "experiments.db"
    create_experiment(f"sqlite:///{path}", policy="ucb").close()
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("PRAGMA journal_mode = DELETE")
    other.execute("BEGIN EXCLUSIVE")
    timer = threading.Timer(0.3, other.close)
    timer.start()
    play(rolf.open_experiment(f"sqlite:///{path}", "one"), 1)
    timer.join()
