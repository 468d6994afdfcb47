"""Cost of the status of an experiment, without the database.

Copying from the replica holds its lock, the rest does not. Compiled code is loaded beforehand.

    python benchmarks/status.py [--arms 5000] [--features 20]
    python benchmarks/status.py --quick    # 200 arms, once
"""

from __future__ import annotations

import argparse
import time
import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np

import rolf
from rolf.experiments.log.totals import RewardTotals
from rolf.experiments.roster import Roster
from rolf.experiments.status.make import status_of
from rolf.experiments.status.view import view_of
from rolf.policies.warm import warm_posterior

POLICIES = ("rolf-bayes", "ucb", "rolf-lasso")
#: rewards per arm
EXPERIENCE = (0.01, 3.0, 30.0)


def stand_in(name: str, arms: int, size: int, rewards: int) -> Any:
    """A replica as a status sees it, after rewards of random arms."""
    rng = np.random.default_rng(0)
    features = rng.standard_normal((arms, size))
    means = 0.2 * features @ rng.standard_normal(size) + 0.3 * rng.standard_normal(arms)
    chosen = rng.integers(0, arms, rewards)
    values = means[chosen] + rng.standard_normal(rewards)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rolf.RolfWarning)
        cls: Any = rolf.policy_class(name)
        policy = cls(features, seed=0)
    if name != "rolf-lasso":  # learning would take hours, and its status only reads an array
        policy.learn(chosen, values)
    totals = RewardTotals(arms)
    for arm, value in zip(chosen.tolist(), values.tolist(), strict=True):
        totals.add(arm, value)
    counts = np.bincount(chosen, minlength=arms).tolist()
    return SimpleNamespace(
        policy=policy,
        state=policy.state,
        record=SimpleNamespace(policy=name),
        roster=Roster.read(features),
        asked=counts,
        told=counts,
        history=[0] * arms,
        history_sums=[0.0] * arms,
        defaults=0,
        totals=totals,
    )


def measure(name: str, arms: int, size: int, rewards: int, repeats: int) -> tuple[float, float]:
    """Median seconds to copy from the replica, and to compute its status."""
    replica = stand_in(name, arms, size, rewards)
    times = []
    for _ in range(repeats + 1):  # the first one loads code and does not count
        start = time.perf_counter()
        view = view_of(replica)
        copied = time.perf_counter()
        status_of(name, view)
        times.append((copied - start, time.perf_counter() - copied))
    copying, computing = np.median(times[1:], axis=0)
    return float(copying), float(computing)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--arms", type=int, default=5000)
    parser.add_argument("--features", type=int, default=20)
    parser.add_argument("--quick", action="store_true", help="200 arms, once")
    args = parser.parse_args()
    arms, size, repeats = args.arms, args.features, 5
    if args.quick:
        arms, repeats = 200, 1
    warm_posterior()
    for name in POLICIES:
        for share in EXPERIENCE:
            copying, computing = measure(name, arms, size, int(share * arms), repeats)
            print(
                f"{name:12} {arms} arms, {share:5g} rewards per arm: "
                f"copied in {1e3 * copying:.1f} ms, computed in {1e3 * computing:.0f} ms"
            )


if __name__ == "__main__":
    main()
