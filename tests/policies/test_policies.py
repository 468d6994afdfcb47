"""What holds for every policy of the catalogue: ask and tell, beliefs, saving, bad input."""

from __future__ import annotations

import functools
import math

import numpy as np
import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rolf
from rolf.errors import InvalidArgument, UnknownPolicy
from rolf.policies.catalogue import CATALOG
from rolf.testing import CHECKS
from support.helpers import (
    ARMS,
    FEATURES,
    LETTERS,
    MEANS,
    every_drawing,
    every_policy,
    extra,
    frozen,
    make,
    play,
    reward_of,
    takes,
)

pytestmark = pytest.mark.compiled


@every_policy
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_what_holds_for_every_policy(name, check):
    check(functools.partial(make, name))


@every_drawing
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_it_holds_where_decisions_are_drawn(name, options, check):
    check(functools.partial(make, name, **options))


# --- decisions -------------------------------------------------------------------------------


@every_policy
def test_labels_name_the_arms_in_every_answer(name):
    policy = make(name, LETTERS)
    plain = make(name)
    assert play(policy, 30) == ["abcdef"[arm] for arm in play(plain, 30)]
    estimates = policy.estimates(**extra(policy))
    assert list(estimates.index) == list("abcdef")
    assert (estimates.to_numpy() == plain.estimates(**extra(plain))).all()
    assert list(policy.probabilities(**extra(policy)).index) == list("abcdef")
    assert set(policy.rank(**extra(policy))) == set("abcdef")
    assert policy.ask(available=["c"], **extra(policy)).arm == "c"
    with pytest.raises(InvalidArgument, match="'z'"):
        policy.ask(available=["a", "z"], **extra(policy))


@pytest.mark.parametrize("name", [n for n in CATALOG if n != "drlasso"])
@settings(deadline=None, max_examples=15)
@given(order=st.permutations(range(12)))
def test_the_order_of_tells_does_not_matter(name, order):
    # (DRLasso weighs a reward by its estimates of the moment, so there order matters.)
    one, two = make(name), make(name)
    first, second = one.ask_many(12, **extra(one)), two.ask_many(12, **extra(two))
    for position in range(12):
        one.tell(first[position], reward_of(one, first[position].arm, 0.01 * position))
    for position in order:
        two.tell(second[position], reward_of(two, second[position].arm, 0.01 * position))
    assert np.allclose(one.estimates(**extra(one)), two.estimates(**extra(two)), atol=1e-9)


# --- beliefs ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [n for n in CATALOG if n != "drlasso"])
def test_it_learns_the_means(name):
    policy = make(name, np.eye(ARMS))  # features that tell arms apart, so all can learn
    rng = np.random.default_rng(0)
    arms = np.repeat(np.arange(ARMS), 400)
    rewards = [reward_of(policy, arm, 0.1 * rng.standard_normal()) for arm in arms]
    means = np.array([reward_of(policy, arm) for arm in range(ARMS)])
    more = {"features": np.eye(ARMS)[arms]} if policy.varying else {}
    policy.learn(arms, rewards, **more)
    assert np.abs(policy.estimates(**extra(policy)) - means).max() < 0.05
    assert means[policy.rank(1, **extra(policy))[0]] > means.max() - 0.05
    assert policy.rounds == arms.size


@pytest.mark.parametrize("name", [n for n in CATALOG if n != "drlasso"])
def test_learning_history_equals_having_told_it(name):
    options = {"exploration": 0} if takes(name, "exploration") else {}
    told, learned = make(name, **options), make(name)
    rng = np.random.default_rng(3)
    arms, rewards = [], []
    for _ in range(80):
        decision = told.ask(**extra(told))
        reward = reward_of(told, decision.arm, 0.1 * rng.standard_normal())
        told.tell(decision, reward)
        if decision.matched:
            arms.append(decision.arm)
            rewards.append(reward)
    more = {"features": FEATURES[arms]} if told.varying else {}
    learned.learn(arms, rewards, **more)
    assert np.allclose(told.estimates(**extra(told)), learned.estimates(**extra(told)), atol=1e-9)


