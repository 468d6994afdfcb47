"""Doubly robust estimators for readings of the paper that need more than counts and sums.

``doubly_robust.py`` and ``estimators/ridge/augmented.py`` re-impute all earlier rounds with the
newest imputation estimate and leave out unmatched rounds. The printed equations can be read
differently in two places:

* frozen: the pseudo-rewards of a round keep that round's imputation estimate, which includes the
  round's own reward, or, with "previous", the estimate before, which does not. Their sum q (K,)
  over the matched rounds is then part of the belief; it does not follow from counts and sums.
* unmatched: the imputation estimate sums over all rounds, the main estimate over the matched ones.
  An unmatched round changes nothing by itself (algorithm box), so its reward is set aside and
  enters the imputation with the next match.

Either way the main estimate depends on the past through q and the number n of matched rounds. The
main lasso minimises n u'Gu - 2 u'X~'q + l2 |u|_1, and the main ridge with penalty l gives the arms

    V diag(s^2 / (n s^2 + l)) V'q + (I - V V') q / (n + l),      X' = V S W', s the diagonal of S.

With both readings as in those files, q = n r + (sums - counts r)/p for the newest imputed rewards
r.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rolf.estimators import contract as op
from rolf.estimators.contract import History, Observation, Traits
from rolf.estimators.lasso.basis import coefficients_of, rewards_of
from rolf.estimators.lasso.doubly_robust import (
    DERIVED,
    RobustBelief,
    RobustLasso,
    growth,
    impute,
    pseudo_rewards,
    set_problem,
    solve_main,
)
from rolf.estimators.lasso.imputation import imputation_lasso
from rolf.estimators.lasso.path import solve_from_nothing
from rolf.estimators.ridge.augmented import AugmentedBelief, AugmentedRidge, take_in
from rolf.kernel import looped, shared
from rolf.linalg import add, assign, dot, matvec, vecmat
from rolf.types import FloatArray

#: the largest pseudo-reward that a saved state may hold, in absolute value
LARGEST = 1e200


class Reading(NamedTuple):
    """Whether pseudo-rewards are frozen, whether they are made with the imputation estimate of the
    round before, and whether unmatched rounds enter the imputation."""

    frozen: bool
    previous: bool
    unmatched: bool


class Kept(NamedTuple):
    """Additive totals, (K,) each: counts and sums of the matched rewards, the sum q of the
    pseudo-rewards (zero unless frozen), counts and sums of the rewards set aside."""

    counts: FloatArray
    sums: FloatArray
    pseudo: FloatArray
    aside_counts: FloatArray
    aside_sums: FloatArray

    @classmethod
    def nothing(cls, arms: int) -> Kept:
        return cls(*np.zeros((5, arms)))


@shared
def keep(
    kept: Kept, reading: Reading, arm: int, reward: float, imputed: FloatArray, p: float
) -> FloatArray:
    """Add a matched reward, given the imputed rewards (K,) for its round. Returns q."""
    kept.counts[arm] += 1.0
    kept.sums[arm] += reward
    if reading.frozen:
        add(kept.pseudo, 1.0, pseudo_rewards(imputed, arm, reward, p))
    return pseudo_sums(kept, reading, imputed, p)


@shared
def pseudo_sums(kept: Kept, reading: Reading, imputed: FloatArray, p: float) -> FloatArray:
    """q, given the newest imputed rewards (K,)."""
    if reading.frozen:
        return kept.pseudo
    out: FloatArray = kept.counts.sum() * imputed + (kept.sums - kept.counts * imputed) / p
    return out


def _set_aside(model: Any, belief: Any, seen: Observation) -> None:
    if model.reading.unmatched:
        belief.kept.aside_counts[seen.arm] += 1.0
        belief.kept.aside_sums[seen.arm] += seen.reward


def _check_growth(model: Any) -> None:
    if model.reading.frozen:
        how = "previous" if model.reading.previous else "frozen"
        raise ValueError(f'with imputation="{how}", a new arm lacks earlier pseudo-rewards')


def check_kept(kept: Kept) -> None:
    """Refuse totals that are impossible for any rewards."""
    op.check_counts(kept.counts)
    op.check_sums(kept.counts, kept.sums)
    op.check_counts(kept.aside_counts)
    op.check_sums(kept.aside_counts, kept.aside_sums)
    op.check_sums(kept.counts.sum(), kept.pseudo, LARGEST)


# --- ridge -------------------------------------------------------------------------------------


class PseudoRidge(NamedTuple):
    """The imputation ridge with penalty l, p, and the reading; the main penalty is l/p."""

    imputation: AugmentedRidge
    probability: float
    reading: Reading


class PseudoRidgeBelief(NamedTuple):
    """The totals, and the estimates (K,) of the main ridge."""

    kept: Kept
    imputation: AugmentedBelief
    estimates: FloatArray


def _begin_ridge(model: PseudoRidge, arms: int) -> PseudoRidgeBelief:
    imputation = op.begin(model.imputation, arms)
    return PseudoRidgeBelief(Kept.nothing(arms), imputation, np.zeros(arms))


@shared
def solve_ridge(model: PseudoRidge, belief: PseudoRidgeBelief, pseudo: FloatArray) -> None:
    """Solve the main ridge, in O(K d)."""
    directions, scales2 = model.imputation.directions, model.imputation.scales2
    penalty = model.imputation.penalty / model.probability
    count = belief.kept.counts.sum()
    along = vecmat(pseudo, directions)
    latent = pseudo - matvec(directions, along)
    observed = matvec(directions, along * scales2 / (count * scales2 + penalty))
    assign(belief.estimates, observed + latent / (count + penalty))


def _observe_ridge(model: PseudoRidge, belief: PseudoRidgeBelief, seen: Observation) -> None:
    kept, imputation = belief.kept, belief.imputation
    imputed = imputation.estimates.copy()
    if dot(kept.aside_counts, kept.aside_counts) > 0.0:
        for arm in range(kept.counts.size):
            count = int(kept.aside_counts[arm])
            for _ in range(count):  # counts and sums are all that matters
                take_in(model.imputation, imputation, arm, kept.aside_sums[arm] / count)
            kept.aside_counts[arm] = 0.0
            kept.aside_sums[arm] = 0.0
    take_in(model.imputation, imputation, seen.arm, seen.reward)
    if not model.reading.previous:
        imputed = imputation.estimates
    p = model.probability
    pseudo = keep(kept, model.reading, seen.arm, seen.reward, imputed, p)
    solve_ridge(model, belief, pseudo)


def _ridge_means(model: PseudoRidge, belief: PseudoRidgeBelief, features: FloatArray) -> FloatArray:
    return belief.estimates


def _recompute_ridge(model: PseudoRidge, belief: PseudoRidgeBelief, round: int) -> None:
    op.recompute(model.imputation, belief.imputation, round)
    imputed = belief.imputation.estimates
    solve_ridge(model, belief, pseudo_sums(belief.kept, model.reading, imputed, model.probability))


def _learn_ridge(model: PseudoRidge, belief: PseudoRidgeBelief, history: History) -> None:
    for arm, reward in zip(history.positions.tolist(), history.rewards.tolist(), strict=True):
        _observe_ridge(model, belief, Observation(arm, reward, history.rows[0], 0, 1.0))


def _check_ridge(model: PseudoRidge, belief: PseudoRidgeBelief, rounds: int) -> None:
    check_kept(belief.kept)
    op.check_arms(model, belief.imputation, rounds)


def _check_ridge_rest(model: PseudoRidge, belief: PseudoRidgeBelief, rounds: int) -> None:
    op.check_rest(model.imputation, belief.imputation, rounds)


KEPT = tuple(f"kept.{name}" for name in Kept._fields)

op.estimator(
    PseudoRidge,
    {
        op.begin: _begin_ridge,
        op.observe: _observe_ridge,
        op.set_aside: _set_aside,
        op.means: _ridge_means,
        op.recompute: _recompute_ridge,
        op.learn: _learn_ridge,
        op.check_totals: _check_ridge,
        op.check_rest: _check_ridge_rest,
        op.check_growth: _check_growth,
    },
    Traits(totals=(*KEPT, "imputation.counts", "imputation.sums"), sequential=True),
)

# --- lasso -------------------------------------------------------------------------------------


class PseudoLasso(NamedTuple):
    """The two lassos, and the reading."""

    lassos: RobustLasso
    reading: Reading


class PseudoLassoBelief(NamedTuple):
    """The totals, and both lassos; counts and sums in ``lassos`` are the imputation lasso's."""

    kept: Kept
    lassos: RobustBelief


