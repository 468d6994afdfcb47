"""How often is a diagnosis right? Logs of every policy with a known truth.

    python benchmarks/diagnosis.py            # about 5 minutes on one core
    python benchmarks/diagnosis.py --quick    # one short log of each kind
    python benchmarks/diagnosis.py --sparse   # four of five arms have the same latent part

Every log has 20 to 60 arms and 1 to 8 standard normal features. The means are the sum of an
observed part x_a'm and a latent part u_a, each scaled to its share of the variance over the arms.
Rewards have Gaussian noise twice as large as the spread of the means, or are clicks with the means
as log-odds, with a spread of 0.7 and a mean rate of 2, 10 or 30%. Policies play 500, 3,000 or
20,000 rounds; "uniform" chooses at random.

For each group of logs: how often the 90% interval covers the true share; how often the verdict is
confident and wrong ("trust the features" below a share of 0.8, "ignore the features" above 0.2);
and how often each verdict occurs. Both use level 0.9.
"""

from __future__ import annotations

import argparse
import itertools
import time
import warnings
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

import rolf
from rolf.diagnosis.diagnose import IGNORE, ROLF, TRUST, UNKNOWN
from rolf.environments.problem import Problem
from rolf.policies.registry import policy_class, policy_classes
from rolf.simulation.loop import play_policy, ready_loop
from rolf.text import format_table

LEVEL = 0.9
SHARES = (0.0, 0.5, 0.9, 1.0)
ROUNDS = (500, 3000, 20000)
RATES = (0.02, 0.1, 0.3, None)  # of clicks; None: Gaussian noise
BINARY = "rolf-bayes, binary"
CLICKS_ONLY = (BINARY, "kl-ucb", "beta-ts")


class Outcome(NamedTuple):
    policy: str
    rate: float | None
    share: float
    rounds: int
    low: float
    high: float
    verdict: str

    @property
    def covered(self) -> bool:
        return self.low - 1e-9 <= self.share <= self.high + 1e-9

    @property
    def wrong(self) -> bool:
        trusted = self.verdict == TRUST and self.share < 0.8
        return trusted or (self.verdict == IGNORE and self.share > 0.2)


def draw_problem(
    rng: np.random.Generator, share: float, rate: float | None, sparse: bool = False
) -> Problem:
    """A problem in which the features explain exactly this share."""
    arms, size = int(rng.integers(20, 61)), int(rng.integers(1, 9))
    features = rng.standard_normal((arms, size))
    parts = [features @ rng.standard_normal(size), rng.standard_normal(arms)]
    if sparse:
        parts[1][arms // 5 :] = 0.0
    observed, latent = [(part - part.mean()) / part.std() for part in parts]
    means = np.sqrt(share) * observed + np.sqrt(1.0 - share) * latent
    if rate is None:
        return Problem(features, 0.5 * means, 1.0)
    low, high = -15.0, 5.0
    for _ in range(60):  # bisect for the level with the wanted mean rate
        level = 0.5 * (low + high)
        rates = 1.0 / (1.0 + np.exp(-level - 0.7 * means))
        low, high = (level, high) if rates.mean() < rate else (low, level)
    return Problem(features, rates, rewards="bernoulli")


def play(policy: str, problem: Problem, rounds: int, seed: int) -> tuple[Any, Any]:
    """Play a log; return its arms and rewards.

    The engine only keeps the regret: its increments reveal the arms, and the noise is redrawn.
    """
    if policy == "uniform":
        arms = np.random.default_rng([seed, 0]).integers(problem.means.size, size=rounds)
    else:
        options = {"rewards": "binary"} if policy == BINARY else {}
        build: Any = policy_class("rolf-bayes" if policy == BINARY else policy)
        regret = np.empty(rounds)
        player = build(problem.features, seed=seed, **options)
        noise = np.random.default_rng([seed, 1])
        play_policy(player, problem, noise, regret, ready_loop(player, problem, options))
        gaps = problem.means.max() - problem.means
        order = np.argsort(gaps)
        borders = 0.5 * (gaps[order][1:] + gaps[order][:-1])
        arms = order[np.searchsorted(borders, np.diff(regret, prepend=0.0))]
    rng, means = np.random.default_rng([seed, 1]), problem.means[arms]
    if problem.rewards == "bernoulli":
        return arms, (rng.random(rounds) < means).astype(float)
    return arms, means + problem.noise * rng.standard_normal(rounds)


def measure(
    repeats: int, rounds: Iterable[int], shares: Iterable[float], sparse: bool
) -> list[Outcome]:
    policies = ["uniform", BINARY, *(cls.name for cls in policy_classes() if not cls.varying)]
    cases = itertools.product(range(repeats), policies, RATES, shares, rounds)
    out = []
    for seed, (_, policy, rate, share, length) in enumerate(cases):
        if rate is None and policy in CLICKS_ONLY:
            continue
        problem = draw_problem(np.random.default_rng(seed), share, rate, sparse)
        arms, rewards = play(policy, problem, length, seed)
        found = rolf.diagnose(rolf.Log(arms, None, rewards), problem.features, level=LEVEL)
        low, high = (found.share.low, found.share.high) if found.share else (0.0, 1.0)
        out.append(Outcome(policy, rate, share, length, low, high, found.verdict))
    return out


def rows_of(name: str, outcomes: list[Outcome], key: Any) -> list[list[str]]:
    """One row per group."""
    groups: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault(str(key(outcome)), []).append(outcome)
    out = []
    for group, members in groups.items():
        said = [outcome.verdict for outcome in members]
        shares = [np.mean([outcome.covered for outcome in members])]
        shares += [np.mean([outcome.wrong for outcome in members])]
        shares += [said.count(verdict) / len(said) for verdict in (TRUST, ROLF, IGNORE, UNKNOWN)]
        out.append([f"{name} {group}".strip(), str(len(members)), *(f"{x:.1%}" for x in shares)])
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one short log of each kind")
    parser.add_argument("--sparse", action="store_true", help="few arms have a latent part")
    parser.add_argument("--repeats", type=int, default=5, help="logs of each kind")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    started = time.perf_counter()
    if args.quick:
        outcomes = measure(1, ROUNDS[:1], SHARES[1:2], args.sparse)
    else:
        outcomes = measure(args.repeats, ROUNDS, SHARES, args.sparse)
    head = ["logs", "number", "covered", "wrong", "trust", "RoLF", "ignore", "not enough"]
    rates = {rate: f"clicks at {rate:.0%}" if rate else "Gaussian noise" for rate in RATES}
    easy = [
        one for one in outcomes if one.rounds == ROUNDS[-1] and one.policy in ("uniform", "ucb")
    ]
    rows = rows_of("all", outcomes, lambda one: "")
    rows += rows_of("share", outcomes, lambda one: one.share)
    rows += rows_of("rounds", outcomes, lambda one: one.rounds)
    rows += rows_of("", outcomes, lambda one: rates[one.rate])
    rows += rows_of("", outcomes, lambda one: one.policy)
    rows += rows_of(f"uniform and ucb, {ROUNDS[-1]} rounds, share", easy, lambda one: one.share)
    print(format_table([head, *rows]))
    print(f"\n{time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
