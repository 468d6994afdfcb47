"""An interrupt at any line: the experiment continues, nothing is lost or recorded twice."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import rolf
from rolf.errors import ExperimentError
from rolf.experiments import experiment as module
from rolf.experiments.storage.postgres import pool as postgres_pool
from rolf.experiments.storage.sqlite import file as sqlite_file
from rolf.testing.experiments import rows_of
from rolf.testing.storage import create_experiment, current_state, folded_state, play

EXPERIMENTS = str(Path(module.__file__).parent)


class Interrupt:
    """Raises KeyboardInterrupt at the given line of those that run in a block, from 1."""

    def __init__(self, line):
        self.lines_left = line

    def __enter__(self):
        sys.settrace(self._call)

    def __exit__(self, kind, *_):
        sys.settrace(None)
        # Only a tracer can interrupt between the end of a block and the release of its lock.
        for lock in (sqlite_file.files.lock, postgres_pool.pools.lock):
            while lock._is_owned():
                lock.release()
        return kind is KeyboardInterrupt

    def _call(self, frame, event, _):
        return self._line if frame.f_code.co_filename.startswith(EXPERIMENTS) else None

    def _line(self, frame, event, _):
        if event == "line":
            self.lines_left -= 1
            if not self.lines_left:
                raise KeyboardInterrupt
        return self._line


@pytest.mark.slow
@pytest.mark.parametrize("contended", [False, True])
@pytest.mark.parametrize("what", ["ask", "batch", "tell", "estimates"])
def test_an_experiment_continues_after_an_interrupt(shared_url, what, contended):
    one, two = (create_experiment(shared_url, policy="ucb") for _ in range(2))
    actions = {
        "ask": lambda waiting: one.ask(),
        "batch": lambda waiting: one.ask_many(2),
        "tell": lambda waiting: one.tell(waiting, 1.0),
        "estimates": lambda waiting: one.estimates(),
    }
    line = told = 0
    interrupted = True
    while interrupted:
        line += 1
        waiting = one.ask()
        if contended:
            two.tell(two.ask(), 0.5)
            told += 1
        with Interrupt(line):
            actions[what](waiting)
            interrupted = False
        play(one, 1)
        one.tell(waiting, 1.0)
        told += 2
        one.estimates()
        assert sum(one.synced.replica.told) == told
    assert line > 20
    assert one.status().asked == len({row.number for row in rows_of(one)})
    assert two.status() == one.status()
    assert current_state(rolf.open_experiment(shared_url, "one")) == folded_state(one)


def test_an_interrupt_of_compiled_code_counts_as_one(url):
    experiment = create_experiment(url, policy="ucb")
    choose = experiment.synced.replica.decide

    def broken(*_):
        experiment.synced.replica.decide = choose
        raise SystemError("returned a result with an exception set") from KeyboardInterrupt()

    experiment.synced.replica.decide = broken
    with pytest.raises(KeyboardInterrupt):
        experiment.ask()
    play(experiment, 2)
    assert experiment.status().told == 2


def test_a_closed_experiment_stays_closed(url):
    experiment = create_experiment(url, policy="ucb")
    decision = experiment.ask()
    experiment.close()
    experiment.close()
    for action in (experiment.ask, experiment.status, lambda: experiment.tell(decision, 1.0)):
        with pytest.raises(ExperimentError, match="'one' is closed"):
            action()
    again = create_experiment(url, policy="ucb")
    again.tell(decision, 1.0)
