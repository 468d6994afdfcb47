"""Mean final regret over many kinds of problems, beside rivals tuned in hindsight for each.

A cell is a distribution over problems. In each cell the specialists UCB(delta), LinUCB and LinTS
know the noise, and the best of their 43 settings is picked afterwards, which favours them. RoLF
is treated the same way, over both estimators, both couplings and four lengths of forced
exploration. What is measured against them ("ours") has one setting everywhere. All policies of a
cell play the same problems and the same noise. Results are kept in a JSON file: rivals are played
once, the policies named with --policy are played again each time.

    python benchmarks/regret.py                                     # everything, some minutes
    python benchmarks/regret.py --quick                             # a few cells, five runs
    python benchmarks/regret.py --stage specialists --stage rolf    # the rivals only
    python benchmarks/regret.py --stage ours --stage report \\
        --policy rolf-bayes --policy rolf-bayes --options '{"width": 2.0}'
    python benchmarks/regret.py --stage report --markdown regret.md

--policy also takes the other rules of benchmarks/rules.py.
"""

from __future__ import annotations

import argparse
import json
import math
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import rolf
from regret_cells import CELLS, OFFSETS, level, one_play, quiet
from rules import RULES

STAGES = ("specialists", "rolf", "ours", "report")
UNIT = math.sqrt(-2.0 * math.log(1e-4))  # UCB's width at one play is this times its scale

Record = dict[str, Any]
Plan = dict[str, tuple[str, dict[str, Any]]]  # label to name and options


# --- who plays -------------------------------------------------------------------------------


def specialists(family: Any) -> Plan:
    """Labels give the width in units of the noise, so that they are the same in every cell."""
    noise = level(family)
    out: Plan = {}
    for w in (0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0):
        out[f"UCB {w:g}"] = ("ucb", {"scale": w * noise / UNIT})
    for ridge in (0.01, 0.1, 1.0, 10.0):
        for w in (0.25, 0.5, 1.0, 2.0, 4.0):
            out[f"LinUCB {w:g}, ridge {ridge:g}"] = ("linucb", {"width": w * noise, "ridge": ridge})
        for w in (0.1, 0.3, 1.0, 2.0):
            out[f"LinTS {w:g}, ridge {ridge:g}"] = ("lints", {"scale": w * noise, "ridge": ridge})
    return out


def rolf_rivals(family: Any) -> Plan:
    out: Plan = {}
    for name in ("lasso", "ridge"):
        for coupling in ("action", "greedy"):
            for times in (0, 1, 2, 4):
                options = {"coupling": coupling, "exploration": times * family.arms}
                out[f"{name} {coupling}, {times}K"] = (f"rolf-{name}", options)
    return out


def our_label(name: str, options: dict[str, Any]) -> str:
    shown = ", ".join(f"{key}={value}" for key, value in options.items())
    return f"{name} {shown}" if shown else name


# --- measuring and keeping -------------------------------------------------------------------


def load(path: Path) -> dict[str, Record]:
    records: dict[str, Record] = json.loads(path.read_text()) if path.exists() else {}
    return records


