"""The five operations that a policy is made of.

A policy file gives each a body for its own ``Params`` class. ``Params`` is what stays
fixed, ``State`` what is carried from round to round; both are NamedTuples of arrays
and numbers. The first entry of ``State.clock`` counts the rounds asked so far. Online
the bodies run as Python; the engine compiles the very same bodies.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from rolf.kernel import kernel
from rolf.types import Choice, FloatArray, Generator, IntArray


@kernel
def choose(
    params: Any, state: Any, features: FloatArray, available: IntArray, rng: Generator
) -> Choice:
    """Decide one round and advance the clock. ``features`` (K, d) are the round's own."""
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
def probabilities(params: Any, state: Any, features: FloatArray, available: IntArray) -> FloatArray:
    """Chance of every available arm in the next round. Runs as Python only."""
    raise NotImplementedError


@kernel
def rebuild(params: Any, state: Any) -> None:
    """Recompute from the totals whatever follows from them. Runs as Python only."""
    raise NotImplementedError


class Pending(NamedTuple):
    """A decision that waits for its reward."""

    choice: Choice
    row: FloatArray
