"""What an estimator is: a fixed model, a belief carried from round to round, and operations.

Model and belief are NamedTuples of arrays and numbers. An estimator's file ends with a table of
its operations, ``estimator(Model, {...}, Traits(...))``. ``observe``, ``set_aside``,
``keep``, ``means`` and ``widths`` are compiled as well; the others run as Python only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from rolf.checks import MAX_COUNT, MAX_FEATURE, MAX_REWARD
from rolf.kernel import has_body, implement, kernel
from rolf.types import FloatArray, IntArray


@kernel
def begin(model: Any, arms: int) -> Any:
    """The belief before the first reward."""
    raise NotImplementedError


@kernel
def observe(model: Any, belief: Any, seen: Observation) -> None:
    """Learn a reward."""
    raise NotImplementedError


@kernel
def set_aside(model: Any, belief: Any, seen: Observation) -> None:
    """Handle a reward whose action and pseudo-action did not match; most estimators ignore it."""
    raise NotImplementedError


@kernel
def keep(model: Any, features: FloatArray, arm: int) -> FloatArray:
    """The part of the round's features (K, d) that ``observe`` will need, as a vector; usually the
    arm's own features."""
    raise NotImplementedError


@kernel
def means(model: Any, belief: Any, features: FloatArray) -> FloatArray:
    """Estimated mean reward of every arm, (K,)."""
    raise NotImplementedError


@kernel
def widths(model: Any, belief: Any, features: FloatArray) -> FloatArray:
    """How uncertain each estimate is, (K,), in units of the noise."""
    raise NotImplementedError


@kernel
def recompute(model: Any, belief: Any, round: int) -> None:
    """Recompute everything that follows from the totals."""
    raise NotImplementedError


@kernel
def learn(model: Any, belief: Any, history: History) -> None:
    """Add a history to the totals; call ``recompute`` afterwards."""
    raise NotImplementedError


@kernel
def learn_totals(model: Any, belief: Any, totals: ArmTotals) -> None:
    """Add totals per arm to the totals; call ``recompute`` afterwards."""
    raise NotImplementedError


@kernel
def check_totals(model: Any, belief: Any, rounds: int) -> None:
    """Raise ValueError if rewards of this many rounds cannot have the totals of this belief.

    This and ``check_rest`` are for saved beliefs, where a wrong value may do worse than give a
    wrong estimate. All numbers are known to be finite. Both are optional, and must not take longer
    than reading the belief.
    """
    raise NotImplementedError


@kernel
def check_rest(model: Any, belief: Any, rounds: int) -> None:
    """Raise ValueError if anything else in the belief cannot follow from its totals."""
    raise NotImplementedError


@kernel
def check_growth(model: Any) -> None:
    """Raise ValueError, with the reason, if the totals cannot be extended to more arms.

    Optional: usually they can.
    """
    raise NotImplementedError


#: the operations of every estimator
REQUIRED = (begin, observe, means, recompute)


class Observation(NamedTuple):
    """A reward: the arm, the features kept from its round (by default the arm's own, (d,)), the
    round in which the reward came, and the probability with which the arm was chosen."""

    arm: int
    reward: float
    row: FloatArray
    round: int
    probability: float


class History(NamedTuple):
    """Earlier rounds, (n,): arms, rewards, features (n, d) of the arms, and probabilities of the
    choices."""

    positions: IntArray
    rewards: FloatArray
    rows: FloatArray
    probabilities: FloatArray


class ArmTotals(NamedTuple):
    """Per arm, (K,): number, sum and sum of squares of rewards, each less ``level``."""

    counts: FloatArray
    sums: FloatArray
    squares: FloatArray
    level: float

    @property
    def plain_sums(self) -> FloatArray:
        """The sums of the rewards, with ``level`` added back."""
        return self.sums + self.level * self.counts


#: compares a saved belief with one recomputed from its totals
Agrees: TypeAlias = Callable[[Any, Any], bool]
#: the largest difference due to rounding, relative to the largest value
ROUNDING = 1e-6
#: bodies of operations
Table: TypeAlias = Mapping[Callable[..., Any], Callable[..., Any]]


class Traits(NamedTuple):
    """What saving, merging and checks need to know about a belief.

    Attributes:
        totals: arrays that add up over workers; everything else follows from them.
        common: arrays that are equal in all beliefs to be added, once aligned.
        derived: arrays too large to save; they are recomputed.
        largest: the largest reward, in absolute value, that the arithmetic can handle.
        align: aligns the totals of several beliefs, by name, so that they can be added.
        agrees: whether a saved belief agrees with the one recomputed from its totals; by default
            all arrays must be equal up to rounding.
        weighs: whether rewards are weighted by the probability with which their arm was chosen.
        sequential: whether what a reward adds to the totals depends on earlier rewards.
        drawn: the arrays that draws from the belief depend on, if few and small; a sampled decision
            whose probability is read later remembers them. By default all arrays.
        additive: True, or the reason why totals do not add up; such states are not merged.
    """

    totals: tuple[str, ...]
    common: tuple[str, ...] = ()
    derived: tuple[str, ...] = ()
    largest: float = MAX_REWARD
    align: Callable[[list[dict[str, FloatArray]]], list[dict[str, FloatArray]]] | None = None
    agrees: Agrees | None = None
    weighs: bool = False
    sequential: bool = False
    drawn: tuple[str, ...] = ()
    additive: bool | str = True