def _begin_lasso(model: PseudoLasso, arms: int) -> PseudoLassoBelief:
    return PseudoLassoBelief(Kept.nothing(arms), op.begin(model.lassos, arms))


@shared
def solve_lasso(model: PseudoLasso, belief: PseudoLassoBelief, q: FloatArray, l2: float) -> None:
    """Solve the main lasso."""
    count = belief.kept.counts.sum()
    target = coefficients_of(model.lassos.features, q) / count
    solve_main(model.lassos, belief.lassos, target, count, l2)


@looped
def add_pseudo(
    model: PseudoLasso, belief: PseudoLassoBelief, arm: int, reward: float, l1: float, l2: float
) -> None:
    """Add a matched reward."""
    kept, lassos = belief.kept, belief.lassos
    imputed = rewards_of(model.lassos.features, lassos.imputation.coef)
    for each in range(kept.counts.size):
        count = int(kept.aside_counts[each])
        for _ in range(count):  # counts and sums are all that matters
            impute(model.lassos, lassos, each, kept.aside_sums[each] / count, l1)
        kept.aside_counts[each] = 0.0
        kept.aside_sums[each] = 0.0
    impute(model.lassos, lassos, arm, reward, l1)
    if not model.reading.previous:
        imputed = rewards_of(model.lassos.features, lassos.imputation.coef)
    p = model.lassos.probability
    solve_lasso(model, belief, keep(kept, model.reading, arm, reward, imputed, p), l2)


