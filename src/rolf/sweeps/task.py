"""One task of a sweep, played by a worker: consecutive runs of a cell."""

from __future__ import annotations

import functools
import traceback
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rolf.errors import RolfError
from rolf.simulation.entries import Entry
from rolf.simulation.result import versions
from rolf.simulation.runs import Runs
from rolf.types import FloatArray, IntArray

_versions = functools.cache(versions)


class Task(NamedTuple):
    """Runs ``first`` to ``first + runs - 1`` of a policy on a problem, the cell as text, and the
    software versions that are part of its key."""

    entry: Entry
    problem: Any
    points: IntArray
    seed: int
    first: int
    runs: int
    cell: str
    versions: dict[str, str]


def play_task(task: Task) -> FloatArray:
    """Cumulative regret (runs, points)."""
    if (here := _versions()) != task.versions:
        names = [name for name in here if here[name] != task.versions.get(name)]
        got = ", ".join(f"{name} {here[name]}, not {task.versions.get(name)}" for name in names)
        raise RolfError(f"versions differ between a worker and the caller: {got}")
    regret = np.empty((task.runs, task.points.size))
    runs = Runs([task.entry], task.problem, task.seed, task.points)
    for row in range(task.runs):
        run = task.first + row
        try:
            regret[row] = runs.play((0, run))
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            raise RolfError(
                f"{task.cell} (seed {task.seed}, run {run}) failed: "
                f"{type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})"
            ) from error
    return regret
