"""Microseconds per round of every policy, and the ratio to a floor measured side by side.

The floor for K arms is one symmetric K x K rank-one update and one matrix-vector product,
compiled. Online times are compared with a bare NumPy LinUCB loop of the same size. Machines are
noisy, so compare ratios; they come from one process, best of several repeats.

    python benchmarks/rounds.py                      # K=30, d=17 and K=1000, d=50
    python benchmarks/rounds.py --against 2028c25    # with ratios to another commit
    python benchmarks/rounds.py --quick              # a few rounds with K=30, to check that it runs

Times are CPU times of the thread.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numba
import numpy as np

import rolf
from against import Library, libraries, run
from rolf.environments import Problem
from rolf.simulation.loop import play_policy, ready_loop

ENGINE_TARGETS = {
    30: {"rolf-lasso": 12, "rolf-ridge": 4, "linucb": 4, "lints": 8, "ucb": 4},
    1000: {"rolf-lasso": 10, "rolf-ridge": 0.1, "linucb": 0.1, "lints": 0.2},
}
ONLINE_TARGETS = {"rolf-lasso": 6, "rolf-ridge": 2, "linucb": 2, "lints": 2, "ucb": 2}


@numba.njit
def floor_rounds(matrix: np.ndarray, vector: np.ndarray, out: np.ndarray, rounds: int) -> None:
    size = vector.size
    for r in range(rounds):
        for i in range(size):
            weight = 1e-9 * vector[i]
            for j in range(size):
                matrix[i, j] += weight * vector[j]
        for j in range(size):
            out[j] = 0.0
        for i in range(size):
            weight = vector[i]
            for j in range(size):
                out[j] += matrix[i, j] * weight
        vector[r % size] += 1e-12 * out[0]


def interleaved(repeats: int, works: list[Callable[[], float]]) -> list[float]:
    """The best of several repeats of each, taken in turn, so that noise affects all alike."""
    best = [math.inf] * len(works)
    for _ in range(repeats):
        for index, work in enumerate(works):
            best[index] = min(best[index], work())
    return best


def floor(arms: int, rounds: int) -> Callable[[], float]:
    rng = np.random.default_rng(0)
    args = np.eye(arms), rng.standard_normal(arms), np.zeros(arms)
    floor_rounds(*args, 1)

    def work() -> float:
        start = time.thread_time()
        floor_rounds(*args, rounds)
        return (time.thread_time() - start) / rounds * 1e6

    return work


def in_engine(cls: type[rolf.Policy], problem: Problem, rounds: int) -> Callable[[], float]:
    try:
        loop = ready_loop(cls(problem.features, seed=0), problem)
    except TypeError:  # until November 2026 it took the class
        loop = ready_loop(cls, problem)  # type: ignore[arg-type]
    regret = np.empty(rounds)

    def work() -> float:
        policy = cls(problem.features, seed=0)
        rng = np.random.default_rng(0)
        start = time.thread_time()
        play_policy(policy, problem, rng, regret, loop)
        return (time.thread_time() - start) / rounds * 1e6

    return work


def online(cls: type[rolf.Policy], problem: Problem, rounds: int) -> Callable[[], float]:
    means = problem.means
    noise = np.random.default_rng(0).standard_normal(rounds) * problem.noise
    extra = {"features": problem.features} if cls.varying else {}
    warm = cls(problem.features, seed=0)
    warm.learn([0], [0.0], **({"features": [problem.features[0]]} if extra else {}))
    if warm.reward_range == (0.0, 1.0):  # made for clicks: the same rewards, rescaled to [0, 1]
        largest = np.abs(means).max() + np.abs(noise).max()
        means, noise = 0.5 + 0.5 * means / largest, 0.5 * noise / largest

    def work() -> float:
        policy = cls(problem.features, seed=0)
        start = time.thread_time()
        for t in range(rounds):
            decision = policy.ask(**extra)
            policy.tell(decision, means[decision.arm] + noise[t])
        return (time.thread_time() - start) / rounds * 1e6

    work()
    return work


def bare_linucb(problem: Problem, rounds: int) -> Callable[[], float]:
    """A minimal NumPy implementation, the yardstick for ask and tell."""
    features = problem.features
    noise = np.random.default_rng(0).standard_normal(rounds) * problem.noise

    def work() -> float:
        inverse = np.eye(features.shape[1]) / 0.6
        moment = np.zeros(features.shape[1])
        start = time.thread_time()
        for t in range(rounds):
            theta = inverse @ moment
            widths = np.sqrt(((features @ inverse) * features).sum(axis=1))
            arm = int(np.argmax(features @ theta + math.sqrt(math.log(t + 1)) * widths))
            reward = problem.means[arm] + noise[t]
            row = features[arm]
            gain = inverse @ row
            inverse -= np.outer(gain, gain) / (1.0 + row @ gain)
            moment += reward * row
        return (time.thread_time() - start) / rounds * 1e6

    return work


class Size(NamedTuple):
    """Arms, observed features, numbers of rounds, and repeats."""

    arms: int
    observed: int
    rounds: int
    online_rounds: int
    repeats: int


SIZES = (Size(30, 17, 20_000, 2_000, 9), Size(1000, 50, 4_000, 1_000, 3))
QUICK = (Size(30, 17, 200, 50, 1),)
#: against commit 2028c25, with K=30 (the engine; ask and tell): all others at most SLOWER
AGAINST = {
    "rolf-bayes": 0.45,
    "rolf-lasso": 0.6,
    "rolf-ridge": 0.6,
    "linucb": 0.6,
    "lints": 0.6,
    "ask and tell": 0.8,
}
SLOWER = 1.03
#: processes of each library, in turn
TURNS = 3


class Times(NamedTuple):
    """Microseconds per round: the floor, the bare loop, and (engine, ask and tell) by policy."""

    floor: float
    bare: float
    policies: dict[str, tuple[float, float]]

    def ratios(self, name: str) -> tuple[float, float]:
        engine, online = self.policies[name]
        return engine / self.floor, online / self.bare


def measure(size: Size) -> Times:
    arms, observed, rounds, online_rounds, repeats = size
    family = rolf.environments.paper(1, 1, arms=arms, size=2 * observed + 1, observed=observed)
    problem = family.draw(0)
    # at a thousand arms rolf-bayes-varying takes 10 ms per round, so minutes in total
    classes = [cls for cls in rolf.policy_classes() if arms < 100 or "bayes-v" not in cls.name]
    # about as long as a policy takes, so that noise affects both alike
    engine = [floor(arms, 150_000 if arms < 100 else 1_000)]
    engine += [in_engine(cls, problem, rounds) for cls in classes]
    asked = [bare_linucb(problem, online_rounds)]
    asked += [online(cls, problem, online_rounds) for cls in classes]
    base, *compiled = interleaved(repeats, engine)
    bare, *asking = interleaved(repeats, asked)
    both = zip(compiled, asking, strict=True)
    return Times(base, bare, dict(zip([cls.name for cls in classes], both, strict=True)))


def report(size: Size) -> bool:
    arms, observed = size.arms, size.observed
    times = measure(size)
    print(f"\nK={arms}, d={observed}, us per round: floor {times.floor:.3f}, ", end="")
    print(f"bare NumPy LinUCB {times.bare:.1f}")
    print(f"{'policy':19}{'engine us':>10}{'/ floor':>9}{'target':>8}", end="")
    print(f"{'ask+tell us':>13}{'/ bare':>9}{'target':>8}")
    met = True
    for name, (fast, slow) in times.policies.items():
        engine, asked = times.ratios(name)
        target = ENGINE_TARGETS.get(arms, {}).get(name)
        online_target = ONLINE_TARGETS.get(name) if arms == 30 else None
        met &= target is None or engine <= target
        met &= online_target is None or asked <= online_target
        print(f"{name:19}{fast:10.3f}{engine:9.2f}{target or '':>8}", end="")
        print(f"{slow:13.1f}{asked:9.2f}{online_target or '':>8}")
    bayes, lasso = (times.policies[name][0] for name in ("rolf-bayes", "rolf-lasso"))
    print(f"rolf-bayes: {bayes / lasso:.2f} times rolf-lasso, {bayes / 1e3:.3f} ms per round")
    return met and (bayes / lasso <= 5.0 if arms == 30 else bayes <= 5e3)


MEASURE = """
import sys
sys.path.insert(0, sys.argv[1])
import rounds
rounds.print_times(int(sys.argv[2]), sys.argv[3] == "quick")
"""


def print_times(place: int, quick: bool) -> None:
    print(json.dumps(measure((QUICK if quick else SIZES)[place])))


def best_ratios(library: Library, place: int, quick: bool) -> dict[str, tuple[float, float]]:
    """Times from a separate process, which also measures its own floor."""
    args = str(Path(__file__).parent), str(place), "quick" if quick else "all"
    cache = os.environ.get("ROLF_CACHE_DIR", "")
    out = run(library, MEASURE, *args, cache=cache).output.splitlines()[-1]
    times = Times(*json.loads(out))
    return {name: times.ratios(name) for name in times.policies}


def compare(revision: str, quick: bool) -> bool:
    """Floors, and multiples of the bare loop, here and in another commit."""
    met = True
    with libraries(revision) as both:
        for place, size in enumerate(QUICK if quick else SIZES):
            turns = [
                [best_ratios(library, place, quick) for library in both]
                for _ in range(1 if quick else TURNS)
            ]
            print(
                f"\nK={size.arms}, d={size.observed}",
                " " * 9,
                "floors, here and there, ratio",
                end="",
            )
            print(" " * 6, "ask+tell / bare, ratio")
            for name in turns[0][0]:
                if name not in turns[0][1]:
                    continue
                engine, asked = (
                    [min(turn[which][name][kind] for turn in turns) for which in (0, 1)]
                    for kind in (0, 1)
                )
                first, second = engine[0] / engine[1], asked[0] / asked[1]
                target = AGAINST.get(name, SLOWER) if size.arms == 30 else SLOWER
                met &= first <= target
                print(
                    f"{name:19}{engine[0]:12.2f}{engine[1]:9.2f}{first:7.2f} (target {target:4})",
                    end="",
                )
                print(f"{asked[0]:10.2f}{asked[1]:9.2f}{second:7.2f}", flush=True)
    return met


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a few rounds with K=30")
    parser.add_argument("--against", metavar="REV", help="a commit to compare with")
    options = parser.parse_args()
    if options.against:
        met = compare(options.against, options.quick)
    else:
        reports = [report(size) for size in (QUICK if options.quick else SIZES)]
        met = all(reports)
    if not options.quick:
        print("\nall targets met" if met else "\nSOME TARGETS MISSED")


if __name__ == "__main__":
    main()
