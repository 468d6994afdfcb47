"""Regret with clicks: RoLF-Bayes with a logistic link, compared with the usual policies for clicks.

A cell is a distribution over problems: K arms whose log-odds have a standard deviation of 0.5
around those of a base rate; features explain exactly a given share of their variance. There are
K/10 features, at most 10, and a constant, which linear reward models need. Beta-Bernoulli Thompson
sampling and KL-UCB see no features. LinUCB and LinTS are told the noise sqrt(p(1 - p)), and the
best of their settings is picked afterwards per cell, which favours them. RoLF-Bayes has one setting
everywhere, as a model of clicks and, for comparison, as a model of real rewards. All play the same
problems and the same noise; kl-ucb and the model of real rewards are slower and play only the first
third of the runs.

    python benchmarks/clicks.py                          # about an hour on one core
    python benchmarks/clicks.py --quick                  # two cells, two short runs
    python benchmarks/clicks.py --stage ours --stage report --policy binary
    python benchmarks/clicks.py --stage report --markdown clicks.md

Results are kept in a JSON file: rivals are played once, our policies every time.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import rolf
from regret_records import Record, kept_in, load, save
from regret_report import markdown, plain
from rolf.environments.problem import DescribedFamily, Problem
from rolf.types import Seed

STAGES = ("rivals", "ours", "report")
SPREAD = 0.5  # of the log-odds between arms
SHARES = (0.0, 0.5, 0.9)
LONG = 100_000  # rounds of the long cells
SLOW = {"kl-ucb": 1 / 3, "real": 1 / 3}  # share of the runs they play
Plan = dict[str, tuple[str, dict[str, Any]]]  # label to name and options
OURS: Plan = {
    "binary": ("rolf-bayes", {"rewards": "binary"}),
    "real": ("rolf-bayes", {"rewards": "real"}),
    "binary, horizon": ("rolf-bayes", {"rewards": "binary", "horizon": "rounds"}),
    "binary, sample": ("rolf-bayes", {"rewards": "binary", "rule": "sample"}),
}


@dataclass(frozen=True)
class Clicks(DescribedFamily):
    """Problems with clicks, whose features explain a given share of the variance of log-odds."""

    kind = "clicks"

    arms: int
    rate: float
    share: float

    @property
    def noise(self) -> float:
        return math.sqrt(self.rate * (1.0 - self.rate))

    def draw(self, seed: Seed = None) -> Problem:
        rng = np.random.default_rng(seed)
        size = min(self.arms // 10, 10)
        features = rng.standard_normal((self.arms, size))
        parts = [features @ rng.standard_normal(size), rng.standard_normal(self.arms)]
        line = np.linalg.lstsq(features - features.mean(0), parts[1], rcond=None)[0]
        parts[1] -= features @ line  # remove what features would explain by chance
        observed, latent = [(part - part.mean()) / part.std() for part in parts]
        spread = math.sqrt(self.share) * observed + math.sqrt(1.0 - self.share) * latent
        odds = math.log(self.rate / (1.0 - self.rate)) + SPREAD * spread
        table = np.column_stack([np.ones(self.arms), features])
        return Problem(table, 1.0 / (1.0 + np.exp(-odds)), rewards="bernoulli")


def cells(rounds: int) -> dict[str, tuple[Clicks, int]]:
    """Every cell: its problems and its number of rounds."""
    sizes = [(50, rate) for rate in (0.01, 0.03, 0.1, 0.3)] + [(20, 0.03), (200, 0.03)]
    rows = [(*size, share, rounds) for size in sizes for share in SHARES]
    rows += [(50, 0.03, share, LONG) for share in (0.0, 0.9)]
    out = {}
    for arms, rate, share, length in rows:
        long = f", T={length}" if length == LONG else ""
        out[f"K={arms}, rate {rate:.0%}, share {share:g}{long}"] = Clicks(arms, rate, share), length
    return out


def rivals(family: Clicks) -> Plan:
    out: Plan = {"beta-ts": ("beta-ts", {}), "kl-ucb": ("kl-ucb", {})}
    for ridge in (1.0, 100.0):
        for width in (0.25, 0.5, 1.0):
            options: dict[str, Any] = {"width": width * family.noise, "ridge": ridge}
            out[f"LinUCB {width:g}, ridge {ridge:g}"] = "linucb", options
        for width in (0.3, 1.0):
            options = {"scale": width * family.noise, "ridge": ridge}
            out[f"LinTS {width:g}, ridge {ridge:g}"] = "lints", options
    return out


def runs_of(args: argparse.Namespace, label: str) -> int:
    return max(round(args.runs * SLOW.get(label, 1.0)), 1)


def measure(args: argparse.Namespace, stage: str, cell: str, plan: Plan) -> None:
    """Play what has no record yet."""
    family, rounds = args.cells[cell]
    for label, (name, options) in plan.items():
        runs = runs_of(args, label)
        key = json.dumps([stage, cell, label, name, options, runs, rounds, args.seed])
        if stage == "rivals" and key in load(args.out):
            continue
        full = options | ({"horizon": rounds} if "horizon" in options else {})
        started = time.perf_counter()
        result = rolf.simulate(
            {label: (name, full)}, family, rounds=rounds, runs=runs, seed=args.seed, jobs=args.jobs
        )
        final = result.regret[0, :, -1]
        record: Record = {
            "stage": stage,
            "cell": cell,
            "label": label,
            "runs": runs,
            "rounds": rounds,
            "seed": args.seed,
            "mean": float(final.mean()),
            "error": float(final.std(ddof=1) / math.sqrt(runs)) if runs > 1 else 0.0,
            "worst": float(final.max()),
            "seconds": round(time.perf_counter() - started, 1),
        }
        save(args.out, {key: record})
        print(f"{cell}: {label} {record['mean']:.0f} ({record['seconds']:.1f} s)", flush=True)


def report(args: argparse.Namespace) -> None:
    known = [each for each in load(args.out).values() if each["seed"] == args.seed]
    named = [label for label in OURS if any(each["label"] == label for each in known)]
    head = ["cell", "runs", "beta-ts", "kl-ucb", "best LinUCB", "best LinTS", *named]
    head += ["/ best", "± ", "worst / mean"]
    rows, ratios = [head], []
    for cell, (_, rounds) in args.cells.items():
        here = [
            each
            for each in known
            if (each["cell"], each["rounds"]) == (cell, rounds)
            and each["runs"] == runs_of(args, each["label"])
        ]
        found = {each["label"]: each for each in here}
        kinds = [
            min((r for r in here if r["label"].startswith(kind)), key=_mean, default=None)
            for kind in ("beta-ts", "kl-ucb", "LinUCB", "LinTS")
        ]
        row = [cell, str(args.runs)]
        for record in [*kinds, *(found.get(label) for label in named)]:
            row.append("" if record is None else f"{record['mean']:.0f}")
        ours, best = found.get("binary"), min((r for r in kinds if r), key=_mean, default=None)
        if ours and best:
            ratio = ours["mean"] / best["mean"]
            error = ratio * math.hypot(ours["error"] / ours["mean"], best["error"] / best["mean"])
            row += [f"{ratio:.2f}", f"{error:.2f}", f"{ours['worst'] / ours['mean']:.1f}"]
            ratios.append(ratio)
        rows.append(row + [""] * (len(head) - len(row)))
    text = f"Mean regret, seed {args.seed}; / best is binary over the best rival"
    print(f"{text}\n\n{plain(rows)}")
    if ratios:
        middle = math.exp(np.log(ratios).mean())
        print(f"\n/ best: geometric mean {middle:.2f}, largest {max(ratios):.2f}")
    if args.markdown:
        args.markdown.write_text(f"{text}\n\n{markdown(rows)}\n")


def _mean(record: Record) -> float:
    return float(record["mean"])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--stage", action="append", choices=STAGES, help="what to do; everything by default")
    add("--policy", action="append", choices=OURS, help="our policies; binary and real by default")
    add("--cells", default="", help="only cells whose name contains this")
    add("--rounds", type=int, default=20_000, help="rounds of all cells except the long ones")
    add("--runs", type=int, default=50)
    add("--seed", type=int, default=0)
    add("--jobs", type=int, default=1)
    add("--out", type=Path, help="where results are kept; out/clicks.json by default")
    add("--quick", action="store_true", help="two cells, two short runs, not kept")
    add("--markdown", type=Path, help="also write the table to this file")
    args = parser.parse_args()
    if args.quick:
        args.runs, args.rounds = 2, 300
    chosen = [item for item in cells(args.rounds).items() if args.cells in item[0]]
    args.cells = dict(chosen[:10:5] if args.quick else chosen)
    args.out = args.out or kept_in("clicks.json", quick=args.quick)
    ours = {label: OURS[label] for label in args.policy or ("binary", "real")}
    stages = args.stage or STAGES
    for cell, (family, _) in args.cells.items():
        if "rivals" in stages:
            measure(args, "rivals", cell, rivals(family))
        if "ours" in stages:
            measure(args, "ours", cell, ours)
    if "report" in stages:
        report(args)


if __name__ == "__main__":
    main()