@every_policy
def test_learning_wrongly_changes_nothing(name):
    policy = make(name)
    play(policy, 5)
    more = {"features": FEATURES[:2]} if policy.varying else {}
    before = frozen(policy)
    for arms, rewards, named in [
        ([0, 9], [1, 1], "arms"),
        ([0, 1], [1], "rewards"),
        ([0, 1], [1, math.nan], "reward"),
    ]:
        with pytest.raises(InvalidArgument, match=named):
            policy.learn(arms, rewards, **more)
    with pytest.raises(InvalidArgument, match="probabilities"):
        policy.learn([0, 1], [1, 1], probabilities=[0.5, 0.0], **more)
    with pytest.raises(InvalidArgument, match="features"):
        policy.learn([0, 1], [1, 1], features=None if policy.varying else FEATURES[:2])
    policy.learn([], [], **({"features": FEATURES[:0]} if policy.varying else {}))
    assert frozen(policy) == before


@pytest.mark.parametrize("name", ["rolf-lasso", "rolf-ridge", "linucb", "oful", "ucb"])
@settings(deadline=None, max_examples=20)
@given(order=st.permutations(range(ARMS)))
def test_relabelling_the_arms_relabels_the_estimates(name, order):
    # A lasso depends on the basis, and the basis on the order of the arms, so for the lasso
    # the penalty is made too small to matter.
    options = {"penalty": 1e-9} if name == "rolf-lasso" else {}
    one, two = make(name, **options), make(name, FEATURES[list(order)], **options)
    rng = np.random.default_rng(0)
    arms = np.concatenate([np.arange(ARMS), rng.integers(0, ARMS, 30)])
    rewards = MEANS[arms] + 0.1 * rng.standard_normal(arms.size)
    one.learn(arms, rewards)
    two.learn([list(order).index(arm) for arm in arms], rewards)
    assert np.allclose(one.estimates()[list(order)], two.estimates(), atol=1e-6)


# --- bad input ----------------------------------------------------------------------------------


@every_policy
@pytest.mark.parametrize(
    ("features", "expected"),
    [
        ([], "table"),
        (np.zeros((0, 3)), "at least one row"),
        (np.zeros((3, 0)), "at least one row"),
        ([1.0, 2.0], "one row per arm"),
        (np.zeros((2, 2, 2)), "one row per arm"),
        ([[1.0, math.nan], [0.0, 1.0]], "row 0, column 1"),
        ([[1.0], [math.inf]], "finite"),
        ([["a"], ["b"]], "numbers"),
        ([[1.0], [1.0, 2.0]], "numbers"),
        ([[1.0, 2.0]], "two arms"),
        (pandas.DataFrame({"x": [1.0, 2.0]}, index=["same", "same"]), "names each arm once"),
    ],
)
def test_bad_features(name, features, expected):
    with pytest.raises(InvalidArgument, match=expected) as caught:
        make(name, features)
    assert caught.value.argument == "features"


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("linucb", {"width": -1}),
        ("linucb", {"ridge": 0}),
        ("linucb", {"delta": 1}),
        ("linucb", {"noise": 0}),
        ("linucb", {"setting": "best"}),
        ("lints", {"scale": -1}),
        ("lints", {"setting": "best"}),
        ("oful", {"radius": "large"}),
        ("oful", {"radius": -2}),
        ("oful", {"bound": -1}),
        ("drlasso", {"lam1": -1}),
        ("drlasso", {"clip": 0}),
        ("drlasso", {"forced": -1}),
        ("ucb", {"scale": math.nan}),
        ("ucb", {"delta": 2}),
        ("rolf-lasso", {"penalty": (1.0, 2.0, 3.0)}),
        ("rolf-lasso", {"penalty": (1.0, -2.0)}),
        ("rolf-lasso", {"noise": -1}),
    ],
)
def test_bad_options_are_named(name, options):
    with pytest.raises(InvalidArgument, match=next(iter(options))):
        make(name, **options)


@pytest.mark.parametrize("seed", ["x", -1, 1.5])
def test_bad_seeds_are_named(seed):
    with pytest.raises(InvalidArgument, match="seed"):
        make("ucb", seed=seed)
    with pytest.raises(InvalidArgument, match="seed"):
        rolf.environments.paper().draw(seed)


def test_unknown_policy():
    with pytest.raises(UnknownPolicy, match="rolf-lasso, rolf-ridge"):
        rolf.policy_class("rolff")


def test_the_callers_features_are_not_shared():
    table = FEATURES.copy()
    policy = make("linucb", table)
    table[:] = 0.0
    assert (policy.arms.features == FEATURES).all()
