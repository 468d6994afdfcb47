"""The plan of a sweep: cells, each a policy with options on a problem with arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from rolf.errors import RolfError
from rolf.types import IntArray

FORMAT = "rolf-sweep"
VERSION = 1
#: a task plays about TASK_ROUNDS rounds, but at most MAX_BLOCK runs; a cell has at most about
#: CELL_TASKS tasks
TASK_ROUNDS, CELL_TASKS, MAX_BLOCK = 100_000, 1000, 100_000


class Cell(NamedTuple):
    """One policy with its options on one problem with its arguments.

    ``arguments`` and ``options`` hold everything that was set; ``problem_grid`` and
    ``policy_grid`` name the ones that come from a grid. ``key`` is a hash of everything the cell's
    numbers depend on.
    """

    key: str
    problem: str
    arguments: dict[str, Any]
    problem_grid: list[str]
    policy: str  # its label
    name: str  # in the catalogue, or package.module:Class
    options: dict[str, Any]
    policy_grid: list[str]

    @property
    def on(self) -> str:
        """The problem as text: its name and its values from the grid."""
        return _titled(self.problem, self.arguments, self.problem_grid)

    @property
    def setting(self) -> str:
        """The policy as text: its label and its values from the grid."""
        return _titled(self.policy, self.options, self.policy_grid)

    @property
    def words(self) -> str:
        """Policy and problem as text."""
        return f"{self.setting} on {self.on}"


class SweepPlan(NamedTuple):
    """All cells of a sweep, and the settings they share."""

    title: str
    rounds: int
    points: list[int] | str  # rounds after which regret is kept, or "all"
    runs: int  # of each cell and seed
    seeds: list[int]
    cells: list[Cell]

    @property
    def kept_rounds(self) -> IntArray:
        """The rounds after which regret is kept."""
        kept = range(1, self.rounds + 1) if isinstance(self.points, str) else self.points
        return np.array(kept, dtype=np.int64)

    @property
    def block(self) -> int:
        """How many runs a task plays."""
        runs = max(1, TASK_ROUNDS // self.rounds, -(-self.runs // CELL_TASKS))
        return min(runs, MAX_BLOCK)

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain data."""
        cells = [cell._asdict() for cell in self.cells]
        return {"format": FORMAT, "version": VERSION, **self._asdict(), "cells": cells}


def plan_from_dict(source: str, data: Any) -> SweepPlan:
    """The inverse of ``SweepPlan.to_dict``; ``source`` names the data in errors."""
    if not isinstance(data, Mapping) or data.get("format") != FORMAT:
        raise RolfError(f"{source}: was not written by rolf sweep")
    if data.get("version") != VERSION:
        raise RolfError(f"{source}: has version {data.get('version')}, this rolf reads {VERSION}")
    try:
        cells = [Cell(**cell) for cell in data["cells"]]
        return SweepPlan(
            **{name: data[name] for name in SweepPlan._fields if name != "cells"}, cells=cells
        )
    except (KeyError, TypeError) as error:
        raise RolfError(f"{source}: is damaged ({error!r})") from None


def _titled(name: str, values: Mapping[str, Any], grid: list[str]) -> str:
    return ", ".join([name, *(f"{each}={show(values[each])}" for each in grid)])


def show(value: Any) -> str:
    """A grid value as text for a title."""
    return f"{value:g}" if isinstance(value, float) else str(value)
