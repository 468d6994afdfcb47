"""Mean final regret over many kinds of problems, beside rivals tuned in hindsight for each.

A cell is a distribution over problems. In each cell the specialists UCB(delta), LinUCB and LinTS
know the noise, and the best of their 43 settings is picked afterwards, which favours them. RoLF is
treated the same way, over both estimators, both couplings and four lengths of forced exploration.
The policies measured against them ("ours") have one setting everywhere. All policies of a cell play
the same problems and the same noise. Results are kept in a JSON file: rivals are played once, the
policies named by --policy every time.

The settings are the ones that do best after this number of rounds. Beyond 5000 rounds there are
more of them, with wider bonuses, and they are screened: all play the first 20 runs, and the best
six of each cell play all runs. A narrow bonus can be lucky in 20 runs and lock on to a wrong arm in
the next, so the best setting of each policy then competes with its neighbours, which differ from it
by one step in one option, until it beats them all. The best setting that has played all runs counts
as tuned in hindsight.

A run is stuck if its regret still grows by more than 1% of the spread per round in the second half:
(R_T - R_{T/2}) / (T/2) > 0.01 sd, where sd is the standard deviation of its problem's mean rewards
over the arms.

With features that change every round (--set varying), the specialists are LinUCB for varying
features, told the noise, and UCB(delta), told the noise plus the variation from the features; RoLF
is rolf-varying.

    python benchmarks/regret.py                                     # everything, some minutes
    python benchmarks/regret.py --quick                             # three cells, two short runs
    python benchmarks/regret.py --stage specialists --stage rolf    # only the rivals
    python benchmarks/regret.py --stage ours --stage report \\
        --policy rolf-bayes --policy rolf-bayes --options '{"width": 2.0}'
    python benchmarks/regret.py --stage report --markdown regret.md
    python benchmarks/regret.py --set long --rounds 30000 --runs 100 --out out/regret-long.json

--set names the cells (benchmarks/regret_cells.py). --policy also takes the other rules of
benchmarks/rules.py. The option "horizon": "rounds" stands for the number of rounds played.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import rolf
from regret_cells import CELLS, OFFSETS, SETS, blind_level, level, moving, spreads
from regret_records import SCREENED, Record, kept_in, load, save, screening
from regret_report import report
from rolf.types import FloatArray
from rules import RULES

STAGES = ("specialists", "rolf", "ours", "report")
UNIT = math.sqrt(-2.0 * math.log(1e-4))  # UCB's width at one play is this times its scale
SHORT = 5000  # up to this many rounds, all settings of rivals play all runs
FINALISTS = 6  # settings that play all runs after a screening
GROWTH = 0.01  # a run is stuck above this share of the spread per round

Plan = dict[str, tuple[str, dict[str, Any]]]  # label to name and options


# --- policies ----------------------------------------------------------------------------------


def specialists(family: Any, rounds: int) -> Plan:
    """Labels state the width in units of the noise, so they are the same in every cell."""
    noise, blind = level(family), blind_level(family)
    more = (2.5, 5.0, 6.0) if rounds > SHORT else ()
    out: Plan = {}
    for w in (0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, *more):
        out[f"UCB {w:g}"] = ("ucb", {"scale": w * blind / UNIT})
    for ridge in (0.01, 0.1, 1.0, 10.0):
        for w in (0.25, 0.5, 1.0, 2.0, 4.0):
            name = "linucb-varying" if moving(family) else "linucb"
            out[f"LinUCB {w:g}, ridge {ridge:g}"] = (name, {"width": w * noise, "ridge": ridge})
        for w in () if moving(family) else (0.1, 0.3, 1.0, 2.0):
            out[f"LinTS {w:g}, ridge {ridge:g}"] = ("lints", {"scale": w * noise, "ridge": ridge})
    return out


def rolf_rivals(family: Any, rounds: int) -> Plan:
    out: Plan = {}
    for name in ("varying",) if moving(family) else ("lasso", "ridge"):
        for coupling in ("action", "greedy"):
            for times in (0, 1, 2, 4):
                options = {"coupling": coupling, "exploration": times * family.arms}
                out[f"{name} {coupling}, {times}K"] = (f"rolf-{name}", options)
    return out


def our_label(name: str, options: dict[str, Any]) -> str:
    shown = ", ".join(f"{key}={value}" for key, value in options.items())
    return f"{name} {shown}" if shown else name


def filled(options: dict[str, Any], rounds: int) -> dict[str, Any]:
    """Options with the horizon "rounds" replaced by the number of rounds."""
    return options | ({"horizon": rounds} if options.get("horizon") == "rounds" else {})


# --- measuring -------------------------------------------------------------------------------


def measure(
    args: argparse.Namespace, stage: str, cell: str, plan: Plan, runs: int
) -> tuple[list[Record], int]:
    """The records of a plan, and how many of them had to be played."""
    family, seed = CELLS[cell], args.seed + OFFSETS.get(cell, 0)
    records: dict[str, Record] = {}
    for label, (name, options) in plan.items():
        key = [stage, cell, label, name, options, runs, args.rounds, seed]
        names = ("stage", "cell", "label", "policy", "options", "runs", "rounds", "seed")
        records[json.dumps(key)] = dict(zip(names, key, strict=True))
    known = {} if args.again or stage == "ours" else load(args.out)
    todo = {key: record for key, record in records.items() if key not in known}
    records = {key: known.get(key, record) for key, record in records.items()}
    if todo:
        entries: dict[str, Any] = {
            record["label"]: (
                RULES.get(record["policy"], record["policy"]),
                filled(record["options"], args.rounds),
            )
            for record in todo.values()
        }
        result = rolf.simulate(
            entries, family, rounds=args.rounds, runs=runs, seed=seed, jobs=args.jobs
        )
        spread = spreads(family, seed, runs)
        for record, regret in zip(todo.values(), result.regret, strict=True):
            record |= summary(regret, spread)
        save(args.out, todo)
    return list(records.values()), len(todo)


def summary(regret: FloatArray, spread: FloatArray) -> Record:
    """Summarise a policy's regret (runs, rounds) on problems with these spreads."""
    runs, rounds = regret.shape
    final, half = regret[:, -1], max(rounds // 2, 1)
    growth = (final - regret[:, half - 1]) / max(rounds - half, 1)
    return {
        "mean": float(final.mean()),
        "sd": float(final.std(ddof=1)) if runs > 1 else 0.0,
        "worst": float(final.max()),
        "median": float(np.median(final)),
        "stuck": int((growth > GROWTH * spread).sum()),
    }


def measure_rivals(args: argparse.Namespace, stage: str, cell: str, plan: Plan) -> int:
    """Play all settings, or only the best ones if there are many rounds; return how many."""
    if args.rounds <= SHORT or args.runs <= SCREENED:
        return measure(args, stage, cell, plan, args.runs)[1]
    screened, played = measure(args, screening(stage), cell, plan, SCREENED)
    screened.sort(key=lambda record: float(record["mean"]))
    labels = [record["label"] for record in screened[:FINALISTS]]
    records: list[Record] = []
    while labels:
        fresh, count = measure(args, stage, cell, {each: plan[each] for each in labels}, args.runs)
        records += fresh
        played += count
        records.sort(key=lambda record: float(record["mean"]), reverse=True)
        best = {record["policy"]: record["label"] for record in records}  # the last one stays
        near = {each for label in best.values() for each in neighbours(plan, label)}
        labels = sorted(near - {record["label"] for record in records})
    return played


def neighbours(plan: Plan, label: str) -> list[str]:
    """Settings of the same policy that differ by one step in one option."""
    policy, options = plan[label]
    out = []
    for key in options:
        same = policy, options | {key: None}
        line = {o[key]: each for each, (p, o) in plan.items() if (p, o | {key: None}) == same}
        values = sorted(line)
        place = values.index(options[key])
        out += [
            line[value] for value in values[max(place - 1, 0) : place + 2] if line[value] != label
        ]
    return out


# --- the command line ------------------------------------------------------------------------


class _Options(argparse.Action):
    """Options belong to the policy named before them."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option: Any = None) -> None:
        if not namespace.policy:
            parser.error("--options must follow the --policy it belongs to")
        try:
            options = json.loads(values)
        except json.JSONDecodeError as error:
            parser.error(f"--options {values}: {error}")
        namespace.policy[-1] = (namespace.policy[-1][0], options)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add = parser.add_argument
    add("--stage", action="append", choices=STAGES, help="default: all of them")
    add("--policy", action="append", type=lambda name: (name, {}), help="default: rolf-bayes")
    add("--options", action=_Options, help="options of the preceding --policy, as JSON")
    add("--set", choices=list(SETS), default="main", help="which cells")
    add("--cells", default="", help="only cells whose label contains this")
    add("--runs", type=int, default=50)
    add("--rounds", type=int, default=1200)
    add("--seed", type=int, default=0)
    add("--jobs", type=int, default=None, help="number of workers; all cores by default")
    add("--out", type=Path, help="where results are kept; out/regret.json by default")
    add("--again", action="store_true", help="play the rivals again")
    add("--quick", action="store_true", help="three cells, two short runs, not kept")
    add("--markdown", type=Path, help="also write the tables to this file")
    args = parser.parse_args()
    args.chosen = [cell for cell in SETS[args.set] if args.cells in cell]
    if args.quick:
        args.chosen, args.runs, args.rounds = args.chosen[:2] + args.chosen[-1:], 2, 100
    args.out = args.out or kept_in("regret.json", quick=args.quick)
    stages = args.stage or STAGES
    default = "rolf-bayes-varying" if args.set == "varying" else "rolf-bayes"
    ours: Plan = {our_label(*pair): pair for pair in args.policy or [(default, {})]}
    args.named = list(ours) if args.policy else []
    rivals: dict[str, Callable[[Any, int], Plan]] = {
        "specialists": specialists,
        "rolf": rolf_rivals,
    }
    for stage in [each for each in STAGES[:-1] if each in stages]:
        for index, cell in enumerate(args.chosen):
            if stage in rivals:
                played = measure_rivals(args, stage, cell, rivals[stage](CELLS[cell], args.rounds))
            else:
                played = measure(args, stage, cell, ours, args.runs)[1]
            print(f"{stage} {index + 1}/{len(args.chosen)} {cell}: {played} played", flush=True)
    if "report" in stages:
        report(args)


if __name__ == "__main__":
    main()
