"""Saving, merging, copying, and what else must survive daily use."""

from __future__ import annotations

import copy
import json
import pickle
import sys

import numpy as np
import pandas
import pytest

import rolf
from rolf.errors import AlreadyTold, IncompatibleState, InvalidArgument, UnknownDecision
from rolf.policies.catalogue import CATALOG
from rolf.policies.state import saving
from rolf.policies.state.arrays import find, unpack
from support.helpers import (
    ARMS,
    FEATURES,
    LETTERS,
    SIZE,
    every_policy,
    extra,
    in_threads,
    make,
    play,
    takes,
)

pytestmark = pytest.mark.compiled


@every_policy
@pytest.mark.parametrize("rounds", [0, 3, 70])
@pytest.mark.parametrize("table", [FEATURES, LETTERS])
def test_a_saved_policy_goes_on_with_the_same_decisions(name, rounds, table):
    policy = make(name, table)
    play(policy, rounds)
    waiting = policy.ask_many(3, **extra(policy))
    data = json.loads(json.dumps(policy.to_dict()))
    again = rolf.Policy.from_dict(data)
    assert type(again) is type(policy)
    assert again.pending == policy.pending
    assert np.allclose(again.estimates(**extra(policy)), policy.estimates(**extra(policy)))
    for one in (policy, again):
        one.tell(waiting[1].id, 0.2)
    assert play(policy, 150) == play(again, 150)
    assert policy.ask(**extra(policy)).id == again.ask(**extra(policy)).id


@every_policy
def test_states_merge_by_adding(name):
    workers = [make(name, seed=seed) for seed in (1, 2, 3)]
    for seed, worker in enumerate(workers):
        play(worker, 40 + seed, seed)
    open_decisions = [worker.ask(**extra(worker)) for worker in workers]
    merged = rolf.Policy.from_dict(
        json.loads(json.dumps(rolf.Policy.merge(*(w.to_dict() for w in workers), seed=9)))
    )
    assert merged.rounds == sum(worker.rounds for worker in workers)
    paths = (*merged.totals, *merged.common)
    parts = saving.aligned(merged, [{path: find(w.state, path) for path in paths} for w in workers])
    for path in merged.totals:
        assert np.allclose(find(merged.state, path), sum(part[path] for part in parts))
    if name != "drlasso":  # the same as if one policy had seen it all
        alone = make(name)
        for path in paths:
            find(alone.state, path)[...] = find(merged.state, path)
        alone.recompute()
        assert np.allclose(merged.estimates(**extra(merged)), alone.estimates(**extra(merged)))
    for decision in open_decisions:
        merged.tell(decision.id, 0.1)
    play(merged, 10)


@every_policy
def test_states_that_do_not_belong_are_refused(name):
    policy = make(name)
    play(policy, 5)
    good = policy.to_dict()
    other = make("ucb" if name != "ucb" else "oful").to_dict()
    with pytest.raises(IncompatibleState, match="not the saved state"):
        rolf.Policy.from_dict({"some": "thing"})
    with pytest.raises(IncompatibleState, match="version 99"):
        rolf.Policy.from_dict({**good, "version": 99})
    with pytest.raises(IncompatibleState, match="called 'gone'"):
        rolf.Policy.from_dict({**good, "policy": "gone"})
    with pytest.raises(IncompatibleState, match="is not one of"):
        type(policy).from_dict(other)
    with pytest.raises(IncompatibleState, match="damaged"):
        rolf.Policy.from_dict({**good, "state": {**good["state"], "clock": [1] * 9}})
    with pytest.raises(IncompatibleState, match="damaged"):
        rolf.Policy.from_dict({k: v for k, v in good.items() if k != "rng"})
    with pytest.raises(IncompatibleState, match="damaged"):
        rolf.Policy.from_dict({**good, "rng": {"bit_generator": "seed"}})
    with pytest.raises(IncompatibleState, match="cannot be added"):
        rolf.Policy.merge(good, other)
    with pytest.raises(IncompatibleState, match="features"):
        rolf.Policy.merge(good, make(name, FEATURES + 1).to_dict())
    with pytest.raises(IncompatibleState, match="count twice"):
        rolf.Policy.merge(policy.to_dict(), policy.to_dict())
    with pytest.raises(IncompatibleState, match="damaged"):
        rolf.Policy.merge({**good, "state": {}})


