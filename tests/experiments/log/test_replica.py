"""Folding the log into a state, for every policy, and processes that share a log."""

from __future__ import annotations

import multiprocessing

import numpy as np
import pytest

import rolf
from rolf.experiments.log import synced as live
from rolf.experiments.log.replica import Replica
from rolf.experiments.log.rewards import give_default
from rolf.experiments.log.snapshot import dump
from rolf.experiments.storage import contract as base
from rolf.experiments.storage.rows import DECISION, DEFAULT, REWARD
from rolf.policies.catalogue import CATALOG
from rolf.policies.core.rounds import Round
from rolf.policies.state.arrays import arrays
from rolf.testing.experiments import rows_of
from rolf.testing.storage import (
    accepted_reward,
    create_experiment,
    current_state,
    folded_state,
    play,
    round_features,
)
from support.helpers import ARMS, FEATURES, every_policy, in_processes
from support.stores import KINDS, make_url


@every_policy
@pytest.mark.parametrize("kind", KINDS)
def test_every_policy_is_folded_exactly(name, kind, monkeypatch):
    """Continuing from a snapshot equals folding the whole log, with arms changed in between."""
    monkeypatch.setattr(live, "SNAPSHOT_INTERVAL", 40)
    url = make_url(kind)
    experiment = create_experiment(url, policy=name, default_reward=0.1, reward_after=1000.0)
    now = 0.0
    experiment.synced.now = lambda: now
    play(experiment, 25)
    waiting = experiment.ask_many(5, **round_features(experiment))
    before = folded_state(experiment)
    experiment.synced.sync()
    assert dump(experiment.synced.replica) == before
    now += 2000.0
    experiment.status()
    late = [(waiting[0], 2.0), (waiting[3], -1.0)]
    experiment.tell_many([(each, accepted_reward(experiment, reward)) for each, reward in late])
    play(experiment, 20)
    if "varying" not in name:
        experiment.update_features({0: [0.5, 0.5, 0.5]})
    again = rolf.open_experiment(url, "one")
    again.synced.now = lambda: now
    assert current_state(again) == current_state(experiment) == folded_state(experiment)
    assert again.synced.snapshot_upto > 0


@every_policy
def test_the_log_changes_the_state_as_the_policy_does(name):
    """The replica equals a policy that makes the same choices and is told the same rewards."""
    experiment = create_experiment(make_url("memory"), policy=name)
    replica = experiment.synced.replica
    twin = type(replica.policy)(FEATURES, seed=0, **replica.policy.options)
    rng = np.random.default_rng(7)
    waiting = []
    for number in range(1, 61):
        varying = replica.policy.varying
        table = rng.standard_normal(FEATURES.shape) if varying else FEATURES
        decision = experiment.ask(features=table if varying else None)
        draws = replica._generator(number)
        choice, _ = twin.decide(Round(np.arange(ARMS), table), draws)
        assert (choice.arm, choice.greedy, choice.matched) == (
            decision.arm,
            decision.greedy,
            decision.matched,
        )
        waiting.append((decision, choice, table[choice.arm]))
        if number % 3:
            decision, choice, row = waiting.pop(rng.integers(len(waiting)))
            reward = accepted_reward(experiment, rng.normal())
            experiment.tell(decision, reward)
            twin.observe(choice, row, reward)
    experiment.synced.sync()
    expected = dict(arrays(twin.state))
    for path, array in arrays(replica.state):
        assert (array == expected[path]).all(), path


def test_each_decision_has_its_own_block_of_random_numbers():
    """The layout of the counter is fixed: experiments that exist rely on it."""
    replica = create_experiment(make_url("memory"), seed=11).synced.replica
    for number in (1, 2, 1, 2**40):
        expected = np.random.Generator(np.random.Philox(key=11, counter=[0, 0, number, 0]))
        assert (replica._generator(number).random(5) == expected.random(5)).all()


def test_waiting_decisions_are_carried_over_to_new_arms():
    experiment = create_experiment(make_url("memory"), policy="rolf-bayes")
    decisions = [experiment.ask(available=[arm]) for arm in (1, 1, 2)]
    experiment.add_arms([[1.0, 2.0, 3.0]])
    assert experiment.synced.replica.state.pending.tolist() == [0, 2, 1, 0, 0, 0, 0]
    experiment.update_features({0: [1.0, 1.0, 1.0]})
    experiment.tell(decisions[0], 1.0)
    experiment.status()
    assert experiment.synced.replica.state.pending.tolist() == [0, 1, 1, 0, 0, 0, 0]


