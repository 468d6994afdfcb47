"""The chances of decisions that RoLF-Bayes draws: exact, positive, and the same everywhere."""

from __future__ import annotations

import json
import multiprocessing

import numpy as np
import pytest
from scipy import stats

import rolf
from rolf.errors import InvalidArgument
from rolf.experiments.log.replica import Replica
from rolf.experiments.storage.rows import DECISION
from rolf.policies.core.rounds import Round
from rolf.policies.state.arrays import copied
from rolf.testing.experiments import rows_of
from support.helpers import ARMS, FEATURES, every_drawing, extra, make, play, reward_of
from support.stores import make_url, quick_folder

SUBSETS = ([0, 1, 2, 3, 4, 5], [1, 4], [5], [0, 2, 3])


def played(name, rounds=25, **options):
    policy = make(name, **options)
    play(policy, rounds)
    return policy


def check_chances(chances, available):
    """Every available arm has a chance and no other; they add up."""
    assert (chances[available] > 0.0).all()
    assert (np.delete(chances, available) == 0.0).all()
    assert chances.sum() == pytest.approx(1.0, abs=1e-12)


# --- one policy ------------------------------------------------------------------------------


@every_drawing
def test_a_decision_has_the_chance_that_was_announced(name, options):
    policy = make(name, **options)
    for turn in range(60):
        available = SUBSETS[turn % 4]
        chances = policy.probabilities(available=available, **extra(policy))
        check_chances(chances, available)
        again = policy.probabilities(available=available, **extra(policy))
        assert (chances == again).all()  # reading them changes nothing
        decision = policy.ask(available=available, **extra(policy))
        assert decision.probability == pytest.approx(chances[decision.arm], abs=1e-14)
        assert decision.greedy == policy.rank(**extra(policy))[0] or len(available) < ARMS
        if turn % 3:  # some rewards are late
            policy.tell(decision, reward_of(policy, decision.arm, 0.1 * (turn % 5)))


@every_drawing
@pytest.mark.parametrize("available", [SUBSETS[0], SUBSETS[3]], ids=["all", "some"])
def test_arms_come_as_often_as_their_chances_say(name, options, available):
    """One state, many seeds."""
    policy = played(name, 12, **options)
    arms, draws = np.array(available), 4000
    chances = policy.probabilities(available=available, **extra(policy))[arms]
    counts = np.zeros(ARMS)
    for seed in range(draws):
        twin = policy.double(copied(policy.state))
        choice, _ = twin.decide(Round(arms, FEATURES), np.random.default_rng([7, seed]))
        counts[choice.arm] += 1.0
    assert counts.sum() == counts[arms].sum()
    assert stats.chisquare(counts[arms], draws * chances).pvalue > 0.001


@every_drawing
def test_a_batch_is_as_many_single_decisions(name, options):
    policy = played(name, **options)
    twin = rolf.Policy.from_dict(json.loads(json.dumps(policy.to_dict())))
    for available in SUBSETS:
        for each in policy.ask_many(8, available=available, **extra(policy)):
            chances = twin.probabilities(available=available, **extra(twin))
            alone = twin.ask(available=available, **extra(twin))
            assert alone.arm == each.arm
            assert each.probability == alone.probability
            assert each.probability == pytest.approx(chances[each.arm], abs=1e-14)


@every_drawing
def test_a_saved_policy_announces_the_same_chances(name, options):
    policy = played(name, **options)
    loaded = rolf.Policy.from_dict(json.loads(json.dumps(policy.to_dict())))
    for _ in range(10):
        expected = policy.probabilities(**extra(policy))
        assert loaded.probabilities(**extra(policy)) == pytest.approx(expected, abs=1e-12)
        play(policy, 1)
        play(loaded, 1)


def test_explore_mixes_the_rule_with_a_uniform_draw():
    plain = make("rolf-bayes")
    play(plain, 30)
    for explore in (0.05, 0.5, 1.0):
        policy = make("rolf-bayes", explore=explore)
        policy.state = copied(plain.state)
        expected = explore / ARMS + (1.0 - explore) * plain.probabilities()
        assert policy.probabilities() == pytest.approx(expected, abs=1e-15)


# --- experiments -----------------------------------------------------------------------------


