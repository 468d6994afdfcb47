"""The records of benchmarks/regret.py: one per policy and cell, in a JSON file.

A record holds what was played (stage, cell, label, policy, options, runs, rounds, seed) and the
outcome: mean, standard deviation, worst and median of the final regret, and the number of stuck
runs.
"""

from __future__ import annotations

import argparse
import atexit
import fcntl
import json
import math
import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from regret_cells import CELLS, OFFSETS, one_play

SCREENED = 20  # number of runs for screening the settings of rivals

Record = dict[str, Any]


def kept_in(name: str, *, quick: bool) -> Path:
    """The file of records in out/; for a quick run, one that is deleted when Python exits."""
    if not quick:
        return Path("out") / name
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder) / name


def load(path: Path) -> dict[str, Record]:
    records: dict[str, Record] = json.loads(path.read_text()) if path.exists() else {}
    return records


def save(path: Path, fresh: dict[str, Record]) -> None:
    """Add to the current content of the file, since another process may have written to it.

    A lock lets one process write at a time, or additions would be lost.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(f".{os.getpid()}.tmp")
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        beside.write_text(json.dumps(load(path) | fresh, indent=1))
        beside.replace(path)


def screening(stage: str) -> str:
    """The stage under which the screening of a stage is kept."""
    return f"{stage}, screening"


class Book:
    """The records for one number of runs, number of rounds and seed."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.cells: dict[str, dict[str, dict[str, Record]]] = {}
        for record in load(args.out).values():
            cell, stage = record["cell"], record["stage"]
            runs = SCREENED if stage.endswith("screening") else args.runs
            asked = (runs, args.rounds, args.seed + OFFSETS.get(cell, 0))
            if cell in args.chosen and (record["runs"], record["rounds"], record["seed"]) == asked:
                stages = self.cells.setdefault(cell, {})
                stages.setdefault(stage, {})[record["label"]] = record
        self.cells = {cell: self.cells[cell] for cell in args.chosen if cell in self.cells}
        played = [label for stages in self.cells.values() for label in stages.get("ours", {})]
        self.rules = [label for label in args.named or dict.fromkeys(played) if label in played]
        # If the best specialist loses no more than one random play, a ratio to it only measures
        # the luck of the first play.
        best = {cell: self.best(cell, "specialists") for cell in self.cells}
        self.won = [c for c, each in best.items() if each and each["mean"] <= one_play(CELLS[c])]

    def has(self, stage: str) -> bool:
        return any(stage in stages for stages in self.cells.values())

    def best(self, cell: str, stage: str) -> Record | None:
        records = self.cells[cell].get(stage, {}).values()
        return min(records, key=lambda record: record["mean"], default=None)

    def bests(self, stage: str) -> list[Record]:
        found = (self.best(cell, stage) for cell in self.cells)
        return [record for record in found if record is not None]

    def everywhere(self) -> str:
        """The specialist that does best with one setting in all cells, and its result.

        Uses the screening if there was one, since in it every setting played every cell.
        """
        stage = screening("specialists") if self.has(screening("specialists")) else "specialists"
        logs: dict[str, list[float]] = {}
        for cell, stages in self.cells.items():
            least = self.best(cell, stage)
            for label, record in stages.get(stage, {}).items():
                if least is not None:
                    logs.setdefault(label, []).append(math.log(record["mean"] / least["mean"]))
        most = max((len(each) for each in logs.values()), default=0)
        means = {
            label: math.exp(np.mean(each)) for label, each in logs.items() if len(each) == most
        }
        label = min(means, key=lambda each: means[each], default="")
        return f"{label}, geometric mean {means[label]:.2f}" if means else ""

    def ours(self, cell: str, rule: str) -> Record | None:
        return self.cells[cell].get("ours", {}).get(rule)

    def all_ours(self, rule: str) -> list[Record]:
        found = (self.ours(cell, rule) for cell in self.cells)
        return [record for record in found if record is not None]

    def ratio(self, cell: str, rule: str, stage: str) -> float:
        """Mean regret divided by that of the best of a stage, or worst run by the mean ("itself").

        NaN if a record is missing.
        """
        ours = self.ours(cell, rule)
        if ours and stage == "itself":
            return float(ours["worst"] / ours["mean"])
        best = self.best(cell, stage)
        return float(ours["mean"] / best["mean"]) if ours and best else math.nan


def stuck_share(records: Iterable[Record]) -> str:
    """The share of stuck runs."""
    counted = [record for record in records if "stuck" in record]
    stuck, runs = (sum(record[name] for record in counted) for name in ("stuck", "runs"))
    return f"{stuck} of {runs} ({stuck / runs:.1%})" if counted else ""
