"""Cost of an ask and a tell against the number of arms, compared with one pass over the features.

Each policy and number of arms K runs in its own process, with d=20 features. A pass is
``features @ vector``, the arithmetic floor O(K d), measured between the rounds of that process so
that noise affects both alike. Peak memory is that of the whole process, including Python, the table
of arms and the policy's constructor. Times are CPU times of a single thread, so other work on the
machine does not count. Compare ratios rather than times: machines are noisy.

    python benchmarks/arms.py                  # K from 100 to 1,000,000: about four minutes
    python benchmarks/arms.py --against 2028c25  # also the ratio to another commit
    python benchmarks/arms.py --quick          # 100 and 10,000 arms, to check that it runs
    python benchmarks/arms.py --plot arms.png  # the picture of the documentation
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import time

import numpy as np

from against import OURS, Library, libraries

FEATURES = 20
SIZES = (100, 1_000, 10_000, 100_000, 1_000_000)
ROUNDS = 30
WARM = 5
#: without RoLF's forced exploration, which need not look for the best arm
OPTIONS = {"rolf-ridge": {"exploration": 0}, "rolf-lasso": {"exploration": 0}}
POLICIES = ("ucb", "rolf-ridge", "lints", "linucb", "rolf-bayes", "rolf-lasso")
LARGEST = {"rolf-lasso": 10_000}
#: times one pass, and MiB, at a million arms
PASSES = {"ucb": 3.0, "rolf-ridge": 3.0, "lints": 3.0, "linucb": 3.0}
MEMORY = {("rolf-bayes", 100_000): 0.6 * 1024, **{(name, 10**6): 2048.0 for name in PASSES}}
#: milliseconds
TIMES = {("rolf-bayes", 100_000): 15.0, ("rolf-bayes", 1_000_000): 150.0}


def measure(name: str, arms: int) -> dict[str, float]:
    """Median milliseconds of a round and of a pass, and peak memory in MiB."""
    import rolf

    rng = np.random.default_rng(0)
    features = rng.standard_normal((arms, FEATURES))
    vector = rng.standard_normal(FEATURES)
    means = 0.2 * features @ vector + 0.3 * rng.standard_normal(arms)
    policy = rolf.policy_class(name)(features, seed=0, **OPTIONS.get(name, {}))
    repeats = max(1, 20_000 // arms)
    rounds, passes = [], []
    for turn in range(WARM + ROUNDS):
        start = time.thread_time()
        decision = policy.ask()
        policy.tell(decision, means[decision.arm] + 0.3 * rng.standard_normal())
        middle = time.thread_time()
        for _ in range(repeats):
            features @ vector
        end = time.thread_time()
        if turn >= WARM:
            rounds.append(middle - start)
            passes.append((end - middle) / repeats)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "round": 1e3 * float(np.median(rounds)),
        "pass": 1e3 * float(np.median(passes)),
        "peak": peak,
    }


def in_a_process(name: str, arms: int, library: Library = OURS) -> dict[str, float]:
    command = [sys.executable, __file__, "--measure", name, str(arms)]
    alone = library.environment(OPENBLAS_NUM_THREADS="1")
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=alone)
    out: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return out


def missed(name: str, arms: int, found: dict[str, float]) -> bool:
    passes = PASSES.get(name, math.inf) if arms == SIZES[-1] else math.inf
    return (
        found["round"] > passes * found["pass"]
        or found["round"] > TIMES.get((name, arms), math.inf)
        or found["peak"] > MEMORY.get((name, arms), math.inf)
    )


def report(sizes: tuple[int, ...]) -> dict[str, dict[int, dict[str, float]]]:
    print("| policy | K | round, ms | pass, ms | round / pass | peak memory, GiB | target |")
    print("|---|--:|--:|--:|--:|--:|---|")
    results: dict[str, dict[int, dict[str, float]]] = {}
    for name in POLICIES:
        results[name] = {}
        for arms in (each for each in sizes if each <= LARGEST.get(name, sizes[-1])):
            found = results[name][arms] = in_a_process(name, arms)
            targets = []
            if arms == SIZES[-1] and name in PASSES:
                targets.append(f"{PASSES[name]:g} passes")
            if (name, arms) in TIMES:
                targets.append(f"{TIMES[name, arms]:g} ms")
            if (name, arms) in MEMORY:
                targets.append(f"{MEMORY[name, arms] / 1024:g} GiB")
            verdict = " MISSED" if missed(name, arms, found) else ""
            print(
                f"| `{name}` | {arms:,} | {found['round']:.3g} | {found['pass']:.2g} "
                f"| {found['round'] / found['pass']:.1f} | {found['peak'] / 1024:.2f} "
                f"| {', '.join(targets)}{verdict} |",
                flush=True,
            )
    return results


def compare(revision: str, sizes: tuple[int, ...]) -> None:
    """Passes per round, here and in another commit."""
    print("| policy | K | passes per round | of the other | ratio |\n|---|--:|--:|--:|--:|")
    with libraries(revision) as both:
        for name in POLICIES:
            for arms in (each for each in sizes if each <= LARGEST.get(name, sizes[-1])):
                here, there = (
                    min(each["round"] / each["pass"] for each in turns)
                    for turns in zip(
                        *([in_a_process(name, arms, each) for each in both] for _ in range(3)),
                        strict=True,
                    )
                )
                ratio = here / there
                print(
                    f"| `{name}` | {arms:,} | {here:.2f} | {there:.2f} | {ratio:.2f} |", flush=True
                )


def growth(results: dict[int, dict[str, float]]) -> float:
    """The exponent of K in the cost of a round, from 10,000 arms on."""
    large = [arms for arms in results if arms >= 10_000]
    if len(large) < 2:
        return math.nan
    costs = [results[arms]["round"] for arms in large]
    return float(np.polyfit(np.log(large), np.log(costs), 1)[0])


def draw(results: dict[str, dict[int, dict[str, float]]], path: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7.0, 4.5), layout="constrained")
    for name, found in results.items():
        sizes = list(found)
        axes.plot(sizes, [found[arms]["round"] for arms in sizes], marker="o", label=name)
    sizes = [arms for arms in SIZES if arms in results["ucb"]]
    floor = [np.median([each[k]["pass"] for each in results.values() if k in each]) for k in sizes]
    axes.plot(sizes, floor, color="black", linestyle="--", label="one pass over the features")
    axes.set(xscale="log", yscale="log", xlabel="arms, K", ylabel="ask and tell, milliseconds")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="100 and 10,000 arms")
    parser.add_argument("--plot", metavar="FILE", help="also draw a picture")
    parser.add_argument("--measure", nargs=2, metavar=("POLICY", "K"), help=argparse.SUPPRESS)
    parser.add_argument("--against", metavar="REV", help="a commit to compare with")
    options = parser.parse_args()
    if options.against:
        compare(options.against, SIZES[:3:2] if options.quick else SIZES)
        return
    if options.measure:
        print(json.dumps(measure(options.measure[0], int(options.measure[1]))))
        return
    results = report(SIZES[:3:2] if options.quick else SIZES)
    if not options.quick:
        powers = {name: growth(found) for name, found in results.items()}
        known = [f"{name} {power:.2f}" for name, power in powers.items() if not math.isnan(power)]
        print("\nfrom 10,000 arms on, a round grows with K to the power of:", ", ".join(known))
    if options.plot:
        draw(results, options.plot)
    bad = [name for name, found in results.items() for k in found if missed(name, k, found[k])]
    print("all targets met" if not bad else f"SOME TARGETS MISSED: {', '.join(bad)}")


if __name__ == "__main__":
    main()
