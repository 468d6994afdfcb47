"""Checks for every policy: ask and tell, beliefs, the contract, saving, the engine.

Each check takes a function that makes the policy, ``make(features=..., **options)``, and raises an
AssertionError with an explanation if the policy breaks a promise.
"""

from __future__ import annotations

import copy
import json
import math
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from rolf.environments.problem import Problem
from rolf.errors import AlreadyTold, IncompatibleState, InvalidArgument, UnknownDecision
from rolf.policies.contract import wrong_steps
from rolf.policies.core.rounds import Round
from rolf.policies.policy import Policy
from rolf.policies.state.arrays import copied
from rolf.simulation.loop import play_policy, ready_loop
from rolf.types import FloatArray

ARMS, SIZE = 6, 3
FEATURES: FloatArray = np.random.default_rng(0).standard_normal((ARMS, SIZE))
MEANS: FloatArray = np.random.default_rng(1).uniform(-1.0, 1.0, ARMS)

Make = Callable[..., Policy]
Check = Callable[[Make], None]


def check_policy(policy: type[Policy], **options: Any) -> None:
    """Run every check on a policy class, made with these options."""

    def make(features: Any = FEATURES, **more: Any) -> Policy:
        build: Any = policy
        return build(features, **{"seed": 0, **options, **more})  # type: ignore[no-any-return]

    for check in CHECKS:
        try:
            check(make)
        except AssertionError as error:
            where = f"{policy.__name__}, {check.__name__}"
            raise AssertionError(f"{where}: {error}") from error


# --- playing ---


def features_of(policy: Policy) -> dict[str, Any]:
    """Arguments of ask: features if they vary, or a context that determines them."""
    if policy.context is not None:
        return {"context": [1.0] * len(policy.context.names)}
    return {"features": policy.arms.features} if policy.varying else {}


def reward_of(policy: Policy, arm: Any, noise: float = 0.0) -> float:
    """A reward for an arm, by label, within the policy's range."""
    value = float(MEANS[policy.arms.position(arm)]) + noise
    low, high = policy.reward_range
    if narrow(policy):  # the usual rewards lie between -2 and 2
        return float(np.clip(low + (high - low) * (value + 2.0) / 4.0, low, high))
    return value + lift(policy)


def lift(policy: Policy) -> float:
    """The shift that moves the usual rewards above a policy's lower limit."""
    return max(policy.reward_range[0] + 2.0, 0.0)


def narrow(policy: Policy) -> bool:
    """Whether a policy only takes rewards in a narrow range, such as clicks."""
    low, high = policy.reward_range
    return high - low < 10.0


def play(policy: Policy, rounds: int, seed: int = 5) -> list[Any]:
    """Play some rounds; return the chosen arms."""
    rng = np.random.default_rng(seed)
    played = []
    for _ in range(rounds):
        decision = policy.ask(**features_of(policy))
        played.append(decision.arm)
        policy.tell(decision, reward_of(policy, decision.arm, 0.1 * rng.standard_normal()))
    return played


def frozen(policy: Policy) -> str:
    """The whole state of a policy, as text."""
    return json.dumps(policy.to_dict(), sort_keys=True)


@contextmanager
def refused(*errors: type[Exception], naming: str = "") -> Iterator[None]:
    """Assert that a call is refused with a message that contains ``naming``."""
    try:
        yield
    except errors as error:
        if naming not in str(error):
            raise AssertionError(f"the message {str(error)!r} does not name {naming!r}") from error
        return
    names = " or ".join(each.__name__ for each in errors)
    raise AssertionError(f"a wrong call was accepted where {names} was expected")


# --- the contract of core/parts.py and core/rules.py ---


def deciding_moves_only_clock_and_pending(make: Make) -> None:
    """``decide`` changes only clock and pending, and depends only on its arguments."""
    policy = make()
    play(policy, 15)
    round = Round(np.arange(policy.arms.count), policy.arms.features)
    for turn in range(30):
        before = copied(policy.state)
        twin = policy.double(copied(policy.state))
        choice, _ = policy.decide(round, np.random.default_rng(turn))
        again, _ = twin.decide(round, np.random.default_rng(turn))
        assert choice.arm == again.arm, "the same state and random numbers gave different arms"
        for path, step, expected in wrong_steps(before, policy.state, choice.arm):
            raise AssertionError(f"decide changed state.{path} by {step}, expected {expected}")
        reward = reward_of(policy, policy.arms.labels[choice.arm])
        policy.observe(choice, policy.keep(round.features, choice.arm), reward)
        assert (policy.state.pending == before.pending).all(), (
            "observe must take the decision off pending"
        )


