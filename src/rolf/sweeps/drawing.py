"""Arrange the cells of a sweep into the panels and lines of a picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rolf.errors import InvalidArgument
from rolf.extras import require
from rolf.plots.regret import BAND
from rolf.plots.sweeps import FEW, Line, interval_of_mean, panels_of_lines
from rolf.sweeps.plan import Cell, show
from rolf.sweeps.table import Columns

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from rolf.sweeps.result import Sweep

MOST_PANELS = 12
ROUND = "round"


def sweep_figure(
    sweep: Sweep,
    columns: Columns,
    *,
    x: str,
    facet: str | Sequence[str] | None,
    where: dict[str, Any],
    round: int | None,
    title: str,
    logarithmic: bool,
) -> Figure:
    """The figure of ``Sweep.plot``."""
    require("matplotlib", "drawing a picture")
    require("scipy", "confidence intervals")
    if x != ROUND and x not in columns.all:
        raise InvalidArgument("x", x, "one of " + ", ".join([ROUND, *columns.all]))
    if x == ROUND and round is not None:
        raise InvalidArgument("round", round, "no round, unless x is a swept argument")
    cells = [
        cell
        for cell in sweep.select(**where)
        if sweep.statistics(cell, _last(sweep)).runs
        and (x not in columns.of_problems or columns.has(x, cell))
    ]
    if not cells:
        raise InvalidArgument("where", where, "values that have finished runs")
    facets = _facets(columns, cells, facet, x)
    panels: dict[str, list[Cell]] = {}
    for cell in cells:
        own_facets = [each for each in facets if columns.has(each, cell)]
        titles = [_titled(each, columns.all[each](cell)) for each in own_facets]
        panels.setdefault(", ".join(titles), []).append(cell)
    if len(panels) > MOST_PANELS:
        expected = f"at most {MOST_PANELS} panels: choose some values with where (--where)"
        raise InvalidArgument("facet", f"{len(panels)} panels of {', '.join(facets)}", expected)
    _check_apart(columns, panels, x)
    after = int(sweep.plan.kept_rounds[-1]) if round is None else round
    low, high = (f"{100 * share:g}%" for share in BAND)
    counts = sorted({sweep.statistics(cell, _last(sweep)).runs for cell in cells})
    runs = " to ".join(str(each) for each in dict.fromkeys([counts[0], counts[-1]]))
    over_rounds = x == ROUND
    spread = "bars and bands: 95% interval of the mean"
    if over_rounds:
        many = max(map(len, panels.values())) > FEW
        whose = "bands, of the best setting of each policy" if many else "band"
        spread = f"{whose}: from {low} to {high} of the runs"
    return panels_of_lines(
        {
            name: _over_rounds(sweep, chosen)
            if over_rounds
            else _against(sweep, columns, chosen, x, after)
            for name, chosen in panels.items()
        },
        title=title,
        xlabel=x,
        ylabel="cumulative regret" if over_rounds else f"regret after {after} rounds",
        note=f"mean of {runs} runs; {spread}",
        bands=over_rounds,
        logarithmic=logarithmic,
    )


def _last(sweep: Sweep) -> list[int]:
    return [int(sweep.plan.kept_rounds[-1])]


def _facets(
    columns: Columns, cells: list[Cell], facet: str | Sequence[str] | None, x: str
) -> list[str]:
    """The columns to facet by: the requested ones, or every column in which problems differ."""
    if facet is not None:
        wanted = [facet] if isinstance(facet, str) else list(facet)
        return [columns.check("facet", name) for name in wanted]
    of_problems = ["problem", *columns.of_problems]
    several = [n for n in of_problems if len({show(columns.all[n](cell)) for cell in cells}) > 1]
    return [name for name in several if name != x]


def _titled(column: str, value: Any) -> str:
    return show(value) if column in ("problem", "policy") else f"{column}={show(value)}"


def _over_rounds(sweep: Sweep, cells: list[Cell]) -> list[Line]:
    lines = []
    for cell in cells:
        found = sweep.statistics(cell)
        numbers = (found.rounds, found.mean, found.quantile(BAND[0]), found.quantile(BAND[1]))
        lines.append(Line(cell.setting, cell.name, *(values.tolist() for values in numbers)))
    return lines


def _against(sweep: Sweep, columns: Columns, cells: list[Cell], x: str, after: int) -> list[Line]:
    """One line per policy and combination of its other options, over the values of ``x``."""
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(_label(cell, x), []).append(cell)
    lines = []
    for label, group in groups.items():
        values = [_on_axis(columns.all[x](cell)) for cell in group if columns.has(x, cell)]
        if values and all(isinstance(value, int | float) for value in values):
            group = [group[place] for place in np.argsort(values, kind="stable")]
            values.sort()
        found = [sweep.statistics(cell, [after]) for cell in group]
        intervals = [
            interval_of_mean(float(each.mean[0]), float(each.stderr[0]), each.runs)
            for each in found
        ]
        lines.append(
            Line(
                label,
                group[0].name,
                values,
                [float(each.mean[0]) for each in found],
                [low for low, _ in intervals],
                [high for _, high in intervals],
            )
        )
    return lines


def _on_axis(value: Any) -> Any:
    """A grid value for an axis: numbers as they are, anything else as text."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if number and math.isfinite(value) else show(value)


def _label(cell: Cell, x: str) -> str:
    """The policy and its options as text, without the option on the axis."""
    grid = [name for name in cell.policy_grid if name not in (x, x.removeprefix("policy."))]
    return cell._replace(policy_grid=grid).setting


def _check_apart(columns: Columns, panels: dict[str, list[Cell]], x: str) -> None:
    """Refuse panels in which a line would have two values at the same x."""
    for cells in panels.values():
        places = [
            (_label(cell, x), "" if x == ROUND else show(columns.all[x](cell))) for cell in cells
        ]
        if len(set(places)) < len(places):
            apart = [
                name
                for name in ("problem", *columns.of_problems)
                if name != x and len({show(columns.all[name](cell)) for cell in cells}) > 1
            ]
            expected = f"panels that also separate {' or '.join(apart)}"
            raise InvalidArgument("facet", "too few", expected)
