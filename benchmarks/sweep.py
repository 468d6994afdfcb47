"""Many runs on many workers: gain from a second core, overhead of a cluster, runs per second.

Runs per second count CPU time, so they hold on a busy machine too. Efficiency is the time on one
core divided by twice the time on two, best of several alternating repeats; both cores must be free,
so the load of the machine is printed as well. Overhead per task is the time a task takes beyond its
own work, a sleep, on clusters of two workers started here.

    python benchmarks/sweep.py            # everything, in about two minutes
    python benchmarks/sweep.py --quick    # only runs per second, too short to be accurate
"""

from __future__ import annotations

import argparse
import functools
import os
import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import rolf
import rolf.parallel
from rolf.parallel import completed
from rolf.simulation.entries import read_policies
from rolf.simulation.runs import Runs

ROUNDS = 1200
FAMILY = rolf.environments.paper()
VARYING = rolf.environments.varying(arms=30, observed=17)
#: seconds per task when measuring overhead
SLEEP = 0.02
EFFICIENCY, OVERHEAD = 0.85, 0.010


class Greedy:
    """A typical user's policy in plain Python."""

    def __init__(self, features: Any) -> None:
        self.counts, self.sums = [0] * len(features), [0.0] * len(features)

    def ask(self) -> int:
        if 0 in self.counts:
            return self.counts.index(0)
        means = [total / count for total, count in zip(self.sums, self.counts, strict=True)]
        return means.index(max(means))

    def tell(self, decision: int, reward: float) -> None:
        self.counts[decision] += 1
        self.sums[decision] += reward


def runs_of(policy: Any) -> Runs:
    """The runs of one policy, keeping only the last round."""
    entries = read_policies({"policy": policy})
    needs_varying = getattr(entries[0].build, "name", "") in varying_only()
    problem = VARYING if needs_varying else FAMILY
    return Runs(entries, problem, 0, np.array([ROUNDS]))


@functools.cache
def varying_only() -> set[str]:
    return {cls.name for cls in rolf.policy_classes() if "varying" in cls.name}


def memory(task: int) -> float:
    """Peak memory of this process in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0


def seconds(work: Callable[[], Any]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def run_all(function: Callable[[Any], Any], tasks: Any, backend: str, jobs: int) -> None:
    for _ in completed(function, tasks, backend=backend, jobs=jobs):
        pass


def runs_per_second(policy: Any, least: float) -> float:
    """Runs per second, measured for at least ``least`` seconds."""
    runs = runs_of(policy)
    runs.play((0, 0))
    count, started = 0, time.process_time()
    while (taken := time.process_time() - started) < least or not count:
        count += 1
        runs.play((0, count))
    return count / taken


def efficiency(policy: Any, backend: str, rate: float, repeats: int = 8) -> float:
    """About two seconds of runs: the time on one core divided by twice the time on two."""
    runs, tasks = runs_of(policy), [(0, run) for run in range(int(2.0 * rate))]
    best = {1: np.inf, 2: np.inf}
    run_all(runs.play, tasks[:8], backend, 2)
    for _ in range(repeats):
        for jobs in best:
            best[jobs] = min(best[jobs], seconds(lambda: run_all(runs.play, tasks, backend, jobs)))  # noqa: B023
    return best[1] / (2.0 * best[2])


def overhead(backend: str, tasks: int = 200) -> tuple[float, float]:
    """Seconds beyond the sleep of a task, and seconds per empty task, on two workers."""
    run_all(time.sleep, [0.1] * 4, backend, 2)
    sleeping = seconds(lambda: run_all(time.sleep, [SLEEP] * tasks, backend, 2))
    empty = seconds(lambda: run_all(abs, range(10 * tasks), backend, 2))
    return 2.0 * sleeping / tasks - SLEEP, empty / (10 * tasks)


def verdict(good: bool) -> str:
    return "ok" if good else "MISSED"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="runs per second only, a few runs")
    quick = parser.parse_args().quick
    print(f"runs per second and core, K=30, T={ROUNDS}")
    least = 0.01 if quick else 0.5
    rates = {cls.name: runs_per_second(cls.name, least) for cls in rolf.policy_classes()}
    rates["plain Python"] = runs_per_second(Greedy, least)
    for name, rate in rates.items():
        print(f"  {name:20s} {rate:9.1f}  {1e3 / rate:8.2f} ms per run")
    if quick:
        return
    busy = f"the machine's load before: {os.getloadavg()[0]:.1f}"
    print(f"efficiency on two cores (at least {EFFICIENCY:.0%}; {busy})")
    cases = [("linucb", "threads"), ("linucb", "local"), (Greedy, "local")]
    for policy, backend in cases:
        name = policy if isinstance(policy, str) else "plain Python"
        share = efficiency(policy, backend, rates[name])
        print(f"  {name:14s} {backend:8s} {share:6.1%}  {verdict(share >= EFFICIENCY)}")
    print(f"overhead per task (below {1e3 * OVERHEAD:g} ms), and memory of a worker")
    for backend in ("local", "dask", "ray"):
        slow, empty = overhead(backend)
        runs = runs_of("rolf-bayes")
        run_all(runs.play, [(0, run) for run in range(20)], backend, 2)
        most = max(dict(completed(memory, range(8), backend=backend, jobs=2)).values())
        print(
            f"  {backend:8s} {1e3 * slow:6.2f} ms on top of {1e3 * SLEEP:g} ms of work, "
            f"{1e3 * empty:6.3f} ms per empty task, {most:4.0f} MiB  {verdict(slow < OVERHEAD)}"
        )
    rolf.parallel.shutdown()


if __name__ == "__main__":
    main()
