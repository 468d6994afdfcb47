"""What the processes do that tests/experiments/test_faults.py kills."""

from __future__ import annotations

import os
import random
import shutil
import time
import traceback
from pathlib import Path

import numpy as np
import psycopg  # noqa: F401  (a fork should not have to import it)

import rolf
from rolf.errors import StorageUnavailable
from rolf.experiments.log import synced as live
from rolf.experiments.storage.sqlite import store as sqlite  # noqa: F401

#: rewards that are corrected later
WRONG = (8.0, 1e9)

rolf.open_experiment("memory://", "warm", features=np.eye(3), policy="ucb").ask()


class Worker:
    """Asks and tells forever, and notes every acknowledged decision and reward."""

    def __init__(self, url, name, path):
        live.SNAPSHOT_INTERVAL = 150  # so that processes are killed during snapshots too
        self.url, self.name, self.path = url, name, Path(path)
        self.acknowledged = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.experiment = None
        self.restart()
        self.random = random.Random(str(path))

    def run(self):
        others = [self.fork, self.copy, self.back_up, self.restart, self.learn, self.correct]
        while True:
            try:
                self.round()
                if self.random.random() < 0.1:
                    self.random.choice(others)()
            except StorageUnavailable:  # the server restarts
                time.sleep(0.05)

    def round(self):
        decisions = self.experiment.ask_many(2)
        for decision in decisions:
            self.note("ask", decision.id, decision.arm)
        for decision in decisions:
            reward = int(decision.id.rpartition("-")[2]) % 7
            self.experiment.tell(decision, reward)
            self.note("tell", decision.id, reward)

    def learn(self):
        """Learn some history that other workers may learn as well."""
        source = f"{self.random.randrange(10**4)}"
        self.experiment.learn([0, 1], [1.0, 2.0], source=source)
        self.note("learn", source, 2)

    def correct(self):
        """Tell a wrong reward, sometimes wildly wrong, and correct it."""
        decision = self.experiment.ask()
        self.note("ask", decision.id, decision.arm)
        wrong = self.random.choice(WRONG)
        self.experiment.tell(decision, wrong)
        self.note("tell", decision.id, wrong)
        self.experiment.correct(decision, 3.0, "a slip")
        self.note("correct", decision.id, 3.0)

    def note(self, call, id, value):
        os.write(self.acknowledged, f"{call} {id} {value}\n".encode())

    def fork(self):
        """Play a round in a forked process and in this one, at the same time."""
        pid = os.fork()
        if not pid:
            try:
                self.round()
                os._exit(0)
            except StorageUnavailable:
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
        self.round()
        assert os.waitpid(pid, 0)[1] == 0

    def copy(self):
        """Copy the files of the database, as a careless backup does."""
        if self.url.startswith("sqlite"):
            source = Path(self.url.removeprefix("sqlite:///"))
            for each in source.parent.glob(f"{source.name}*"):
                shutil.copy(each, f"{self.path}-{each.name}")

    def back_up(self):
        """Back up the experiment, and check that nothing is missing."""
        known = self.experiment.counts()
        backup = self.path.with_suffix(".db")
        backup.unlink(missing_ok=True)
        self.experiment.backup(backup)
        with rolf.open_experiment(f"sqlite:///{backup}", self.name) as copy:
            asked, told = copy.counts()
        assert asked >= known.asked
        assert told >= known.told

    def restart(self):
        if self.experiment is not None:
            self.experiment.close()
        while True:
            try:
                self.experiment = rolf.open_experiment(self.url, self.name)
                return
            except StorageUnavailable:
                time.sleep(0.05)


def work(url, name, path):
    Worker(url, name, path).run()