def totals_add_up(make: Make) -> None:
    """Totals of two workers add up or are refused, and everything else follows from the totals."""
    workers = [make(seed=seed) for seed in (1, 2)]
    for seed, worker in enumerate(workers):
        play(worker, 30 + seed, seed)
    if workers[0].traits.additive is True:
        merged = Policy.from_dict(Policy.merge(*(worker.to_dict() for worker in workers), seed=3))
        assert merged.rounds == 61, "the clocks of merged states must add up"
    else:
        with refused(IncompatibleState, naming=str(workers[0].traits.additive)):
            Policy.merge(*(worker.to_dict() for worker in workers))
        merged = workers[0]
    values = merged.estimates(**features_of(merged))
    merged.recompute()
    again = merged.estimates(**features_of(merged))
    assert np.allclose(values, again, atol=1e-9), "recompute changed the estimates"
    alone = Policy.from_dict(Policy.merge(workers[0].to_dict(), seed=3))
    mine, theirs = (each.estimates(**features_of(each)) for each in (workers[0], alone))
    assert np.allclose(mine, theirs, atol=1e-7), "estimates are not determined by the totals"


def simulations_make_the_same_decisions(make: Make) -> None:
    """The compiled loop and ask and tell are one algorithm."""
    policy = make()
    clicks = narrow(policy)
    means = 0.5 + 0.4 * MEANS if clicks else MEANS + lift(policy)
    problem = Problem(FEATURES, means, 0.1, rewards="bernoulli" if clicks else "gaussian")
    loop = ready_loop(policy, problem, policy.options)
    fast, slow = np.empty(60), np.empty(60)
    play_policy(make(), problem, np.random.default_rng(4), fast, loop)
    play_policy(make(), problem, np.random.default_rng(4), slow)
    assert (fast == slow).all(), "compiled and uncompiled decisions differ"


# --- decisions ---


def decisions_carry_what_they_should(make: Make) -> None:
    policy = make()
    for _ in range(40):
        probabilities = policy.probabilities(**features_of(policy))
        decision = policy.ask(**features_of(policy))
        assert isinstance(decision.id, str)
        assert decision.arm in range(ARMS), f"{decision.arm!r} is not an arm"
        assert decision.greedy in range(ARMS), f"{decision.greedy!r} is not an arm"
        assert isinstance(decision.matched, bool)
        # a probability from 1000 draws is within 0.08 with 5 standard deviations
        loose = 0.08 if "estimated when read" in repr(decision) else 1e-12
        assert 0.0 < decision.probability <= 1.0, f"probability {decision.probability}"
        assert abs(decision.probability - probabilities[decision.arm]) <= loose, (
            f"the decision says {decision.probability}, "
            f"probabilities() {probabilities[decision.arm]}"
        )
        assert set(decision.to_dict()) == {"id", "arm", "probability", "greedy", "matched"}
        policy.tell(decision, reward_of(policy, decision.arm))
    assert policy.rounds == 40
    assert policy.pending == []


def available_arms_alone_are_chosen(make: Make) -> None:
    policy = make()
    for turn in range(60):
        allowed = list([[1, 4], [5], [0, 2, 3], range(ARMS)][turn % 4])
        probabilities = policy.probabilities(available=allowed, **features_of(policy))
        assert abs(probabilities.sum() - 1.0) < 1e-9, (
            f"probabilities add up to {probabilities.sum()}"
        )
        assert (np.delete(probabilities, allowed) == 0).all(), (
            "an arm that is not available has a probability"
        )
        decision = policy.ask(available=allowed, **features_of(policy))
        assert decision.arm in allowed, "an arm was chosen that is not available"
        assert decision.greedy in allowed, "the greedy arm is not available"
        if len(allowed) == 1:
            assert abs(decision.probability - 1.0) < 1e-9
            assert decision.matched
        policy.tell(decision, reward_of(policy, decision.arm))


def rewards_come_late_in_any_order_and_in_batches(make: Make) -> None:
    policy = make()
    decisions = policy.ask_many(8, **features_of(policy))
    assert len({each.id for each in decisions}) == 8, "two decisions have one id"
    assert policy.pending == [each.id for each in decisions]
    rewards = [reward_of(policy, each.arm) for each in decisions]
    policy.tell(decisions[-1].id, rewards[-1])
    policy.tell_many(zip(decisions[1:4], rewards[1:4], strict=True))
    policy.tell_many({decisions[4]: rewards[4], decisions[5].id: np.float64(rewards[5])})
    play(policy, 5)
    policy.tell(decisions[0], rewards[0])
    assert policy.pending == [decisions[6].id]
    policy.forget(decisions[6])
    assert policy.pending == []
    assert policy.rounds == 13


