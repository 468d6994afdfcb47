"""The contract of a policy: what simulations, experiments and replay rely on.

A policy is two NamedTuples of arrays and numbers, ``Params``, which stay fixed, and ``State``,
which is carried from round to round, with a body for each of the operations below:
``implement(Params, {init: ..., choose: ..., ...})``. Policies that are composed of an estimator
and a rule (``composition.py``) have all of them already. What every policy must keep to:

1. ``state.clock[0]`` counts the rounds asked so far; ``choose`` counts it on by one. It may also
   count on further entries of ``clock``, by one each.
2. ``choose`` changes nothing but ``clock`` and, where the state has it, ``waiting``: the number
   of decisions per arm whose rewards have not come yet, which it counts on by one for its arm.
   It reads nothing but its arguments: the same state and the same random numbers give the same
   choice. An experiment replays decisions from its log by counting on ``clock`` and ``waiting``
   alone, and takes a choice back by counting them back.
3. Everything else changes in ``update``, which also counts ``waiting`` back. ``update`` draws no
   random numbers.
4. The arrays named in ``Policy.totals`` add up: those of two workers that started empty, added,
   are the totals of one that saw what both saw. ``rebuild`` computes everything else from them,
   up to rounding. Late rewards, merging and arms that come and go rest on it.
5. A probability is exact, or NaN where only draws can tell (Thompson sampling).

``rolf.testing.check_policy(MyPolicy)`` checks all of it, and experiments check 1 and 2 for every
class that is not in the catalogue. Online the bodies run as Python; simulations compile the very
same bodies of ``choose``, ``update`` and ``estimate``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from rolf.estimators.operations import ArmTotals, History
from rolf.kernel import kernel
from rolf.types import Choice, FloatArray, Generator, IntArray


@kernel
def init(params: Any, arms: int) -> Any:
    """The state before the first round. Runs as Python only."""
    raise NotImplementedError


@kernel
def choose(
    params: Any, state: Any, features: FloatArray, available: IntArray, rng: Generator
) -> Choice:
    """Decide one round and count it. ``features`` (K, d) are the round's own."""
    raise NotImplementedError


@kernel
def update(params: Any, state: Any, choice: Choice, row: FloatArray, reward: float) -> None:
    """Take in the reward of an earlier choice; ``row`` (d,) are the features it had."""
    raise NotImplementedError


@kernel
def estimate(params: Any, state: Any, features: FloatArray) -> FloatArray:
    """Estimated mean reward of every arm, (K,)."""
    raise NotImplementedError


@kernel
def probabilities(
    params: Any, state: Any, features: FloatArray, available: IntArray, draws: int
) -> FloatArray:
    """Chance of every available arm in the next round. Runs as Python only.

    Where only draws can tell, it is the share of ``draws`` draws of a stream of their own.
    """
    raise NotImplementedError


@kernel
def rebuild(params: Any, state: Any) -> None:
    """Recompute from the totals whatever follows from them. Runs as Python only."""
    raise NotImplementedError


@kernel
def learn(params: Any, state: Any, history: History) -> None:
    """Add a history to the totals; ``rebuild`` follows. Python only, and optional."""
    raise NotImplementedError


@kernel
def learn_totals(params: Any, state: Any, totals: ArmTotals) -> None:
    """Add totals per arm to the totals; ``rebuild`` follows. Python only, and optional."""
    raise NotImplementedError


REQUIRED = (init, choose, update, estimate, probabilities, rebuild)


class Pending(NamedTuple):
    """A decision that waits for its reward."""

    choice: Choice
    row: FloatArray