@every_policy
def test_workers_that_start_from_one_state_merge_again_and_again(name):
    start = make(name, seed=5)
    play(start, 30)
    early = start.ask_many(2, **extra(start))
    base = start.to_dict()
    for _ in range(3):
        workers = [rolf.Policy.from_dict(base, seed=seed) for seed in (1, 2)]
        for seed, worker in enumerate(workers):
            play(worker, 10, seed)
        waiting = [worker.ask(**extra(worker)) for worker in workers]
        if early:
            workers[0].tell(early.pop().id, 0.5)
        before = base
        base = rolf.Policy.merge(*(w.to_dict() for w in workers), base=before, seed=7)
        merged = rolf.Policy.from_dict(base)
        assert merged.rounds == rolf.Policy.from_dict(before).rounds + 22
        assert {d.id for d in waiting} <= set(merged.pending)
        assert len([i for i in merged.pending if i in {d.id for d in early}]) == len(early)
        counted = [
            sum(unpack(v).sum() for path, v in data["state"].items() if path.endswith("counts"))
            for data in (before, base)
        ]
        assert counted[0] <= counted[1] <= counted[0] + 21


def test_a_decision_belongs_to_the_policy_that_issued_it():
    one, two = make("ucb", seed=0), make("ucb", seed=0)
    decision = one.ask()
    two.ask()
    with pytest.raises(UnknownDecision):
        two.tell(decision, 1.0)
    merged = rolf.Policy.from_dict(rolf.Policy.merge(one.to_dict(), two.to_dict(), seed=0))
    fresh = merged.ask(available=[0])
    merged.tell(decision, 9.0)
    assert merged.state.belief.sums[decision.arm] == 9.0
    assert fresh.id in merged.pending


def test_the_theory_penalty_survives_a_save_with_decisions_open():
    policy = make("rolf-lasso", penalty="theory", exploration=0, noise=0.01)
    play(policy, 60)
    policy.ask_many(5)
    again = rolf.Policy.from_dict(json.loads(json.dumps(policy.to_dict())))
    assert np.abs(again.estimates() - policy.estimates()).max() < 1e-9


@pytest.mark.parametrize("kind", ["PCG64", "MT19937", "Philox", "SFC64"])
def test_any_generator_and_numpy_options_can_be_saved(kind):
    rng = np.random.Generator(getattr(np.random, kind)(3))
    policy = rolf.RoLFLasso(
        FEATURES, seed=rng, exploration=np.int64(5), p=np.float32(0.75), penalty=(0.5, 1.0)
    )
    play(policy, 10)
    again = rolf.Policy.from_dict(json.loads(json.dumps(policy.to_dict())))
    assert play(policy, 30) == play(again, 30)
    other = rolf.RoLFLasso(FEATURES, exploration=5, p=0.75, penalty=np.array([0.5, 1.0]))
    rolf.Policy.merge(again.to_dict(), other.to_dict(), seed=1)


def test_policies_copy_and_pickle():
    policy = make("lints")
    play(policy, 20)
    decision = policy.ask()
    twins = [copy.deepcopy(policy), pickle.loads(pickle.dumps(policy))]
    expected = [policy.ask().arm for _ in range(20)]
    for twin in twins:
        assert twin.pending == [decision.id]
        assert [twin.ask().arm for _ in range(20)] == expected