def wrong_tells_change_nothing(make: Make) -> None:
    policy = make()
    play(policy, 15)
    told = policy.ask(**features_of(policy))
    good = reward_of(policy, told.arm)
    policy.tell(told, good)
    pending = policy.ask_many(2, **features_of(policy))
    before = frozen(policy)
    with refused(AlreadyTold, naming=told.id):
        policy.tell(told, good)
    for unknown in ("nothing", told.id + "0", "00000000-1", f"{told.id.split('-')[0]}-x"):
        with refused(UnknownDecision, naming="not issued"):
            policy.tell(unknown, good)
    wrong: Any
    for wrong in (123, None, {"id": 1}, [None]):
        with refused(InvalidArgument, naming="decision"):
            policy.tell(wrong, good)
    low, high = policy.reward_range
    beyond = [-math.inf if math.isinf(high) else 2.0 * high + 1.0, 2.0 * low - 1.0]
    for wrong in (math.nan, math.inf, "0.5", "much", None, [1.0], 10**400, *beyond):
        with refused(InvalidArgument, naming="reward"):
            policy.tell(pending[0], wrong)
    with refused(AlreadyTold, naming="twice"):
        policy.tell_many([(pending[0], good), (pending[0], good)])
    with refused(AlreadyTold):
        policy.tell_many([(pending[0], good), (told, good)])
    with refused(InvalidArgument, naming="finite"):
        policy.tell_many(zip(pending, [good, math.nan], strict=True))
    for wrong in (5, None, "much", [good], [(pending[0],)], pending):
        with refused(InvalidArgument, naming="rewards"):
            policy.tell_many(wrong)
    assert frozen(policy) == before, "a wrong tell changed the policy"


def wrong_asks_change_nothing(make: Make) -> None:
    policy = make()
    play(policy, 5)
    before = frozen(policy)
    wrong: Any
    for wrong in ([], [ARMS], [-1], "ab", [0.5], [[0]], 5):
        with refused(InvalidArgument, naming="available"):
            policy.ask(available=wrong, **features_of(policy))
    for wrong in (0, -1, 1.5, True, "2"):
        with refused(InvalidArgument, naming="n:"):
            policy.ask_many(wrong, **features_of(policy))
    for wrong in (0, 1.5, "all"):
        with refused(InvalidArgument, naming="k:"):
            policy.rank(wrong, **features_of(policy))
    if policy.varying:
        for wrong in (None, FEATURES[:-1], FEATURES[:, :1], FEATURES * math.nan, "x"):
            with refused(InvalidArgument, naming="features"):
                policy.ask(features=wrong)
    else:
        with refused(InvalidArgument, naming="fixed features"):
            policy.ask(features=FEATURES)
    assert frozen(policy) == before, "a wrong ask changed the policy"


# --- beliefs and saving ---


def ranks_by_estimate(make: Make) -> None:
    policy = make()
    play(policy, 50)
    values = policy.estimates(**features_of(policy))
    assert np.isfinite(values).all(), "an estimate is not finite"
    ranked = policy.rank(**features_of(policy))
    assert sorted(ranked) == list(range(ARMS))
    assert (np.diff(values[ranked]) <= 0).all(), "rank does not order by estimate"
    assert policy.rank(2, **features_of(policy)) == ranked[:2]


def saved_states_go_on(make: Make) -> None:
    """A saved, copied or pickled policy continues with the same decisions."""
    policy = make()
    play(policy, 40)
    pending = policy.ask_many(2, **features_of(policy))
    twins = [
        Policy.from_dict(json.loads(json.dumps(policy.to_dict()))),
        copy.deepcopy(policy),
        pickle.loads(pickle.dumps(policy)),
    ]
    reward = reward_of(policy, pending[0].arm)
    policy.tell(pending[0], reward)
    played = play(policy, 60)
    for twin in twins:
        assert type(twin) is type(policy)
        assert twin.options == policy.options, "the options were not kept"
        assert twin.pending == [each.id for each in pending]
        twin.tell(pending[0].id, reward)
        assert play(twin, 60) == played, "a saved policy decides differently"


CHECKS: tuple[Check, ...] = (
    deciding_moves_only_clock_and_pending,
    totals_add_up,
    simulations_make_the_same_decisions,
    decisions_carry_what_they_should,
    available_arms_alone_are_chosen,
    rewards_come_late_in_any_order_and_in_batches,
    wrong_tells_change_nothing,
    wrong_asks_change_nothing,
    ranks_by_estimate,
    saved_states_go_on,
)
