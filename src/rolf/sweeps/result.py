"""The results of a sweep, read from its files part by part: memory does not grow with the runs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rolf.checks import between
from rolf.errors import InvalidArgument
from rolf.extras import require
from rolf.plots import style
from rolf.sweeps.comparison import Standing, compare_with_best
from rolf.sweeps.plan import Cell, SweepPlan
from rolf.sweeps.statistics import Collector, RunMoments, Statistics
from rolf.sweeps.store import SweepStore
from rolf.sweeps.table import Columns
from rolf.tables.result_table import ResultTable, save_result
from rolf.text import counted, first_few, html_lines
from rolf.types import FloatArray, IntArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: how many numbers are read at a time
WINDOW = 1 << 20
#: maximum number of rounds to take statistics after
MOST_ROUNDS = 200


class _Group(NamedTuple):
    """All cells of one problem with its arguments, and how their settings compare."""

    cells: list[Cell]
    runs: int
    mean: FloatArray
    standing: Standing


class Sweep:
    """The regret of policies on problems, over grids of their arguments.

    Attributes:
        folder: where the runs are.
        plan: title, rounds, points, runs, seeds and cells.
        cells: every policy with its options on every problem with its arguments.
    """

    def __init__(self, folder: str | Path, plan: SweepPlan) -> None:
        self.folder = Path(folder)
        self.plan = plan
        self.cells = plan.cells
        self._store = SweepStore(folder)
        self._columns = Columns(plan.cells)
        self._statistics: dict[tuple[str, tuple[int, ...]], Statistics] = {}

    # --- runs ---

    def select(self, **where: Any) -> list[Cell]:
        """The cells with these values in the columns of ``summary()``, such as policy="UCB"."""
        for name in where:
            self._columns.check("where", name)
        return [cell for cell in self.cells if self._columns.matches(cell, where)]

    def regret(self, cell: Cell) -> FloatArray:
        """Cumulative regret (runs, points) of all runs of a cell, read into memory."""
        parts = [
            values[present]
            for seed in self.plan.seeds
            for present, values in self._windows(cell, seed)
        ]
        return np.concatenate(parts)

    def _windows(
        self, cell: Cell, seed: int, place: int | None = None, cells: int = 1
    ) -> Iterator[tuple[Any, FloatArray]]:
        """Regret (runs, points) of consecutive runs, and which of those runs exist.

        The boundaries of parts do not depend on the files, so neither do sums over parts.

        Args:
            cell: the cell to read.
            seed: the seed of the runs.
            place: index of a single point to read; all points by default.
            cells: number of cells being read at the same time.
        """
        blocks = [block for block in self._store.blocks(cell.key) if block.seed == seed]
        points = self.plan.kept_rounds.size
        wanted = slice(None) if place is None else slice(place, place + 1)
        width = points if place is None else 1
        size = max(1, WINDOW // (width * cells))
        for start in range(0, self.plan.runs, size):
            stop = min(start + size, self.plan.runs)
            values = np.zeros((stop - start, width))
            present = np.zeros(stop - start, dtype=bool)
            for block in blocks:
                first, last = max(start, block.first), min(stop, block.stop)
                if first < last:
                    read = self._store.read(cell.key, block, points)
                    part = read[first - block.first : last - block.first, wanted]
                    values[first - start : last - start] = part
                    present[first - start : last - start] = True
            yield present, values

    # --- statistics ---

    def statistics(self, cell: Cell, rounds: Sequence[int] | None = None) -> Statistics:
        """Mean, spread, minimum, maximum and quantiles of a cell's runs.

        Args:
            cell: one of ``cells``.
            rounds: kept rounds to take statistics after. By default all kept rounds, or 200 of
                them if there are more.
        """
        places = self._places(rounds)
        key = (cell.key, tuple(places))
        if key not in self._statistics:
            collector = Collector(self.plan.kept_rounds[places])
            for seed in self.plan.seeds:
                for present, values in self._windows(cell, seed):
                    collector.add(values[present][:, places])
            self._statistics[key] = collector.statistics()
        return self._statistics[key]

    def _places(self, rounds: Sequence[int] | None) -> list[int]:
        kept = self.plan.kept_rounds
        if rounds is None:
            count = min(kept.size, MOST_ROUNDS)
            return [-(-kept.size * step // count) - 1 for step in range(1, count + 1)]
        return [self._place(round) for round in rounds]

    def _place(self, round: int | None) -> int:
        kept: IntArray = self.plan.kept_rounds
        if round is None:
            return int(kept.size - 1)
        found = np.flatnonzero(kept == round)
        if found.size == 0:
            few = first_few([str(each) for each in kept], 20)
            raise InvalidArgument("round", round, f"a round after which regret was kept: {few}")
        return int(found[0])

    def summary(self, round: int | None = None) -> ResultTable[dict[str, Any]]:
        """One row per cell: regret after ``round`` rounds, by default the last kept round."""
        after = [int(self.plan.kept_rounds[self._place(round)])]
        rows = []
        for cell in self.cells:
            found = self.statistics(cell, after)
            rows.append({**self._columns.row(cell), **next(_numbers(found))})
        return self._table(rows)

    def table(self) -> ResultTable[dict[str, Any]]:
        """One row per cell and kept round (at most 200 rounds)."""
        rows = [
            {**self._columns.row(cell), **numbers}
            for cell in self.cells
            for numbers in _numbers(self.statistics(cell))
        ]
        return self._table(rows)

    def _table(self, rows: list[dict[str, Any]]) -> ResultTable[dict[str, Any]]:
        """Rows that start with the columns of their cells."""
        return ResultTable(rows, left=len(self._columns.all), note=self.progress)

    def to_dict(self) -> dict[str, Any]:
        """The plan and ``table()`` as plain data."""
        return {**self.plan.to_dict(), "table": self.table().to_dicts()}

    def save(self, path: str | Path) -> Path:
        """Write ``to_dict()`` as JSON (.json), or ``table()`` as CSV (.csv)."""
        return save_result(self, path)

    # --- the best ---

    def compare(
        self, round: int | None = None, *, level: float = 0.95
    ) -> ResultTable[dict[str, Any]]:
        """How far each setting is behind the best one on its problem, best first.

        ``low`` and ``high`` bound how far it truly is behind the truly best setting; all bounds in
        the table hold at once with confidence ``level``. ``tied`` settings cannot be told from the
        best. Differences are taken between the same runs; the intervals are Student's, after
        Edwards and Hsu, with Bonferroni's correction.
        """
        rows = []
        for group in self._groups(round, level):
            for index in np.argsort(group.mean, kind="stable"):
                standing = group.standing._asdict()
                rows.append(
                    {
                        **self._columns.row(group.cells[index]),
                        "runs": group.runs,
                        "mean": float(group.mean[index]),
                        **{name: values[index].item() for name, values in standing.items()},
                    }
                )
        return self._table(rows)

    def best(self, round: int | None = None, *, level: float = 0.95) -> ResultTable[dict[str, Any]]:
        """One row per problem: the best setting, and the settings that cannot be told from it.

        ``high`` bounds how far it may be behind the truly best setting; ``next`` is the best
        setting that can be told from it, with an interval for its distance. Intervals are as in
        ``compare``. There is no best setting until all settings have played a run in common.
        """
        rows = []
        for group in self._groups(round, level):
            order = np.argsort(group.mean, kind="stable")
            first, *others = (int(index) for index in order)
            tied = [group.cells[i].setting for i in others if group.standing.tied[i]]
            worse = [i for i in others if not group.standing.tied[i]]
            rows.append(
                {
                    "problem": group.cells[first].on,
                    "best": group.cells[first].setting if group.runs else "",
                    "runs": group.runs,
                    "mean": float(group.mean[first]),
                    "high": float(group.standing.high[first]),
                    "tied": "; ".join(tied) if group.runs else "",
                    "next": _behind(group, worse[0]) if worse else "",
                }
            )
        return ResultTable(rows, left=2, note=self.progress)

    def _groups(self, round: int | None, level: float) -> list[_Group]:
        level = between("level", level, 0.0, 1.0)
        place = self._place(round)
        groups: dict[str, list[Cell]] = {}
        for cell in self.cells:
            groups.setdefault(json.dumps([cell.problem, cell.arguments]), []).append(cell)
        comparisons = sum(len(cells) - 1 for cells in groups.values())
        out = []
        for cells in groups.values():
            moments = self._paired(cells, place)
            mean = moments.mean if moments.count else np.full(len(cells), np.nan)
            standing = compare_with_best(mean, moments.variance, moments.count, comparisons, level)
            out.append(_Group(cells, moments.count, mean, standing))
        return out

    def _paired(self, cells: list[Cell], place: int) -> RunMoments:
        """Moments of the settings over the runs they all have."""
        moments = RunMoments(len(cells), products=True)
        for seed in self.plan.seeds:
            windows = (self._windows(cell, seed, place, len(cells)) for cell in cells)
            for parts in zip(*windows, strict=True):
                common = np.logical_and.reduce([present for present, _ in parts])
                columns = [values[common, 0] for _, values in parts]
                moments.add(np.column_stack(columns))
        return moments

    # --- pictures and words ---

    def plot(
        self,
        path: str | Path | None = None,
        *,
        x: str = "round",
        facet: str | Sequence[str] | None = None,
        where: dict[str, Any] | None = None,
        round: int | None = None,
        title: str | None = None,
        logarithmic: bool = False,
    ) -> Figure:
        """Regret over rounds, or after ``round`` rounds against a swept argument.

        Args:
            path: where to write the picture; by default it is not written.
            x: "round", or a column of ``summary()``: an argument of problems or an option of
                policies. Policies without that option are horizontal lines.
            facet: columns to draw one panel per value of; by default all columns in which problems
                differ, except ``x``.
            where: column values; only cells that match them are drawn.
            round: the round after which regret is drawn; by default the last kept round.
            title: title above the picture; by default the title of the configuration.
            logarithmic: use a logarithmic axis for regret.

        Returns the figure.
        """
        from rolf.sweeps.drawing import sweep_figure

        figure = sweep_figure(
            self,
            self._columns,
            x=x,
            facet=facet,
            where=where or {},
            round=round,
            title=self._title() if title is None else title,
            logarithmic=logarithmic,
        )
        return style.finish(figure, path)

    def _repr_html_(self) -> str:
        return f"{html_lines(self._head())}{self.summary()._repr_html_()}"

    @property
    def progress(self) -> str:
        """How many runs are done, for an unfinished sweep; empty for a finished one."""
        plan = self.plan
        runs = plan.runs * len(plan.seeds) * len(plan.cells)
        done = self._store.count(plan)
        return "" if done == runs else f"{done:,} of {runs:,} runs"

    def _title(self) -> str:
        progress = self.progress
        return f"{self.plan.title} ({progress})" if progress else self.plan.title

    def _head(self) -> str:
        plan = self.plan
        runs = self.progress or f"{counted(plan.runs * len(plan.seeds), 'run')} each"
        cells, rounds = counted(len(plan.cells), "cell"), counted(plan.rounds, "round")
        return f"{plan.title}: {cells}, {runs}, {rounds}"

    def __repr__(self) -> str:
        return f"<Sweep {self._head()}>"


def load_sweep(folder: str | Path) -> Sweep:
    """Load the sweep last run into a folder, finished or not."""
    require("pyarrow", "reading a sweep")
    return Sweep(folder, SweepStore(folder).read_plan())


def _numbers(found: Statistics) -> Iterator[dict[str, Any]]:
    """The statistics as columns, one row per round."""
    shares = {"q10": 0.1, "q25": 0.25, "median": 0.5, "q75": 0.75, "q90": 0.9}
    columns: dict[str, Any] = {"round": found.rounds}
    if found.runs:
        columns |= {"mean": found.mean, "std": found.std, "stderr": found.stderr, "min": found.min}
        columns |= {name: found.quantile(share) for name, share in shares.items()}
        columns |= {"max": found.max}
    else:
        names = ("mean", "std", "stderr", "min", *shares, "max")
        columns |= {name: np.full(len(found.rounds), np.nan) for name in names}
    for place in range(len(found.rounds)):
        numbers = {name: values[place].item() for name, values in columns.items()}
        yield {"runs": found.runs, **numbers}


def _behind(group: _Group, index: int) -> str:
    standing = group.standing
    low, high = standing.low[index], standing.high[index]
    behind = f"{standing.behind[index]:.3g} behind ({low:.3g} to {high:.3g})"
    return f"{group.cells[index].setting}: {behind}"