def test_when_a_decision_is_due_for_the_default_reward():
    experiment = create_experiment(make_url("memory"), policy="ucb", reward_after=10.0)
    now = 1000.0
    experiment.synced.now = lambda: now
    one, two, three = experiment.ask_many(3)
    experiment.tell(two, 1.0)
    experiment.status()
    replica = experiment.synced.replica
    assert list(replica.pending) == [1, 3]  # of a rewarded decision nothing is kept
    assert replica.due(999.0, 9) == []
    assert replica.due(1000.0, 9) == [1, 3]
    assert replica.due(1000.0, 1) == [1]
    now = 1010.0 - 1e-6
    assert experiment.status().defaults == 0
    now = 1010.0
    assert experiment.status().defaults == 2
    assert replica.due(now, 9) == []
    experiment.tell(one, 1.0)
    experiment.tell(three, 1.0)
    assert (experiment.status().defaults, experiment.status().told) == (0, 3)


def test_a_default_reward_is_given_only_where_there_is_none(url):
    experiment = create_experiment(url, policy="ucb", reward_after=10.0)
    told, waiting, _ = experiment.ask_many(3)
    experiment.tell(told, 1.0)
    for _ in range(2):
        give_default(experiment.synced, [1, 2], 0.5, 20.0)
    rewards = [row for row in rows_of(experiment) if row.kind != DECISION]
    assert [(row.kind, row.number) for row in rewards] == [(REWARD, 1), (DEFAULT, 2)]
    assert (rewards[1].reward, rewards[1].time) == (0.5, 20.0)
    experiment.tell(waiting, 2.0)
    give_default(experiment.synced, [2], 0.5, 30.0)
    assert len(rows_of(experiment)) == 6


def test_a_decision_is_still_due_after_a_snapshot(url):
    experiment = create_experiment(url, policy="ucb", reward_after=10.0)
    experiment.synced.now = lambda: 0.0
    experiment.ask_many(2)
    experiment.snapshot()
    experiment.close()
    again = rolf.open_experiment(url, "one")
    assert again.synced.snapshot_upto > 0
    again.synced.now = lambda: 20.0
    assert again.status().defaults == 2


def test_rows_out_of_order_are_noticed():
    experiment = create_experiment(make_url("memory"), policy="ucb")
    experiment.ask_many(3)
    first, second, third = rows_of(experiment)
    replica = Replica(experiment.record)
    replica.apply([first])
    for wrong in (third, first):
        with pytest.raises(ValueError, match=f"row {wrong.seq} follows row 1"):
            replica.apply([wrong])
    replica.apply([second, third])
    assert sum(replica.asked) == 3


@every_policy
def test_retiring_an_arm_leaves_the_state_alone(name):
    experiment = create_experiment(make_url("memory"), policy=name)
    play(experiment, 30)
    experiment.synced.sync()
    before = {path: array.copy() for path, array in arrays(experiment.synced.replica.state)}
    experiment.retire_arms([0, 2])
    for path, array in arrays(experiment.synced.replica.state):
        assert (array == before[path]).all(), path


# drlasso's pseudo-rewards depend on the order in which rewards come
@pytest.mark.parametrize("name", [each for each in CATALOG if each != "drlasso"])
def test_a_replaced_default_reward_leaves_no_trace(name):
    """The state is as if the default reward had never been applied, up to rounding."""
    handles = []
    for late in (True, False):
        url = make_url("memory")
        experiment = create_experiment(url, policy=name, default_reward=0.0, reward_after=10.0)
        now = [0.0]
        experiment.synced.now = lambda now=now: now[0]
        features = round_features(experiment)
        rng = np.random.default_rng(2)
        first = experiment.ask_many(6, **features)
        for each in first:
            experiment.tell(each, accepted_reward(experiment, rng.normal()))
        waiting = experiment.ask_many(4, **features)
        now[0] += 20.0 * late
        experiment.status()
        assert experiment.status().defaults == 4 * late
        for place, each in enumerate(waiting):
            experiment.tell(each, accepted_reward(experiment, 1.0 + place))
        handles.append(experiment)
    values = [each.status(**round_features(each)).arms for each in handles]
    for one, two in zip(*values, strict=True):
        assert one.plays == two.plays
        assert np.isclose(one.estimate, two.estimate, rtol=1e-8, atol=1e-8)


