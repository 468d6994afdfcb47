"""The contract of a policy: what simulations, experiments and replay rely on.

A policy is two NamedTuples of arrays and numbers, ``Params``, which stay fixed, and ``State``,
which is carried from round to round, with a body for each of the operations below:
``implement(Params, {init: ..., choose: ..., ...})``. Policies that are composed of an estimator
and a rule (``policies/core/parts.py``) have all of them already. What every policy must keep to:

1. ``state.clock[0]`` is the number of rounds so far, and ``choose`` increments it. Further entries
   of ``clock`` may also go up, by at most one per choice.
2. ``choose`` changes nothing but ``clock`` and, if the state has it, ``waiting``: the number of
   decisions per arm whose rewards have not arrived yet, which goes up by one for the chosen arm.
   It depends on nothing but its arguments: the same state and the same random numbers give the
   same choice. Experiments replay logged decisions by advancing ``clock`` and ``waiting`` alone,
   and undo a choice by setting both back.
3. Everything else changes in ``update``, which also takes the decision off ``waiting``. ``update``
   draws no random numbers.
4. The arrays named in ``Policy.totals`` are additive: if two workers start empty, the sum of their
   totals is what one worker would have had that saw all of their rewards. ``rebuild`` computes
   everything else from the totals, up to rounding. Late rewards, merging and changing arms rely
   on it.
5. A probability is exact, or NaN where it can only be estimated by draws (Thompson sampling).

``rolf.testing.check_policy(MyPolicy)`` checks all of it, and experiments check 1 and 2 for every
class that is not in the catalogue. Online the bodies run as Python; simulations compile the very
same bodies of ``choose``, ``kept_features``, ``update`` and ``estimate``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from rolf.estimators.contract import ArmTotals, History
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
    """Choose an arm for the next round, whose features are ``features`` (K, d)."""
    raise NotImplementedError


@kernel
def kept_features(params: Any, features: FloatArray, arm: int) -> FloatArray:
    """What ``update`` will need of the round's features (K, d), as a vector. Optional: by default
    those of the chosen arm."""
    raise NotImplementedError


@kernel
def update(params: Any, state: Any, choice: Choice, row: FloatArray, reward: float) -> None:
    """Take in the reward of an earlier choice; ``row`` is what ``kept_features`` gave: by default
    the features (d,) that the arm had."""
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

    Where they can only be estimated, they are shares of ``draws`` draws from a separate stream.
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
    """A decision that waits for its reward, and the features that were kept of its round."""

    choice: Choice
    row: FloatArray
