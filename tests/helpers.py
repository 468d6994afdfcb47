"""Shared by the tests that walk the catalogue."""

from __future__ import annotations

import inspect
import json

import numpy as np
import pandas
import pytest

import rolf
from rolf.policies.registry import CATALOG

ARMS, SIZE = 6, 3
FEATURES = np.random.default_rng(0).standard_normal((ARMS, SIZE))
MEANS = np.random.default_rng(1).uniform(-1, 1, ARMS)
LETTERS = pandas.DataFrame(FEATURES, index=list("abcdef"))

every_policy = pytest.mark.parametrize("name", list(CATALOG))


def make(name, features=FEATURES, **options):
    options.setdefault("seed", 0)
    return rolf.policy_class(name)(features, **options)


def takes(name, option):
    return option in inspect.signature(rolf.policy_class(name)).parameters


def extra(policy):
    return {"features": policy.arms.features} if policy.varying else {}


def play(policy, rounds, seed=5):
    rng = np.random.default_rng(seed)
    arms = []
    for _ in range(rounds):
        decision = policy.ask(**extra(policy))
        arms.append(decision.arm)
        position = policy.arms.position(decision.arm)
        policy.tell(decision, MEANS[position] + 0.1 * rng.standard_normal())
    return arms


def frozen(policy):
    return json.dumps(policy.state(), sort_keys=True)
