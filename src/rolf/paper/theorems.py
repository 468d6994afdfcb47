"""The paper's theorems and lemmas against studies and exact computation: verdicts and numbers.

Every verdict follows from the numbers beside it.
"""

from __future__ import annotations

import numpy as np

from rolf import environments, theory
from rolf.augment import Augmentation
from rolf.paper import studies
from rolf.paper.claims import Claim, claim
from rolf.paper.studies import BoundCheck, GramCheck, LockCheck, RateCheck, RegretCheck


def judge_theory(seed: int) -> list[Claim]:
    """Verdicts on the theorems and lemmas."""
    return [
        error_claim("RoLF-Ridge", "thm:est_ridge_consistency", studies.ridge_errors(seed)),
        error_claim("RoLF-Lasso", "thm:est_lasso_consistency", studies.lasso_errors(seed)),
        regret_claim(
            "RoLF-Ridge",
            "thm:ridge_regret",
            "four arms with means 1, -1, -1, -1; a forced round costs up to 2, which the proof "
            "says and then drops",
            studies.ridge_regret(seed),
        ),
        regret_claim(
            "RoLF-Lasso",
            "thm:lasso_regret",
            "two arms, one feature of size 0.01; the first term leaves out the factor "
            "s_max^2/s_min^2 of C_e",
            studies.lasso_regret(seed),
        ),
        regret_claim(
            "RoLF-V",
            "thm:regret_ridge_time_varying",
            "ten arms; a forced round costs up to 2, for either reading of C_e",
            studies.varying_regret(seed),
        ),
        rate_claim("RoLF-Ridge", studies.narrow_gaps(seed)),
        rate_claim("RoLF-V", studies.narrow_gaps_varying(seed)),
        lock_claim(studies.lasso_lock(seed)),
        impossible_claim(studies.impossible_rate()),
        gram_claim(studies.gram_matrix(seed)),
        departures_claim(arms=2),
        departures_claim(arms=30),
        *dimension_claims(environments.paper(1, 3).draw(seed)),
        match_claim(),
    ]


def error_claim(policy: str, label: str, check: BoundCheck) -> Claim:
    return claim(
        f"All estimates of {policy} are within the stated distance of the truth, after the forced "
        f"phase ({label}).",
        check.holds,
        _shares(check)
        + f"; the median error and the bound at the end: {check.medians[-1]:.4f} and "
        f"{check.bounds[-1]:.4f}. Arms other than the greedy one are played about 2 sqrt(t)/(K-1) "
        "times, too few for the stated rate",
    )


def regret_claim(policy: str, label: str, problem: str, check: RegretCheck) -> Claim:
    return claim(
        f"The regret of {policy} is at most its bound, with the stated probability ({label}).",
        check.holds,
        f"{problem}: {check.regret:,.0f} after {check.rounds:,} rounds, the bound is "
        f"{check.bound:,.0f}",
    )


def rate_claim(policy: str, check: BoundCheck) -> Claim:
    return claim(
        f"With these constants repaired, the regret of {policy} grows as sqrt(T).",
        check.holds,
        "two arms with a gap that the exploration cannot see: regret "
        + _shares(check)
        + "; exploring with probability t^(-1/2) costs up to about "
        f"T^{theory.exploration_exponent(0.5):g}",
    )


def lock_claim(check: LockCheck) -> Claim:
    wrong = ", ".join(f"{share:.0%}" for share in check.wrong)
    return claim(
        "With the theory's penalties and repaired constants, the regret of RoLF-Lasso grows as "
        "sqrt(T).",
        check.bound.holds,
        f"means 0.501 and 0.5, noise 1: on the worse arm in {wrong} of the runs; regret "
        + _shares(check.bound)
        + ". The shrinkage of an arm that is played rarely never falls, so its regret is linear",
    )


def impossible_claim(check: RateCheck) -> Claim:
    return claim(
        "Regret of the order sqrt((d + d_h) T) is possible (abstract, tab:regret_overview).",
        check.holds,
        f"K={check.arms:.0e}, T={check.rounds:.0e}, d + d_h at most 2, all singular values 1: "
        f"the bound of thm:lasso_regret is {check.bound:.2e}, and every policy loses "
        f"{check.floor:.2e} on one of these instances",
    )


def _shares(check: BoundCheck) -> str:
    """With a standard error each, the largest of them."""
    error = max((share * (1.0 - share) / check.runs) ** 0.5 for share in check.shares)
    shares = ", ".join(f"{share:.0%}" for share in check.shares)
    shares += f" (± {error:.0%})"
    rounds = ", ".join(f"{t:.0e}".replace("e+", "e") for t in check.rounds)
    return (
        f"above the bound in {shares} of {check.runs} runs after {rounds} rounds, where "
        f"{check.allowed:.0%} are allowed"
    )


def gram_claim(check: GramCheck) -> Claim:
    return claim(
        "The weighted Gram matrix of the pseudo-actions approaches that of all arms "
        "(cor:Gram_matrix).",
        check.holds,
        f"ten arms, {check.rounds:,} rounds: {check.deviation:.2f} apart, where the corollary says "
        f"{check.claimed:g}. A pseudo-action that is redrawn until it matches has the action's "
        "distribution, so the eigenvalues add up to 1/p, not to K",
    )


def departures_claim(arms: int, rounds: int = 1200) -> Claim:
    exact, bound = theory.departures(rounds, arms), theory.departures_bound(rounds, arms)
    return claim(
        f"With {arms} arms the greedy arm is left at most 2 sqrt(T)/(K-1) + 2 delta times in "
        "expectation (lem:exploration_prob_bound).",
        exact <= bound,
        f"T={rounds}: exactly {exact:.1f} for the paper's coupling, the bound is {bound:.1f}"
        + ("" if exact <= bound else "; the proof drops the sum over the K-1 other arms"),
    )


def dimension_claims(problem: environments.Problem) -> list[Claim]:
    """On d_h, for a problem whose latent features span the observed ones."""
    augmented = Augmentation(problem.features)
    arms, rank = augmented.arms, augmented.rank
    usual = augmented.latent_dimension(problem.means)
    basis = theory.aligned_basis(problem.features, problem.means)
    turned = int(np.count_nonzero(np.abs(basis.T @ problem.means) > 1e-9))
    same = augmented.latent_dimension(problem.features.sum(axis=1))  # the latent features are X
    return [
        claim(
            "If the latent features span the observed ones, d_h = K - d for any basis.",
            usual == turned == same == arms - rank,
            f"K - d is {arms - rank}; in the usual basis d_h is {usual}, in one turned towards the "
            f"latent rewards {turned}, and {same} where both span the same space, which is the "
            "case that the sentence before it settles",
        )
    ]


def match_claim() -> Claim:
    p, delta = 0.6, 1e-4
    worst = max(
        (1.0 - p) ** (int(theory.resampling_cap(t, p=p, delta=delta)) + 1) * (t + 1) ** 2 / delta
        for t in range(1, 2000)
    )
    return claim(
        "Action and pseudo-action fail to match with probability at most delta/(t+1)^2.",
        worst <= 1.0,
        f"at most {worst:.2f} times that over 2000 rounds, computed",
    )
