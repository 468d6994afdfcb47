"""What the processes do that the tests of faults kill."""

from __future__ import annotations

import os

import numpy as np
import psycopg  # noqa: F401  (a fork should not have to import it)

import rolf
from rolf.experiments import live
from rolf.experiments.storage import postgres, sqlite  # noqa: F401

rolf.open("memory://", "warm", features=np.eye(3), policy="ucb").ask()


def work(url, name, path):
    """Ask and tell for ever; write down what was acknowledged, after it was."""
    live.SNAPSHOT_INTERVAL = 150  # so that processes are killed during snapshots too
    acknowledged = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    experiment = rolf.open(url, name)
    while True:
        decisions = experiment.ask(2)
        for each in decisions:
            os.write(acknowledged, f"ask {each.id} {each.arm}\n".encode())
        for each in decisions:
            reward = int(each.id.rpartition("-")[2]) % 7
            experiment.tell(each, reward)
            os.write(acknowledged, f"tell {each.id} {reward}\n".encode())
