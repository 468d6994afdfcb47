"""The work of the processes that test_faults.py kills."""

from __future__ import annotations

import os

import numpy as np
import psycopg  # noqa: F401  (a fork should not have to import it)

import rolf
from rolf.experiments import live
from rolf.experiments.storage import postgres, sqlite  # noqa: F401

rolf.open_experiment("memory://", "warm", features=np.eye(3), policy="ucb").ask()


def work(url, name, path):
    """Ask and tell forever; write down each acknowledged decision and reward."""
    live.SNAPSHOT_INTERVAL = 150  # so that processes are killed during snapshots too
    acknowledged = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    experiment = rolf.open_experiment(url, name)
    while True:
        decisions = experiment.ask(2)
        for decision in decisions:
            os.write(acknowledged, f"ask {decision.id} {decision.arm}\n".encode())
        for decision in decisions:
            reward = int(decision.id.rpartition("-")[2]) % 7
            experiment.tell(decision, reward)
            os.write(acknowledged, f"tell {decision.id} {reward}\n".encode())
