"""Processes that fork with an experiment open: nothing is lost, and nothing hangs.

Each scenario runs in a process of its own, which forks, and has to end in time.
"""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
import subprocess
import sys
import threading
import time

import pytest

import rolf
from rolf.testing.experiments import rows_of
from rolf.testing.storage import create_experiment, current_state, folded_state
from support.stores import make_url

SCENARIO = """
import os, sys, threading, time
import rolf

url, rounds = sys.argv[1], 25


def work(experiment, rounds=rounds):
    for _ in range(rounds):
        decision = experiment.ask()
        experiment.tell(decision, 1.0)
        os.write(acknowledged, f"{decision.id}\\n".encode())


def fork(action):
    pid = os.fork()
    if not pid:
        try:
            action()
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    return pid


def wait(*pids):
    for pid in pids:
        assert os.waitpid(pid, 0)[1] == 0


acknowledged = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
experiment = rolf.open_experiment(url, "one")
"""

SCENARIOS = {
    "the child uses it and the parent closes it": """
work(experiment)
child = fork(lambda: (time.sleep(0.1), work(experiment)))
experiment.close()
wait(child)
""",
    "both use it at the same time": """
children = [fork(lambda: work(experiment)) for _ in range(2)]
work(experiment)
experiment.close()
wait(*children)
""",
    "the child opens it again": """
def child():
    again = rolf.open_experiment(url, "one")
    work(again)
    again.close()
    work(experiment)

children = [fork(child) for _ in range(2)]
work(experiment)
wait(*children)
""",
    "the parent opens it after the fork": """
experiment.close()
child = fork(lambda: work(rolf.open_experiment(url, "one")))
experiment = rolf.open_experiment(url, "one")
work(experiment)
experiment.close()
wait(child)
""",
    "a daemon, with every descriptor closed": """
work(experiment)

def daemon():
    os.setsid()
    fork(detached)

def detached():
    os.closerange(3, acknowledged)
    os.closerange(acknowledged + 1, 256)
    work(experiment)
    os.write(acknowledged, b"end\\n")

wait(fork(daemon))
experiment.close()
deadline = time.monotonic() + 30
while b"end" not in open(sys.argv[2], "rb").read() and time.monotonic() < deadline:
    time.sleep(0.02)
""",
    "threads are busy with it": """
stop = threading.Event()

def busy():
    while not stop.is_set():
        work(experiment, 1)

threads = [threading.Thread(target=busy) for _ in range(3)]
for thread in threads:
    thread.start()
for _ in range(6):
    wait(fork(lambda: work(experiment, 5)))
stop.set()
for thread in threads:
    thread.join()
experiment.close()
""",
    "a thread forks": """
def forker():
    for _ in range(4):
        wait(fork(lambda: (work(experiment, 5), experiment.close())))

thread = threading.Thread(target=forker)
thread.start()
work(experiment, 60)
thread.join()
""",
    "children of children": """
def child():
    work(experiment, 5)
    wait(fork(lambda: work(experiment, 5)))
    work(experiment, 5)

wait(fork(child), fork(child))
work(experiment, 5)
""",
}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_fork_loses_nothing(scenario, shared_url, tmp_path):
    with create_experiment(shared_url, policy="ucb") as experiment:
        experiment.tell(experiment.ask(), 1.0)
    acknowledged = tmp_path / "acknowledged"
    result = subprocess.run(
        [
            sys.executable,
            "-W",
            "error",
            "-c",
            SCENARIO + SCENARIOS[scenario],
            shared_url,
            acknowledged,
        ],
        timeout=100,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    ids = [line for line in acknowledged.read_text().split() if line != "end"]
    assert len(ids) == len(set(ids)) >= 25
    again = rolf.open_experiment(shared_url, "one")
    assert {f"{again.record.tag}-{row.number}" for row in rows_of(again) if row.reward} >= set(ids)
    assert again.status().told == len(ids) + 1
    assert current_state(again) == folded_state(again)


def tell_and_exit(experiment, decision):
    experiment.tell(decision, 2.0)


def test_a_process_of_multiprocessing(shared_url):
    experiment = create_experiment(shared_url, policy="ucb")
    decision = experiment.ask()
    context = multiprocessing.get_context("fork")
    child = context.Process(target=tell_and_exit, args=(experiment, decision))
    child.start()
    child.join(60)
    assert child.exitcode == 0
    assert experiment.status().told == 1
    experiment.ask()


def test_a_fork_waits_for_a_transaction_only():
    """Not while somebody else keeps the file locked."""
    url = make_url("sqlite")
    experiment = create_experiment(url, policy="ucb", timeout=20.0)
    other = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    thread = threading.Thread(target=experiment.ask)
    thread.start()
    time.sleep(0.1)
    start = time.monotonic()
    pid = os.fork()
    if not pid:
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    assert time.monotonic() - start < 5.0
    other.execute("ROLLBACK")
    other.close()
    thread.join(20.0)
    assert experiment.status().asked == 1


def test_memory_is_copied():
    experiment = create_experiment(make_url("memory"), policy="ucb")
    pid = os.fork()
    if not pid:
        experiment.ask()
        os._exit(experiment.status().asked)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1
    assert experiment.status().asked == 0


@pytest.mark.slow
def test_experiments_are_opened_while_a_process_forks():
    stop = threading.Event()

    def keep_opening():
        while not stop.is_set():
            create_experiment(make_url("memory"), policy="ucb")

    interval = sys.getswitchinterval()
    thread = threading.Thread(target=keep_opening)
    thread.start()
    try:
        sys.setswitchinterval(1e-6)
        for _ in range(60):
            pid = os.fork()
            if not pid:
                os._exit(0)
            assert os.waitpid(pid, 0)[1] == 0
    finally:
        sys.setswitchinterval(interval)
        stop.set()
        thread.join()


FOLDER = """
import os, sys
from rolf.experiments.transfer.backup import _folder
with _folder("rolf-fork") as folder:
    pid = os.fork()
    if not pid:
        sys.exit(0)
    os.waitpid(pid, 0)
    assert folder.is_dir()
assert not folder.exists()
"""


def test_a_child_that_ends_does_not_end_a_backup():
    subprocess.run([sys.executable, "-c", FOLDER], check=True, timeout=60)


def test_a_signal_handler_that_forks_in_a_transaction():
    experiment = create_experiment(make_url("sqlite"), policy="ucb")
    file, forked = experiment.synced.store._file, []

    def insert(connection):
        connection.execute("UPDATE rolf_experiments SET seed = seed + 1")
        if not forked:
            pid = os.fork()
            if not pid:
                os._exit(0)
            os.waitpid(pid, 0)
            forked.append(pid)
        connection.execute("UPDATE rolf_experiments SET seed = seed + 1")

    file.run(insert, 5.0, write=True)
    assert experiment.synced.store.record("one").seed == experiment.record.seed + 2


def test_a_signal_handler_that_closes_and_ends():
    experiment = create_experiment(make_url("sqlite"), policy="ucb")

    def closed(connection):
        experiment.close()
        raise SystemExit

    with pytest.raises(SystemExit):
        experiment.synced.store._file.run(closed, 5.0, write=True)
