"""The columns of a sweep's tables, which depend on the swept arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rolf.errors import InvalidArgument
from rolf.sweeps.plan import Cell, show

#: columns any table may have
COMMON = {
    *("problem", "policy", "round", "runs", "mean", "std", "stderr", "min", "max"),
    *("q10", "q25", "median", "q75", "q90", "behind", "low", "high", "tied", "best", "next"),
}


class Columns:
    """The swept arguments as columns: arguments of problems, then options of policies.

    A name that occurs in both, or that is in ``COMMON``, becomes ``problem.name`` or
    ``policy.name``.
    """

    def __init__(self, cells: Sequence[Cell]) -> None:
        of_problems = list(dict.fromkeys(name for cell in cells for name in cell.problem_grid))
        of_policies = list(dict.fromkeys(name for cell in cells for name in cell.policy_grid))
        taken = {*COMMON, *({*of_problems} & {*of_policies})}
        self.of_problems: dict[str, Callable[[Cell], Any]] = {
            f"problem.{name}" if name in taken else name: _Reader("arguments", name)
            for name in of_problems
        }
        self.of_policies: dict[str, Callable[[Cell], Any]] = {
            f"policy.{name}" if name in taken else name: _Reader("options", name)
            for name in of_policies
        }
        self.all: dict[str, Callable[[Cell], Any]] = {
            "problem": lambda cell: cell.problem,
            **self.of_problems,
            "policy": lambda cell: cell.policy,
            **self.of_policies,
        }

    def row(self, cell: Cell) -> dict[str, Any]:
        return {name: read(cell) for name, read in self.all.items()}

    def has(self, name: str, cell: Cell) -> bool:
        """Whether a cell sets this argument, even to None."""
        read = self.all[name]
        return not isinstance(read, _Reader) or read.name in read.values(cell)

    def check(self, argument: str, name: Any) -> str:
        if name not in self.all:
            raise InvalidArgument(argument, name, "one of " + ", ".join(self.all))
        return str(name)

    def matches(self, cell: Cell, where: dict[str, Any]) -> bool:
        """Whether a cell has these values; text matches the value it shows."""
        return all(_matches(self.all[name](cell), wanted) for name, wanted in where.items())


def _matches(value: Any, wanted: Any) -> bool:
    if value == wanted or show(value) == wanted:
        return True
    try:  # 1e-3 is 0.001
        return isinstance(value, int | float) and isinstance(wanted, str) and value == float(wanted)
    except ValueError:
        return False


class _Reader:
    """Reads one of the ``arguments`` of a cell's problem, or one of its policy's ``options``."""

    def __init__(self, field: str, name: str) -> None:
        self.field, self.name = field, name

    def values(self, cell: Cell) -> dict[str, Any]:
        found: dict[str, Any] = getattr(cell, self.field)
        return found

    def __call__(self, cell: Cell) -> Any:
        return self.values(cell).get(self.name)