def some_rounds(url, rounds, seed):
    """Ask and tell from a process of its own; gives what the decisions said."""
    rng = np.random.default_rng(seed)
    said = []
    with rolf.open_experiment(url, "x") as experiment:
        for _ in range(rounds):
            decision = experiment.ask()
            said.append((decision.id, decision.probability))
            policy = experiment.synced.replica.policy
            experiment.tell(decision, reward_of(policy, decision.arm, 0.1 * rng.normal()))
    return said


DURABLE = [
    {"explore": 0.05},
    {"rule": "sample"},
    {"rule": "sample", "explore": 0.1},
    {"rewards": "binary", "rule": "sample"},
]


@pytest.mark.slow
@pytest.mark.parametrize("options", DURABLE, ids=str)
def test_the_log_of_an_experiment_has_the_chances_that_decisions_had(options):
    """Two handles, two other processes, batches, some arms, reopened: the log, folded from its
    start, announces the chance of every decision before it comes.

    Whoever decides knows all decisions before, and, while another process writes, perhaps not the
    rewards that have come since the last of them.
    """
    url = f"sqlite:///{quick_folder('rolf-chances')}/x.db"
    said, offered = {}, {}
    created = rolf.open_experiment(
        url, "x", features=FEATURES, policy="rolf-bayes", options=options, seed=1
    )
    handles = [created, rolf.open_experiment(url, "x")]
    for turn in range(30):
        handle, available = handles[turn % 2], SUBSETS[turn % 4]
        for decision in handle.ask_many(1 + turn % 3, available=available):
            said[decision.id], offered[decision.id] = decision.probability, available
            if turn % 5:
                reward = reward_of(handle.synced.replica.policy, decision.arm, 0.1 * (turn % 7))
                handle.tell(decision.id, reward)
        if turn == 15:
            handles[0].snapshot()
            handles[0].close()
            handles[0] = rolf.open_experiment(url, "x")
    alone = len(said)
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        for rows in pool.starmap(some_rounds, [(url, 15, 1), (url, 15, 2)]):
            said |= rows
    for handle in handles:
        handle.close()

    with rolf.open_experiment(url, "x") as experiment:
        rows, record = rows_of(experiment), experiment.record
    replica, checked, announced = Replica(record), 0, []
    for row in rows:
        if row.kind == DECISION:
            id = record.decision_id(row.number)
            available = offered.get(id, SUBSETS[0])
            chances = replica.policy.probabilities(available=available)
            check_chances(chances, available)
            announced = [*(announced if checked >= alone else []), chances]
            assert row.probability == said[id]
            possible = [each[row.arm] for each in announced]
            assert any(row.probability == pytest.approx(each, abs=1e-12) for each in possible)
            announced.clear()
            checked += 1
        replica.apply([row])
        announced.append(replica.policy.probabilities())
    assert checked == len(said) == 90


def test_an_exported_log_has_them_too(tmp_path):
    with rolf.open_experiment(
        make_url("memory"), "x", features=FEATURES, policy="rolf-bayes", options={"rule": "sample"}
    ) as experiment:
        said = []
        for _ in range(20):
            decision = experiment.ask()
            said.append(decision.probability)
            experiment.tell(decision, reward_of(experiment.synced.replica.policy, decision.arm))
        experiment.export(tmp_path / "log.csv")
    log = rolf.read_log(tmp_path / "log.csv")
    assert log.probabilities.tolist() == said


# --- wrong options ---------------------------------------------------------------------------

WRONG = [
    ({"explore": -0.1}, "explore"),
    ({"explore": 1.5}, "explore"),
    ({"explore": "much"}, "explore"),
    ({"explore": float("nan")}, "explore"),
    ({"rule": "thompson"}, "rule: got .thompson., wanted .*sample"),
    ({"rule": "sample", "horizon": 100}, 'horizon: got 100, wanted nothing with rule="sample"'),
]


@pytest.mark.parametrize("name", ["rolf-bayes", "rolf-bayes-varying"])
@pytest.mark.parametrize(("options", "words"), WRONG, ids=[str(each[0]) for each in WRONG])
def test_wrong_options_are_named(name, options, words):
    with pytest.raises(InvalidArgument, match=words):
        make(name, **options)
