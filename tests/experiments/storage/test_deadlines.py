"""A PostgreSQL that stops answering: errors in time, Ctrl-C at once, and nothing recorded twice."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from contextlib import contextmanager, suppress

import psutil
import pytest

import rolf
from rolf.errors import InvalidArgument, StorageUnavailable
from rolf.experiments.database import Database
from rolf.experiments.storage.postgres import pool as postgres_pool
from rolf.testing.experiments import rows_of
from rolf.testing.storage import create_experiment, current_state, folded_state, play
from support.stores import make_url, postgres_url, start_server


class Server:
    """A server of its own, which can be silenced without closing any connection."""

    def __init__(self):
        self.server = start_server()
        self.url = self.server.get_uri()

    @contextmanager
    def silent(self):
        postmaster = psutil.Process(self.server.get_postmaster_info().process.pid)
        processes = [postmaster, *postmaster.children(recursive=True)]
        try:
            for process in processes:
                with suppress(psutil.NoSuchProcess):  # one that had just ended its work
                    process.suspend()
            yield
        finally:
            for process in processes:
                with suppress(psutil.NoSuchProcess):  # its connection was closed meanwhile
                    process.resume()


@pytest.fixture(scope="module")
def server():
    started = Server()
    yield started
    started.server.cleanup()


@pytest.mark.slow
def test_every_call_ends(server):
    experiment = create_experiment(server.url, "calls", policy="ucb", timeout=0.5)
    play(experiment, 3)
    waiting = experiment.ask_many(2)
    calls = {
        "ask": experiment.ask,
        "batch": lambda: experiment.ask_many(10),
        "tell": lambda: experiment.tell(waiting[0], 1.0),
        "tell_many": lambda: experiment.tell_many([(each, 1.0) for each in waiting]),
        "status": experiment.status,
        "log": experiment.log,
        "snapshot": experiment.snapshot,
        "rebuild": experiment.rebuild,
        "retire": lambda: experiment.retire_arms([0]),
        "delete": lambda: experiment.delete(confirm="calls"),
        "open": lambda: rolf.open_experiment(server.url, "calls", timeout=0.5),
        "list": lambda: Database(server.url).names(),
    }
    os.environ["ROLF_STORAGE_TIMEOUT"] = "0.5"
    try:
        for name, call in calls.items():
            play(experiment, 1)  # so that there is a connection that works
            with server.silent():
                start = time.monotonic()
                with pytest.raises(StorageUnavailable, match=r"no answer within|cannot be reached"):
                    call()
                assert time.monotonic() - start < 6.0, name
    finally:
        del os.environ["ROLF_STORAGE_TIMEOUT"]
    experiment.tell_many([(each, 1.0) for each in waiting])
    told = experiment.counts().told
    experiment.tell_many([(each, 1.0) for each in waiting])
    assert experiment.counts().told == told == 3 + 2 + len(calls)
    numbers = [row.number for row in rows_of(experiment) if row.kind == 1]
    assert numbers == list(range(1, len(numbers) + 1))
    assert current_state(experiment) == folded_state(experiment)


def test_what_a_silent_server_has_shown_is_read_again(server):
    """It may crash before it has written that to the disk."""
    experiment = create_experiment(server.url, "shown", policy="ucb", timeout=0.5)
    play(experiment, 3)
    before = experiment.synced.store.reconnects
    for attempt in range(before + 1, before + 3):
        with server.silent(), pytest.raises(StorageUnavailable):
            experiment.counts()
        assert experiment.synced.store.reconnects == attempt
        experiment.counts()
        assert experiment.synced.reconnects == attempt


def test_a_contended_ask_waits_once(server):
    experiment = create_experiment(server.url, "turn", policy="ucb", timeout=1.0)
    experiment.ask()
    experiment.synced.contended = True
    start = time.monotonic()
    with server.silent(), pytest.raises(StorageUnavailable, match="no answer"):
        experiment.ask()
    assert time.monotonic() - start < 1.9


@pytest.fixture
def _interrupts():
    """As on a terminal, also where the tests run in the background of a shell, which ignores
    interrupts."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_interrupts")
def test_an_interrupt_ends_a_call_at_once(server):
    experiment = create_experiment(server.url, "interrupt", policy="ucb", timeout=60.0)
    decision = experiment.ask()
    for call in (experiment.ask, lambda: experiment.tell(decision, 1.0), experiment.status):
        with server.silent():
            timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
            timer.start()
            start = time.monotonic()
            with pytest.raises(KeyboardInterrupt):
                call()
            assert time.monotonic() - start < 2.0
            timer.join()
    experiment.tell(decision, 1.0)
    experiment.tell(decision, 1.0)
    assert experiment.counts().told == 1
    assert current_state(experiment) == folded_state(experiment)


def test_a_reward_that_was_recorded_without_an_answer_counts_once(server, monkeypatch):
    """The answer is lost, not the call: telling again changes nothing."""
    experiment = create_experiment(server.url, "lost", policy="ucb", timeout=0.5)
    decision, batch = experiment.ask(), experiment.ask_many(4)
    fetch = postgres_pool.Connection.fetch

    def lost(connection, query, *args, **kwargs):
        fetch(connection, query, *args, **kwargs)
        connection.pgconn.finish()
        raise postgres_pool.Silent

    for tell in (
        lambda: experiment.tell(decision, 1.0),
        lambda: experiment.tell_many([(each, 0.5) for each in batch]),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(postgres_pool.Connection, "fetch", lost)
            with pytest.raises(StorageUnavailable, match="no answer"):
                tell()
        tell()
    assert experiment.counts() == (5, 5)
    assert len(rows_of(experiment)) == 10


def test_a_host_that_swallows_everything():
    """It accepts the connection and says nothing."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        start = time.monotonic()
        with pytest.raises(StorageUnavailable, match="cannot be reached"):
            rolf.open_experiment(f"postgresql://a@127.0.0.1:{port}/b", "x", timeout=1.0)
        assert time.monotonic() - start < 8.0


def test_more_threads_than_connections(monkeypatch):
    monkeypatch.setattr(postgres_pool, "MOST", 2)
    url = postgres_url()
    handles = [create_experiment(url, policy="ucb") for _ in range(5)]
    threads = [threading.Thread(target=play, args=(each, 8)) for each in handles]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert handles[0].status().told == 40
    pool = handles[0].synced.store._pool
    assert len(pool._idle) <= 2
    assert not pool._busy


def test_experiments_share_connections():
    url = postgres_url()
    handles = [create_experiment(url, str(number), policy="ucb") for number in range(20)]
    for each in handles:
        play(each, 1)
    pool = handles[0].synced.store._pool
    assert all(each.synced.store._pool is pool for each in handles)
    assert len(pool._idle) == 1
    for each in handles[1:]:
        each.close()
    play(handles[0], 1)
    (connection,) = pool._idle
    handles[0].close()
    assert connection.closed


@pytest.mark.parametrize("wrong", [0, -1, float("nan"), "soon"])
def test_a_timeout_is_a_number_of_seconds(wrong, monkeypatch):
    with pytest.raises(InvalidArgument, match="timeout"):
        create_experiment(make_url("memory"), timeout=wrong)
    monkeypatch.setenv("ROLF_STORAGE_TIMEOUT", str(wrong))
    with pytest.raises(InvalidArgument, match="ROLF_STORAGE_TIMEOUT"):
        create_experiment(make_url("memory"))