def save(path: Path, fresh: dict[str, Record]) -> None:
    """Add to the file as it is now: another process may have written to it in the meantime."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(f".{os.getpid()}.tmp")
    beside.write_text(json.dumps(load(path) | fresh, indent=1))
    beside.replace(path)


def measure(args: argparse.Namespace, stage: str, cell: str, plan: Plan) -> int:
    """Play what has not been played yet; returns how many policies that was."""
    family, seed = CELLS[cell], args.seed + OFFSETS.get(cell, 0)
    records: dict[str, Record] = {}
    for label, (name, options) in plan.items():
        key = [stage, cell, label, name, options, args.runs, args.rounds, seed]
        names = ("stage", "cell", "label", "policy", "options", "runs", "rounds", "seed")
        records[json.dumps(key)] = dict(zip(names, key, strict=True))
    known = {} if args.again or stage == "ours" else load(args.out)
    todo = {key: record for key, record in records.items() if key not in known}
    if not todo:
        return 0
    entries: dict[str, Any] = {
        record["label"]: (RULES.get(record["policy"], record["policy"]), record["options"])
        for record in todo.values()
    }
    result = rolf.simulate(
        entries, family, rounds=args.rounds, runs=args.runs, seed=seed, jobs=args.jobs
    )
    for record, final in zip(todo.values(), result.regret[:, :, -1], strict=True):
        record |= {
            "mean": float(final.mean()),
            "sd": float(final.std(ddof=1)) if args.runs > 1 else 0.0,
            "worst": float(final.max()),
            "median": float(np.median(final)),
        }
    save(args.out, todo)
    return len(todo)


# --- the report ------------------------------------------------------------------------------


class Book:
    """The records of one number of runs and rounds and one seed."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.cells: dict[str, dict[str, dict[str, Record]]] = {}
        for record in load(args.out).values():
            cell = record["cell"]
            asked = (args.runs, args.rounds, args.seed + OFFSETS.get(cell, 0))
            if cell in args.chosen and (record["runs"], record["rounds"], record["seed"]) == asked:
                stages = self.cells.setdefault(cell, {})
                stages.setdefault(record["stage"], {})[record["label"]] = record
        self.cells = {cell: self.cells[cell] for cell in args.chosen if cell in self.cells}
        played = [label for stages in self.cells.values() for label in stages.get("ours", {})]
        named_rules = [our_label(*pair) for pair in args.policy or ()]
        self.rules = [label for label in named_rules or dict.fromkeys(played) if label in played]
        # Where the best specialist loses no more than one random play costs, a ratio to it
        # measures the luck of the first play.
        best = {cell: self.best(cell, "specialists") for cell in self.cells}
        self.won = [c for c, each in best.items() if each and each["mean"] <= one_play(CELLS[c])]

    def best(self, cell: str, stage: str) -> Record | None:
        records = self.cells[cell].get(stage, {}).values()
        return min(records, key=lambda record: record["mean"], default=None)

    def everywhere(self) -> str:
        """The specialist that does best with one setting in all cells, and how well."""
        ratios: dict[str, list[float]] = {}
        for cell, stages in self.cells.items():
            for label, record in stages.get("specialists", {}).items():
                best = self.best(cell, "specialists")
                ratios.setdefault(label, []).append(record["mean"] / best["mean"] if best else 1.0)
        means = {label: float(np.exp(np.mean(np.log(each)))) for label, each in ratios.items()}
        label = min(means, key=lambda each: means[each], default="")
        return f"{label}, geometric mean {means[label]:.2f}" if means else ""

    def ours(self, cell: str, rule: str) -> Record | None:
        return self.cells[cell].get("ours", {}).get(rule)

    def ratio(self, cell: str, rule: str, stage: str) -> float:
        """Mean regret over that of the best of a stage, or worst run over the mean ("itself").

        NaN where something is missing.
        """
        ours = self.ours(cell, rule)
        if ours and stage == "itself":
            return float(ours["worst"] / ours["mean"])
        best = self.best(cell, stage)
        return float(ours["mean"] / best["mean"]) if ours and best else math.nan


Rows = list[list[str]]


def number(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.2f}"


def amount(record: Record | None) -> str:
    return "" if record is None else f"{record['mean']:.1f}"


def named(record: Record | None) -> str:
    return "" if record is None else record["label"]


def cell_table(book: Book, rule: str | None) -> Rows:
    """One row per cell: the best rivals and, if there is one, the first rule."""
    head = ["cell", "best specialist", "regret", "best RoLF", "regret"]
    if rule is not None:
        head += [rule, "/ specialist", "/ RoLF", "worst / mean"]
    rows = [head]
    for cell in book.cells:
        special, coupled = book.best(cell, "specialists"), book.best(cell, "rolf")
        row = [cell, named(special), amount(special), named(coupled), amount(coupled)]
        if rule is not None:
            row.append(amount(book.ours(cell, rule)))
            stages = ("specialists", "rolf", "itself")
            row += [number(book.ratio(cell, rule, stage)) for stage in stages]
        rows.append(row)
    return rows


def summary_table(book: Book) -> Rows:
    """One column per rule."""
    rows = [["over the cells", *book.rules]]

    def add(title: str, stage: str, cells: Any, shown: Any) -> None:
        values = []
        for rule in book.rules:
            ratios = {cell: book.ratio(cell, rule, stage) for cell in cells}
            values.append(shown({c: v for c, v in ratios.items() if not math.isnan(v)}))
        rows.append([title, *values])

    calm = [cell for cell in book.cells if quiet(CELLS[cell])]
    add("cells", "specialists", book.cells, lambda known: str(len(known)))
    add("/ specialist, geometric mean", "specialists", book.cells, geometric)
    add("/ specialist, worst", "specialists", book.cells, worst)
    rest = [cell for cell in book.cells if cell not in book.won]
    title = f"/ specialist, without the {len(book.won)} won at the first play"
    add(title + ", geometric mean", "specialists", rest, geometric)
    add(title + ", worst", "specialists", rest, worst)
    above = lambda known: str(sum(value > 2.0 for value in known.values()))  # noqa: E731
    add("/ specialist, cells above 2", "specialists", book.cells, above)
    add("/ RoLF, geometric mean", "rolf", book.cells, geometric)
    add("/ RoLF, worst, noise up to 0.1", "rolf", calm, worst)
    add("/ RoLF, worst", "rolf", book.cells, worst)
    add("worst run / mean, largest", "itself", book.cells, worst)
    far = lambda known: str(sum(value > 4.0 for value in known.values()))  # noqa: E731
    add("worst run / mean, cells above 4", "itself", book.cells, far)
    return rows


