"""Processes that are killed at random moments, and connections that break.

The processes fork, copy the files of the database, make backups and open the experiment again in
between, and the server of PostgreSQL crashes. ``make test`` kills a few dozen processes in each
database, ``make test-slow`` two thousand, and ``ROLF_KILLS=5000 make test-slow`` as many as that.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import time
from pathlib import Path

import psycopg
import pytest

import rolf
from rolf.errors import StorageUnavailable
from rolf.experiments.storage.contract import log_rows
from rolf.experiments.storage.postgres import pool as postgres_pool
from rolf.experiments.storage.postgres import store as postgres
from rolf.experiments.storage.rows import CORRECTION, DECISION, HISTORY, REWARD, Row
from rolf.testing.storage import create_experiment, current_state, folded_state
from support import faults
from support.stores import Restarts, postgres_url, quick_folder, server

KILLS = int(os.environ.get("ROLF_KILLS", "2000"))


class Witness:
    """Reads the log and compares it with what was acknowledged."""

    def __init__(self, experiment):
        self.experiment = experiment
        self.last = 0
        self.decisions, self.rewards, self.corrections, self.sources = {}, {}, {}, {}

    def check(self, path):
        lines = path.read_text().splitlines() if path.exists() else []
        self.experiment.synced.store.settle()
        for row in log_rows(self.experiment.synced.store, self.experiment.record, self.last):
            row = Row(*row)
            assert row.seq == self.last + 1
            self.last = row.seq
            if row.kind == HISTORY:
                seen, key, value = self.sources, row.parsed["source"], row.parsed["counts"]
            elif row.kind == DECISION:
                seen, key, value = self.decisions, row.number, row.arm
            else:
                seen = {REWARD: self.rewards, CORRECTION: self.corrections}[row.kind]
                key, value = row.number, row.reward
            assert key not in seen, "twice"
            seen[key] = value
        for line in lines:
            call, id, value = line.split()
            if call == "learn":
                assert self.sources[id] == [1, 1], line
                continue
            kinds = {"ask": self.decisions, "tell": self.rewards, "correct": self.corrections}
            assert kinds[call][int(id.rpartition("-")[2])] == float(value), line
        path.unlink(missing_ok=True)
        return len(lines)


def wait_for(path):
    """Wait until something has been acknowledged."""
    deadline = time.monotonic() + 30.0
    while time.monotonic() < deadline and not (path.exists() and path.stat().st_size):
        time.sleep(0.002)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
@pytest.mark.parametrize("kills", [40, pytest.param(KILLS, marks=pytest.mark.slow)])
def test_what_was_acknowledged_survives_a_kill(kind, monkeypatch, kills):
    """Two processes under load are killed at random moments, again and again."""
    database = Restarts(kind)
    experiment = create_experiment(database.url, policy="ucb")
    witness = Witness(experiment)
    paths = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))  # for preloading
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["faults"])
    folder = quick_folder("rolf-kills")
    moment = random.Random(1)
    killed = acknowledged = 0
    while killed < kills:
        paths = [folder / f"{killed + place}" for place in range(2)]
        workers = [
            context.Process(target=faults.work, args=(database.url, "one", path)) for path in paths
        ]
        for worker in workers:
            worker.start()
        for worker, path in zip(workers, paths, strict=True):
            if moment.random() < 0.8:  # otherwise perhaps while it opens the experiment
                wait_for(path)
            time.sleep(moment.expovariate(1 / 0.04))
            if killed % 30 == 13:
                database.crash()
                wait_for(path)
            worker.kill()
            killed += 1
        for worker in workers:
            worker.join()
            assert worker.exitcode == -9
            worker.close()
        for path in paths:
            acknowledged += witness.check(path)
        for left in folder.iterdir():
            shutil.rmtree(left) if left.is_dir() else left.unlink(missing_ok=True)
    assert acknowledged > 5 * killed
    assert sorted(witness.decisions) == list(range(1, len(witness.decisions) + 1))
    assert set(witness.rewards) <= set(witness.decisions)
    for number, reward in witness.rewards.items():
        assert reward == number % 7 or reward in faults.WRONG
    status = experiment.status()
    assert status.asked >= len(witness.decisions)  # children of the killed may still have worked
    assert status.told >= len(witness.rewards)
    again = rolf.open_experiment(database.url, "one")
    if not again.synced.snapshot_upto:  # a correction since the last snapshot called for a fold
        experiment.snapshot()
        again.close()
        again = rolf.open_experiment(database.url, "one")
    assert again.synced.snapshot_upto > 0
    assert current_state(again) == folded_state(experiment)
    for each in (experiment, again):
        each.close()
    database.end()


def end_connections():
    """End all other connections to the server."""
    with psycopg.connect(server(), autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )


def test_a_lost_connection_is_restored():
    url = postgres_url()
    experiment = create_experiment(url, policy="ucb")
    first = experiment.ask()
    for action in (
        lambda: experiment.tell(first, 1.0),
        lambda: experiment.ask(),
        lambda: experiment.status(),
        lambda: experiment.tell(first, 1.0),
        lambda: experiment.snapshot(),
        lambda: experiment.retire_arms([1]),
    ):
        end_connections()
        action()
    status = experiment.status()
    assert (status.asked, status.told) == (2, 1)
    assert current_state(experiment) == folded_state(experiment)


@pytest.mark.parametrize("contended", [False, True])
def test_a_connection_that_breaks_in_the_middle(contended, monkeypatch):
    """Between choosing and recording: nothing has been recorded, so it is done again."""
    url = postgres_url()
    experiment = create_experiment(url, policy="ucb")
    experiment.synced.contended = contended
    choose = experiment.synced.replica.decide

    def broken(*args):
        monkeypatch.undo()
        rows = choose(*args)
        end_connections()
        return rows

    monkeypatch.setattr(experiment.synced.replica, "decide", broken)
    decision = experiment.ask()
    experiment.tell(decision, 1.0)
    assert current_state(experiment) == folded_state(experiment)
    assert (experiment.status().asked, experiment.status().told) == (1, 1)


@pytest.mark.parametrize("contended", [False, True])
def test_a_decision_recorded_but_not_returned_waits(contended, monkeypatch):
    """Between recording and returning: the next number is returned, no id twice."""
    url = postgres_url()
    experiment = create_experiment(url, policy="ucb")
    experiment.synced.contended = contended
    fetch = postgres_pool.Connection.fetch
    calls = []

    def broken(connection, query, *args, **kwargs):
        result = fetch(connection, query, *args, **kwargs)
        if query == postgres.APPEND and not calls:
            calls.append(query)
            end_connections()
            fetch(connection, b"SELECT 1")
        return result

    monkeypatch.setattr(postgres_pool.Connection, "fetch", broken)
    decision = experiment.ask()
    assert calls
    assert decision.id.endswith("-2")
    experiment.tell(decision, 1.0)
    status = experiment.status()
    assert (status.asked, status.told, status.pending) == (2, 1, 1)
    assert current_state(experiment) == folded_state(experiment)


def test_a_server_that_is_away_and_comes_back(monkeypatch):
    url = postgres_url()
    experiment = create_experiment(url, policy="ucb")
    decision = experiment.ask()
    pool = experiment.synced.store._pool
    url_of_server = pool.url
    end_connections()
    pool.url = "postgresql://postgres@127.0.0.1:1/none"
    for action in (experiment.ask, lambda: experiment.tell(decision, 1.0), experiment.status):
        with pytest.raises(StorageUnavailable, match="cannot be reached"):
            action()
    pool.url = url_of_server
    experiment.tell(decision, 1.0)
    assert experiment.ask().id.endswith("-2")
