"""Constants and bounds of the theorems beside what was measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from rolf import environments, theory
from rolf.augment import Augmentation
from rolf.paper.claims import final
from rolf.policies.registry import policy_class
from rolf.simulation.loop import play_policy


class Measured(NamedTuple):
    """A quantity from the theory beside what was measured."""

    quantity: str
    theory: str
    measured: str


def compare(done: Mapping[str, Mapping[str, Any]]) -> list[Measured]:
    """Constants and bounds of the theorems for K=30, d=17, T=1200, beside measurements."""
    problem = environments.paper(1, 1).draw(0)
    augmented = Augmentation(problem.features)
    values = np.linalg.eigvalsh(augmented.matrix.T @ augmented.matrix)
    low, high = theory.eigenvalue_interval(problem.features)
    sizes = {"sigma_max": augmented.sigma_max, "sigma_min": augmented.sigma_min, "noise": 0.1}
    penalties = theory.lasso_penalties(1200, 30, sigma_max=augmented.sigma_max, noise=0.1)
    lasso_factor = theory.exploration_factor_lasso(problem.features)
    out = [
        Measured(
            "eigenvalues of the augmented Gram matrix",
            f"[{low:.3g}, {high:.3g}]",
            f"{values[0]:.3g} to {values[-1]:.3g}",
        ),
        Measured(
            "cap on resampling, rounds 1 and 1200",
            f"{theory.resampling_cap(1):.1f} and {theory.resampling_cap(1200):.1f}",
            f"1/p = {1 / 0.6:.1f} draws on average",
        ),
        Measured(
            "rounds that leave the greedy arm, coupling around the action",
            f"at most {theory.departures_bound(1200, 30):.1f}",
            f"{theory.departures(1200, 30):.1f} expected",
        ),
        Measured(
            "the same, coupling around the greedy arm, from round 3 on",
            f"at most {theory.departures_bound(1200, 30):.1f}",
            f"{theory.departures(1200, 30, start=3, coupling='greedy'):.1f} expected",
        ),
        Measured(
            "penalties of the two lassos in round 1200",
            f"{penalties[0]:.0f} and {penalties[1]:.0f}",
            "0.6 and 0.6 in the experiments",
        ),
        Measured(
            "forced rounds before the first that is not, RoLF-Lasso",
            f"{theory.forced_phase(lasso_factor, 30):.1e}",
            "60 in the experiments",
        ),
        Measured(
            "the same, RoLF-Ridge",
            f"{theory.forced_phase(theory.exploration_factor_ridge(30), 30):.1e}",
            "60 in the experiments",
        ),
        Measured(
            "largest error of an estimated reward after 1200 rounds, RoLF-Lasso and RoLF-Ridge",
            f"{theory.lasso_error_bound(1200, 30, 30, **sizes):.1f} and "
            f"{theory.ridge_error_bound(1200, 30, noise=0.1):.1f}, after the forced phase",
            f"{_error('rolf-lasso', problem):.2f} and {_error('rolf-ridge', problem):.2f} "
            "in one run that forces 60 rounds",
        ),
    ]
    first = done.get("figure1", {}).get("scenario1-case1")
    if first is not None:
        horizon = first.curves.mean.shape[1]
        bounds = {
            "RoLF-Lasso": theory.lasso_regret_bound(horizon, 30, 30, **sizes),
            "RoLF-Ridge": theory.ridge_regret_bound(horizon, 30, 17, noise=0.1),
        }
        for label, bound in bounds.items():
            reached = f"{final(first.curves, label):.0f} (scenario 1, case 1)"
            quantity = f"regret of {label}, T={horizon}"
            out.append(Measured(quantity, f"at most {bound:.1e}", reached))
    varying = done.get("learnability", {}).get("varying-fixed")
    if varying is not None:
        horizon = varying.curves.mean.shape[1]
        bound = theory.varying_regret_bound(horizon, 30, 17, noise=0.1)
        reached = f"{final(varying.curves, 'RoLF-V'):.0f}"
        quantity = f"regret of RoLF-V, varying features, T={horizon}"
        out.append(Measured(quantity, f"at most {bound:.1e}", reached))
    return out


def _error(name: str, problem: environments.Problem) -> float:
    """Largest error of an arm's estimated reward after 1200 rounds."""
    build: Any = policy_class(name)
    policy = build(problem.features, seed=0)
    rng = np.random.default_rng(0)
    play_policy(policy, problem, rng, np.empty(1200))
    return float(np.abs(policy.estimates() - problem.means).max())
