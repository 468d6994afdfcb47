"""Policies, features and small tools that many tests use."""

from __future__ import annotations

import inspect
import multiprocessing
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas
import pytest

import rolf
from rolf.estimators.posterior.fixed import component_moments
from rolf.policies.catalogue import CATALOG
from rolf.testing.policies import ARMS, FEATURES, MEANS, SIZE, frozen, play, reward_of
from rolf.testing.policies import features_of as extra

__all__ = ["ARMS", "FEATURES", "MEANS", "SIZE", "extra", "frozen", "play", "reward_of"]

LETTERS = pandas.DataFrame(FEATURES, index=list("abcdef"))

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
every_policy = pytest.mark.parametrize("name", list(CATALOG))
#: options with which RoLF-Bayes draws its decisions, with probabilities that are known exactly
DRAWING = [
    ("rolf-bayes", {"explore": 0.05}),
    ("rolf-bayes", {"explore": 0.2, "horizon": 100}),
    ("rolf-bayes", {"explore": 1.0}),
    ("rolf-bayes", {"rule": "sample"}),
    ("rolf-bayes", {"rule": "sample", "explore": 0.1, "noise": 0.3}),
    ("rolf-bayes", {"rewards": "binary", "explore": 0.05}),
    ("rolf-bayes", {"rewards": "binary", "rule": "sample"}),
    ("rolf-bayes", {"rewards": "counts", "explore": 0.05}),
    ("rolf-bayes", {"rewards": "counts", "rule": "sample"}),
    ("rolf-bayes-varying", {"explore": 0.05}),
    ("rolf-bayes-varying", {"rule": "sample"}),
]
every_drawing = pytest.mark.parametrize(
    ("name", "options"), DRAWING, ids=lambda value: str(value).replace(" ", "")
)
#: policies that take only rewards between 0 and 1, such as clicks
CLICKS = ("kl-ucb", "beta-ts")


def make(name, features=FEATURES, **options):
    options.setdefault("seed", 0)
    return rolf.policy_class(name)(features, **options)


def takes(name, option):
    return option in inspect.signature(rolf.policy_class(name)).parameters


def in_threads(function, *arguments):
    """What a function returns for each argument, called in as many threads."""
    with ThreadPoolExecutor(len(arguments)) as threads:
        return list(threads.map(function, arguments))


def in_processes(function, *arguments):
    """Call a function with each tuple of arguments in a process of its own, all at once."""
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=function, args=each) for each in arguments]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0


def all_moments(grid, components):
    """Means and variances of all arms in every component, (G, K) each."""
    arms = np.arange(grid.rows.shape[0])
    each = [component_moments(grid, components, g, arms) for g in range(grid.latent.size)]
    return np.swapaxes(np.array(each), 0, 1)


def count_appends(experiment, monkeypatch):
    """Sizes of the writes from here on; the list grows."""
    sizes = []
    append = experiment.synced.store.append

    def counted(id, rows, after=None):
        sizes.append(len(rows))
        return append(id, rows, after)

    monkeypatch.setattr(experiment.synced.store, "append", counted)
    return sizes


def delete_decisions(experiment):
    """What a process that deletes an experiment has done by now: rewards and requests are left."""
    store, id = experiment.synced.store, experiment.record.id
    store._delete(id)
    sql = "DELETE FROM rolf_log WHERE experiment = ? AND kind = 1 RETURNING 1"
    store._change(lambda execute: execute(sql, (id,)))