@every_policy
def test_a_choice_changes_only_the_clock_and_the_waiting_decisions(name):
    """The log records everything that a decision does to the state."""
    experiment = create_experiment(make_url("memory"), policy=name)
    play(experiment, 15)
    experiment.synced.sync()
    replica = experiment.synced.replica
    before = dump(replica)
    next_ones = range(replica.issued + 1, replica.issued + 4)
    with replica.ahead():
        rows = replica.decide(next_ones, Round(np.arange(ARMS), FEATURES), None, 0.0)
    assert dump(replica) == before
    table = replica.policy.arms.features
    copies = {path: array.copy() for path, array in arrays(replica.state)}
    round = Round(np.arange(ARMS), table)
    choice, _ = replica.policy.decide(round, np.random.default_rng(0))
    for path, array in arrays(replica.state):
        if path == "clock":
            assert set((array - copies[path]).tolist()) <= {0, 1}
        elif path == "pending":
            assert array[choice.arm] == copies[path][choice.arm] + 1
        else:
            assert (array == copies[path]).all(), path
    assert [row.number for row in rows] == [16, 17, 18]


def work(url, number, rounds):
    with rolf.open_experiment(url, "one") as experiment:
        for place in range(rounds):
            decision = experiment.ask()
            experiment.tell(decision, float(number * rounds + place))


@pytest.mark.slow
def test_several_processes(shared_url):
    """No reward is lost or counted twice, no two decisions have the same number."""
    experiment = create_experiment(shared_url, policy="ucb")
    in_processes(work, *((shared_url, number, 40) for number in range(3)))
    status = experiment.status()
    assert (status.asked, status.told, status.pending) == (120, 120, 0)
    assert experiment.synced.replica.state.belief.sums.sum() == sum(range(120))
    numbers = [row.number for row in rows_of(experiment) if row.kind == DECISION]
    assert numbers == list(range(1, 121))
    experiment.snapshot()
    assert current_state(experiment) == folded_state(experiment)


def test_long_logs_and_batches_are_split(shared_url, monkeypatch):
    """Batches are written part by part, also where others write in between."""
    for module in (live, base):
        monkeypatch.setattr(module, "PART", 2)
    one, two = (create_experiment(shared_url, policy="ucb") for _ in range(2))
    for handle in (one, two, one):
        play(handle, 1)
    batch = one.ask_many(5)
    batch += two.ask_many(4)
    two.tell_many([(decision, 1.0) for decision in batch[:6]])
    assert [row.seq for row in rows_of(one)] == sorted({row.seq for row in rows_of(one)})
    assert len(rows_of(one)) == 21
    numbers = [int(decision.id.rpartition("-")[2]) for decision in batch]
    assert numbers == list(range(4, 13))
    assert current_state(one) == current_state(two) == folded_state(one)
    assert one.counts() == (12, 9)


def test_a_forked_process_has_its_own_connection(shared_url):
    experiment = create_experiment(shared_url, policy="ucb")
    decision = experiment.ask()
    context = multiprocessing.get_context("fork")
    child = context.Process(target=experiment.tell, args=(decision, 2.0))
    child.start()
    child.join()
    assert child.exitcode == 0
    assert experiment.status().told == 1
    experiment.ask()


@pytest.mark.parametrize("name", ["rolf-lasso", "ucb", "lints"])
def test_every_policy_gets_the_intervals_of_the_posterior(name, monkeypatch):
    """Intervals and best-arm probabilities do not depend on the policy that decides."""
    clock = 0.0
    defaults = {"reward_after": 5.0, "default_reward": 0.25}
    pair = [
        create_experiment(make_url("memory"), policy=policy, **defaults)
        for policy in (name, "rolf-bayes")
    ]
    assert [arm.low for arm in pair[0].status().arms] == [None] * ARMS
    for each in pair:
        monkeypatch.setattr(each.synced, "now", lambda: clock)
    rng = np.random.default_rng(0)
    for step in range(40):
        clock += 1.0
        reward = rng.standard_normal()
        for each in pair:
            if step == 20:
                each.add_arms([[1.0, 0.5, 0.2]])
                each.retire_arms([0])
            decision = each.ask(available=[1 + step % (ARMS - 1 if step < 20 else ARMS)])
            if step % 4:
                each.tell(decision, reward)
            elif step % 8 == 0:
                late = decision.id
        if step % 8 == 6:  # after the default
            for each in pair:
                each.tell(f"{each.record.tag}-{late.rpartition('-')[2]}", reward)
    arms, expected = (each.status().arms for each in pair)
    assert pair[0].status().defaults == pair[1].status().defaults > 2
    for mine, theirs in zip(arms, expected, strict=True):
        assert mine.low == pytest.approx(theirs.low, abs=1e-9)
        assert mine.high == pytest.approx(theirs.high, abs=1e-9)
        assert mine.best == pytest.approx(theirs.best, abs=0.02)
    assert arms[0].best == 0.0
    assert current_state(pair[0]) == folded_state(pair[0])