@looped
def solve_both(model: PseudoLasso, belief: PseudoLassoBelief, l2: float) -> None:
    """Solve both lassos, once the imputation's Gram matrix and target are set."""
    lassos, p = belief.lassos, model.lassos.probability
    solve_from_nothing(imputation_lasso(model.lassos.features, lassos.imputation, lassos.counts))
    imputed = rewards_of(model.lassos.features, lassos.imputation.coef)
    solve_lasso(model, belief, pseudo_sums(belief.kept, model.reading, imputed, p), l2)


def _observe_lasso(model: PseudoLasso, belief: PseudoLassoBelief, seen: Observation) -> None:
    belief.lassos.last[0] = seen.round
    grown = growth(model.lassos, seen.round)
    penalties = model.lassos.penalties
    first, second = penalties.imputation * grown, penalties.main * grown
    add_pseudo(model, belief, seen.arm, seen.reward, first, second)


def _lasso_means(model: PseudoLasso, belief: PseudoLassoBelief, features: FloatArray) -> FloatArray:
    return belief.lassos.estimates


def _recompute_lasso(model: PseudoLasso, belief: PseudoLassoBelief, round: int) -> None:
    grown = set_problem(model.lassos, belief.lassos, round)
    if belief.kept.counts.any():
        solve_both(model, belief, model.lassos.penalties.main * grown)


def _learn_lasso(model: PseudoLasso, belief: PseudoLassoBelief, history: History) -> None:
    done = int(belief.kept.counts.sum())
    rewards = zip(history.positions.tolist(), history.rewards.tolist(), strict=True)
    for round, (arm, reward) in enumerate(rewards, start=done + 1):
        _observe_lasso(model, belief, Observation(arm, reward, history.rows[0], round, 1.0))
    belief.lassos.last[0] = 0


def _check_lasso(model: PseudoLasso, belief: PseudoLassoBelief, rounds: int) -> None:
    check_kept(belief.kept)
    op.check_arms(model, belief.lassos, rounds)


def _check_lasso_rest(model: PseudoLasso, belief: PseudoLassoBelief, rounds: int) -> None:
    op.check_rest(model.lassos, belief.lassos, rounds)


op.estimator(
    PseudoLasso,
    {
        op.begin: _begin_lasso,
        op.observe: _observe_lasso,
        op.set_aside: _set_aside,
        op.means: _lasso_means,
        op.recompute: _recompute_lasso,
        op.learn: _learn_lasso,
        op.check_totals: _check_lasso,
        op.check_rest: _check_lasso_rest,
        op.check_growth: _check_growth,
    },
    Traits(
        totals=(*KEPT, "lassos.counts", "lassos.sums"),
        derived=tuple(f"lassos.{name}" for name in DERIVED),
        sequential=True,
    ),
)