_traits: dict[type, Traits] = {}


def estimator(model: type, table: Table, traits: Traits) -> None:
    """Register the operations and traits of the estimator with this class of models."""
    defaults: Table = {
        set_aside: _ignore,
        keep: own_features,
        check_totals: _do_nothing,
        check_rest: _do_nothing,
        check_growth: _do_nothing,
    }
    implement(model, {**defaults, **table})
    _traits[model] = traits


def _ignore(model: Any, belief: Any, seen: Observation) -> None:
    """``set_aside`` of an estimator that uses matched rewards only."""


def _do_nothing(*_: Any) -> None:
    """A check that an estimator does not need."""


def learns(model: Any) -> bool:
    """Whether the estimator of a model can learn from earlier rounds."""
    return has_body(learn, type(model))


def learns_totals(model: Any) -> bool:
    """Whether the estimator of a model can learn from totals per arm."""
    return has_body(learn_totals, type(model))


def own_features(model: Any, features: FloatArray, arm: int) -> FloatArray:
    """``keep`` of an estimator that needs the arm's own features only."""
    row: FloatArray = features[arm]
    return row


def traits_of(model: type) -> Traits:
    """The traits of the estimator with this model."""
    return _traits[model]


def arm_estimator(model: type, table: Table, **traits: Any) -> None:
    """Register an estimator whose belief follows from counts and sums per arm; ``traits`` are its
    other traits."""
    defaults: Table = {learn: add_history, learn_totals: add_totals, check_totals: check_arms}
    estimator(model, {**defaults, **table}, Traits(("counts", "sums"), **traits))


# --- for beliefs with counts and sums per arm ------------------------------------------------


def arm_totals(arms: int, history: History, level: float = 0.0) -> ArmTotals:
    """A history, added up per arm."""
    values = history.rewards - level
    counts = np.bincount(history.positions, minlength=arms).astype(np.float64)
    sums = np.bincount(history.positions, weights=values, minlength=arms)
    squares = np.bincount(history.positions, weights=values * values, minlength=arms)
    return ArmTotals(counts, sums.astype(np.float64), squares.astype(np.float64), level)


def add_history(model: Any, belief: Any, history: History) -> None:
    """``learn`` for a belief with counts and sums."""
    add_totals(model, belief, arm_totals(belief.counts.size, history))


def add_totals(model: Any, belief: Any, totals: ArmTotals) -> None:
    """``learn_totals`` for a belief with counts and sums."""
    belief.counts[:] += totals.counts
    belief.sums[:] += totals.plain_sums


def check_arms(model: Any, belief: Any, rounds: int) -> None:
    """``check_totals`` for a belief with counts and sums."""
    check_counts(belief.counts)
    check_sums(belief.counts, belief.sums)


def check_counts(counts: FloatArray) -> None:
    """Refuse counts that are not whole numbers of at least 0."""
    if (counts < 0.0).any() or (counts > MAX_COUNT).any() or (counts != np.floor(counts)).any():
        raise ValueError("counts are not all whole numbers, at least 0")


def check_sums(counts: FloatArray, sums: FloatArray, largest: float = MAX_REWARD) -> None:
    """Refuse sums too large for the number of rewards."""
    if (np.abs(sums) > counts * largest * (1.0 + 1e-9)).any():
        raise ValueError("sums are too large for the counts")


def check_moments(moment: FloatArray, cross: FloatArray, rounds: int) -> None:
    """Refuse second moments and cross moments too large for the number of rounds."""
    largest = 2.0 * MAX_FEATURE  # features may be centred
    if np.abs(moment).max() > rounds * largest**2:
        raise ValueError("moment is too large for the rounds")
    if np.abs(cross).max() > rounds * largest * 2.0 * MAX_REWARD:
        raise ValueError("cross is too large for the rounds")


def same(saved: FloatArray, recomputed: FloatArray) -> bool:
    """Whether two arrays are equal up to rounding."""
    size = float(np.abs(recomputed).max(initial=0.0))
    return bool((np.abs(saved - recomputed) <= ROUNDING * size).all())


def same_roots(saved: FloatArray, recomputed: FloatArray) -> bool:
    """Whether two arrays are square roots of the same matrix, up to rounding."""
    return same(saved @ saved.T, recomputed @ recomputed.T)