def test_rewards_that_never_come_can_be_forgotten():
    policy = make("rolf-ridge")
    decisions = policy.ask_many(4)
    policy.forget(decisions[0])
    policy.forget([decisions[1].id, decisions[2]])
    assert policy.pending == [decisions[3].id]
    with pytest.raises(AlreadyTold):
        policy.forget(decisions[0])
    with pytest.raises(UnknownDecision):
        policy.forget("none")


def test_several_threads_lose_nothing():
    policy = make("rolf-ridge")
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:

        def work(_):
            for _ in range(500):
                policy.tell(policy.ask(), 1.0)

        in_threads(work, *range(4))
    finally:
        sys.setswitchinterval(before)
    assert policy.rounds == 2000
    assert policy.pending == []


def test_available_as_a_mask():
    policy = make("ucb")
    mask = np.array([False, False, True, False, True, False])
    assert {policy.ask(available=mask).arm for _ in range(40)} == {2, 4}
    assert policy.ask(available=[False] * 5 + [True]).arm == 5
    for wrong in (mask[:3], [True, 2], np.zeros(6, dtype=bool)):
        with pytest.raises(InvalidArgument, match="available"):
            policy.ask(available=wrong)


@every_policy
def test_the_greedy_arm_is_an_available_one(name):
    policy = make(name)
    play(policy, 40)
    for _ in range(10):
        assert policy.ask(available=[2, 3], **extra(policy)).greedy in (2, 3)


def test_features_of_the_round_go_by_name():
    table = pandas.DataFrame(FEATURES, index=list("abcdef"), columns=["x", "y", "z"])
    policy = rolf.RoLFVarying(table, seed=0)
    policy.learn(["a", "b", "c"], [1.0, 0.0, 2.0], features=FEATURES[:3])
    shuffled = table.loc[list("fedcba"), ["z", "x", "y"]]
    assert (policy.estimates(features=shuffled) == policy.estimates(features=table)).all()
    for wrong in (table.rename(index={"a": "q"}), table.rename(columns={"x": "q"})):
        with pytest.raises(InvalidArgument, match="features"):
            policy.ask(features=wrong)


@pytest.mark.parametrize("name", ["linucb", "oful", "rolf-ridge", "lints"])
@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_raw_units_do_not_hurt(name, scale):
    """Features in dollars or in microns: still the argmax of the formula, still solvable."""
    features = FEATURES * scale
    policy = make(name, features)
    play(policy, 300)
    state = policy.state.belief
    rebuilt = make(name, features)
    rebuilt.learn(
        np.repeat(np.arange(ARMS), state.counts.astype(int)),
        np.repeat(state.sums / np.maximum(state.counts, 1), state.counts.astype(int)),
    )
    assert np.allclose(policy.estimates(), rebuilt.estimates(), rtol=1e-6, atol=1e-6)
    if name in ("linucb", "oful"):
        moment = features.T @ (features * state.counts[:, None])
        moment += policy.params.model.penalty * np.eye(SIZE)
        exact = np.einsum("ij,ij->i", features, np.linalg.solve(moment, features.T).T)
        assert np.allclose(state.squares, exact, rtol=1e-5)


def test_subclasses_do_not_take_names_over():
    class Mine(rolf.UCB):
        pass

    assert Mine.name == ""
    assert type(rolf.Policy.from_dict(make("ucb").to_dict())) is rolf.UCB
    assert rolf.policy_class("ucb") is rolf.UCB
    with pytest.raises(InvalidArgument, match="name"):
        type("Other", (rolf.UCB,), {"name": "ucb"})
    with pytest.raises(InvalidArgument, match="name"):
        Mine(FEATURES).to_dict()


@pytest.mark.parametrize("delta", [1e-300, 1e-308])
@pytest.mark.parametrize("name", [n for n in CATALOG if takes(n, "delta")])
def test_tiny_delta(name, delta):
    policy = make(name, delta=delta)
    play(policy, 30)
    policy.state.clock[0] = 10**6
    play(policy, 3)