def geometric(values: dict[str, float]) -> str:
    return f"{math.exp(np.mean(np.log([*values.values()]))):.2f}" if values else ""


def worst(values: dict[str, float]) -> str:
    """The largest of them, and its cell."""
    cell = max(values, key=lambda each: values[each], default="")
    return f"{values[cell]:.2f} ({cell})" if values else ""


def side_table(book: Book) -> Rows:
    """Ratios of all rules to the best specialist, cell by cell."""
    rows = [["/ specialist", *book.rules]]
    for cell in book.cells:
        values = [number(book.ratio(cell, rule, "specialists")) for rule in book.rules]
        rows.append([cell, *values])
    return rows


def plain(rows: Rows) -> str:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    texts = {i for i, word in enumerate(rows[0]) if i == 0 or word.startswith("best ")}
    sides = [f"<{width}" if i in texts else f">{width}" for i, width in enumerate(widths)]
    lines = ([format(word, side) for word, side in zip(row, sides, strict=True)] for row in rows)
    return "\n".join("  ".join(line).rstrip() for line in lines)


def markdown(rows: Rows) -> str:
    texts = [i == 0 or word.startswith("best ") for i, word in enumerate(rows[0])]
    rule = "|" + "|".join("---" if text else "---:" for text in texts) + "|"
    head, *rest = ("| " + " | ".join(row) + " |" for row in rows)
    return "\n".join([head, rule, *rest])


def report(args: argparse.Namespace) -> None:
    book = Book(args)
    if not book.cells:
        print(f"nothing in {args.out} for {args.runs} runs, {args.rounds} rounds, seed {args.seed}")
        return
    title = f"Mean regret after {args.rounds} rounds, {args.runs} runs, seed {args.seed}"
    tables = [cell_table(book, book.rules[0] if book.rules else None)]
    if book.rules:
        tables.append(summary_table(book))
    if len(book.rules) > 1:
        tables.append(side_table(book))
    print("\n\n".join([title, *map(plain, tables)]))
    kinds = Counter(named(book.best(cell, "specialists")).split(" ")[0] for cell in book.cells)
    print("\nbest specialist: " + ", ".join(f"{k} {n}" for k, n in kinds.most_common() if k))
    print(f"best with one setting for all cells, told the noise: {book.everywhere()}")
    records = [book.best(cell, "specialists") for cell in book.cells]
    far = sum(record["worst"] > 4.0 * record["mean"] for record in records if record)
    print(f"best specialist, worst run / mean above 4: {far} cells")
    if args.markdown:
        args.markdown.write_text("\n\n".join([title, *map(markdown, tables)]) + "\n")
        print(f"written: {args.markdown}")


# --- the command line ------------------------------------------------------------------------


class _Options(argparse.Action):
    """Options belong to the policy named before them."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option: Any = None) -> None:
        if not namespace.policy:
            parser.error("--options comes after the --policy that it belongs to")
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
    add("--options", action=_Options, help="of the last --policy, as JSON")
    add("--cells", default="", help="only cells whose label contains this")
    add("--runs", type=int, default=50)
    add("--rounds", type=int, default=1200)
    add("--seed", type=int, default=0)
    add("--jobs", type=int, default=None, help="workers; all cores by default")
    add("--out", type=Path, default=Path("out/regret.json"), help="where results are kept")
    add("--again", action="store_true", help="play the rivals again")
    add("--quick", action="store_true", help="every sixth cell, five runs")
    add("--markdown", type=Path, help="also write the tables to this file")
    args = parser.parse_args()
    args.chosen = [cell for cell in CELLS if args.cells in cell]
    if args.quick:
        args.chosen, args.runs = args.chosen[::6], 5
    stages = args.stage or STAGES
    named_policies = args.policy or [("rolf-bayes", {})]
    ours: Plan = {our_label(*pair): pair for pair in named_policies}
    plans: dict[str, Callable[[Any], Plan]] = {
        "specialists": specialists,
        "rolf": rolf_rivals,
        "ours": lambda family: ours,
    }
    for stage, plan in plans.items():
        for index, cell in enumerate(args.chosen if stage in stages else ()):
            played = measure(args, stage, cell, plan(CELLS[cell]))
            print(f"{stage} {index + 1}/{len(args.chosen)} {cell}: {played} played", flush=True)
    if "report" in stages:
        report(args)


if __name__ == "__main__":
    main()
