"""How often the intervals of ``rolf.replay`` cover the truth on logs of RoLF-Bayes.

Each log is played by RoLF-Bayes, with options that make decisions random, on its own problem, whose
features explain half of the differences between arms. The following are evaluated on it:

* rolf-bayes: its next decision after the first half, nearly always the arm the log plays most;
* ucb, rolf-ridge: the same for these, often an arm the log seldom plays, or any arm;
* uniform: every arm with the same probability;
* second: always the second best arm, which the log seldom plays.

The output shows the share of 95% intervals that cover the true value, the median effective number
of decisions, and the bias in standard errors of the mean over the logs. Intervals based on fewer
than 50 effective decisions carry a warning; "trusted" are the others. ``replay`` is shown for the
two that do not learn, whose value is known.

    python benchmarks/replay_coverage.py
    python benchmarks/replay_coverage.py --quick    # two short logs of one kind
    python benchmarks/replay_coverage.py --arms 20 --logs 100 --json out/coverage.json
"""

from __future__ import annotations

import argparse
import json
import math
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import rolf
from rolf.arms.table import Arms
from rolf.environments import synthetic
from rolf.estimators.means import ArmMeans
from rolf.evaluation.offpolicy import TINY
from rolf.evaluation.replay import ESTIMATORS
from rolf.kernel import implement
from rolf.policies.core.parts import Params
from rolf.policies.core.rules import Optimistic, Situation, bounds
from rolf.types import FloatArray

LOGS: dict[str, dict[str, Any]] = {
    "explore=0.05": {"explore": 0.05},
    "explore=0.1": {"explore": 0.1},
    "explore=0.2": {"explore": 0.2},
    'rule="sample"': {"rule": "sample"},
    'rule="sample", explore=0.05': {"rule": "sample", "explore": 0.05},
}


class OneArm(NamedTuple):
    """The arm that is played every round."""

    arm: int


def _bounds(bound: OneArm, now: Situation, round: int) -> tuple[FloatArray, FloatArray]:
    upper = np.zeros(now.belief.estimates.size)
    upper[bound.arm] = 1.0
    return now.belief.estimates, upper


implement(OneArm, {bounds: _bounds})


class Always(rolf.Policy):
    """Plays the same arm every round."""

    name = "always"
    summary = "plays the same arm every round"

    def __init__(self, features: Any, *, arm: int, seed: Any = None) -> None:
        arms = Arms.read(features)
        super().__init__(arms, Params(ArmMeans(arms.count), Optimistic(OneArm(arm))), seed)


def targets(problem: Any) -> dict[str, tuple[Any, dict[str, Any]]]:
    """The policies to evaluate, by label."""
    second = int(np.argsort(problem.means)[-2])
    return {
        "rolf-bayes": ("rolf-bayes", {}),
        "ucb": ("ucb", {"setting": "tuned", "noise": float(problem.noise)}),
        "rolf-ridge": ("rolf-ridge", {}),
        "uniform": ("rolf-ridge", {"exploration": 1e9}),
        "second": (Always, {"arm": second}),
    }


def play(problem: Any, options: dict[str, Any], rounds: int, seed: int) -> rolf.Log:
    """A log of RoLF-Bayes with these options."""
    policy = rolf.RoLFBayes(problem.features, seed=seed, **options)
    rng = np.random.default_rng([seed, 1])
    arms, chances, rewards = [], [], []
    for _ in range(rounds):
        decision = policy.ask()
        reward = problem.reward(decision.arm, rng)
        policy.tell(decision, reward)
        arms.append(decision.arm)
        chances.append(decision.probability)
        rewards.append(reward)
    return rolf.Log(arms, chances, rewards)


def truths(problem: Any, log: rolf.Log) -> dict[str, float]:
    """The true values of the evaluated policies."""
    half, out = len(log) // 2, {}
    for label, (entry, options) in targets(problem).items():
        cls = rolf.policy_class(entry) if isinstance(entry, str) else entry
        forced = {"exploration": 0} if label == "rolf-ridge" else {}  # already explored
        policy = cls(problem.features, seed=0, **forced, **options)
        policy.learn([int(arm) for arm in log.arms[:half]], log.rewards[:half])
        out[label] = float(policy.probabilities() @ problem.means)
    return out


def evaluate(problem: Any, log: rolf.Log, seed: int) -> list[rolf.evaluation.Value]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rolf.RolfWarning)
        plan = targets(problem)
        weighted = rolf.replay(log, problem.features, plan, seed=seed, estimators=ESTIMATORS[1:])
        fixed = {label: plan[label] for label in ("uniform", "second")}
        out = list(weighted[1:])
        if seed % 2 == 0:  # slower than the others
            out += rolf.replay(log, problem.features, fixed, seed=seed, estimators="replay")[1:]
    return out


def coverage(
    options: dict[str, Any], arms: int, rounds: int, logs: int, seed: int
) -> dict[tuple[str, str], dict[str, float]]:
    """By target and estimator."""
    rows: dict[tuple[str, str], list[tuple[bool, float, float]]] = {}
    family = synthetic(arms=arms, observed=max(arms // 4, 1), share=0.5, noise=0.5)
    for run in range(seed, seed + logs):
        problem = family.draw(run)
        log = play(problem, options, rounds, run)
        truth = truths(problem, log)
        for value in evaluate(problem, log, run):
            right = truth[value.policy]
            row = (value.low <= right <= value.high, value.effective, value.value - right)
            rows.setdefault((value.policy, value.estimator), []).append(row)
    return {key: summary(np.array(values, dtype=float)) for key, values in rows.items()}


def summary(rows: FloatArray) -> dict[str, float]:
    inside, effective, errors = rows[np.isfinite(rows[:, 2])].T
    trusted = effective >= TINY
    return {
        "logs": inside.size,
        "coverage": float(inside.mean()),
        "effective": float(np.median(effective)),
        "trusted": float(trusted.mean()),
        "coverage of trusted": float(inside[trusted].mean()) if trusted.any() else math.nan,
        "bias": float(errors.mean() / (errors.std() / math.sqrt(errors.size))),
        "error": float(np.sqrt(np.mean(errors**2))),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add = parser.add_argument
    add("--arms", type=int, default=6)
    add("--rounds", type=int, default=2000)
    add("--logs", type=int, default=200)
    add("--seed", type=int, default=0)
    add("--only", choices=list(LOGS), action="append", help="only these logs; may be repeated")
    add("--json", type=Path, help="also write the numbers to this file")
    add("--quick", action="store_true", help="two short logs of one kind")
    args = parser.parse_args()
    if args.quick:
        args.rounds, args.logs, args.only = 200, 2, list(LOGS)[:1]
    out = {}
    for label in args.only or LOGS:
        print(f"{label}, {args.arms} arms, {args.rounds} rounds, {args.logs} logs", flush=True)
        found = coverage(LOGS[label], args.arms, args.rounds, args.logs, args.seed)
        print(f"{'':24}{'logs':>6}{'covered':>9}{'effective':>11}{'trusted':>9}", end="")
        print(f"{'covered':>9}{'bias':>7}{'rms error':>11}")
        for (target, estimator), row in found.items():
            print(
                f"{target:14}{estimator:10}{row['logs']:6.0f}{row['coverage']:9.1%}"
                f"{row['effective']:11.0f}{row['trusted']:9.0%}{row['coverage of trusted']:9.1%}"
                f"{row['bias']:7.1f}{row['error']:11.4f}",
                flush=True,
            )
        out[label] = {" ".join(key): row for key, row in found.items()}
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(out, indent=1))


if __name__ == "__main__":
    main()
