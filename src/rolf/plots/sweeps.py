"""Pictures of sweeps: panels with a line per policy, over rounds or against a swept argument."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rolf.plots.regret import legend_text
from rolf.plots.style import GREY, add_grid, figure_of, line_styles, literal, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: an axis is logarithmic if its largest value is this many times its smallest positive one
WIDE = 30.0
#: with at most this many lines in a panel, each has a band
FEW = 6
#: opacity of bands
OPACITY = 0.12
#: points between the bars of two lines at the same place
APART = 3.0


class Line(NamedTuple):
    """A policy in a panel: numbers or names on the axis, each with regret and its interval.

    A line without ``x`` is horizontal: it has one value.
    """

    label: str
    policy: str  # its name in the catalogue
    x: Sequence[Any]
    mean: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]


def panels_of_lines(
    panels: Mapping[str, Sequence[Line]],
    *,
    title: str,
    xlabel: str,
    ylabel: str,
    note: str,
    bands: bool,
    logarithmic: bool = False,
) -> Figure:
    """Panels in rows of up to three, with one legend.

    ``bands`` draws intervals as bands, for lines over rounds; otherwise they are bars.
    """
    across = 2 if len(panels) == 4 else min(3, len(panels))
    down = -(-len(panels) // across)
    policies = {line.label: line.policy for lines in panels.values() for line in lines}
    labels = list(policies)
    legend_columns = max(2, across)
    legend_rows = -(-len(labels) // legend_columns)
    figure = new_figure(max(6.4, 4.1 * across), 3.1 * down + 1.1 + 0.2 * legend_rows)
    grid = figure.subplots(down, across, squeeze=False)
    styles = dict(zip(labels, line_styles(labels, list(policies.values())), strict=True))
    values = {x for lines in panels.values() for line in lines for x in line.x}
    names = None if all(isinstance(x, int | float) for x in values) else _names(panels)
    for place, axes in enumerate(grid.flat):
        if place >= len(panels):
            axes.remove()
            continue
        name, lines = list(panels.items())[place]
        if not bands:
            _set_ticks(axes, values, names)
        banded = _banded(lines)
        for line in lines:
            if line.x and not bands:
                beside = [other.label for other in lines if set(other.x) & set(line.x)]
                step = beside.index(line.label) - 0.5 * (len(beside) - 1)
                _draw_points(axes, line, styles[line.label], names, APART * step)
            else:
                _draw(axes, line, styles[line.label], line.label in banded)
        heading = literal(textwrap.fill(name, 72 if across == 1 else 46))
        axes.set_title(heading, loc="left", fontsize=10)
        if place % across == 0:
            axes.set_ylabel(ylabel)
        if place + across >= len(panels):
            axes.set_xlabel(literal(xlabel))
        if logarithmic:
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter("{x:g}")
        else:
            axes.set_ylim(bottom=0.0)
        add_grid(axes)
    figure.suptitle(literal(textwrap.fill(title, 30 * across + 26)), x=0.01, ha="left", fontsize=12)
    handles: dict[str, Any] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure.legend(
        list(handles.values()),
        list(handles),
        loc="outside lower left",
        ncols=legend_columns,
        frameon=False,
        fontsize=9,
        handlelength=2.6,
        title=note,
        title_fontproperties={"size": 8},
        alignment="left",
    ).get_title().set_color(GREY)
    return figure


def _names(panels: Mapping[str, Sequence[Line]]) -> list[str]:
    """The names on an axis, in order of appearance."""
    return list(
        dict.fromkeys(str(x) for lines in panels.values() for line in lines for x in line.x)
    )


def _banded(lines: Sequence[Line]) -> set[str]:
    """The labels of the lines that get a band: if there are many, the best of each policy."""
    if len(lines) <= FEW:
        return {line.label for line in lines}
    best: dict[str, Line] = {}
    for line in lines:
        if line.policy not in best or line.mean[-1] < best[line.policy].mean[-1]:
            best[line.policy] = line
    return {line.label for line in best.values()}


def _draw(axes: Axes, line: Line, look: tuple[str, Any], band: bool) -> None:
    """A line over rounds, or a horizontal one."""
    shared = _drawn_as(line, look)
    shade: dict[str, Any] = {"color": look[0], "alpha": OPACITY, "linewidth": 0.0}
    if not line.x:
        axes.axhline(line.mean[0], **shared)
        axes.axhspan(line.low[0], line.high[0], **shade)
        return
    axes.plot(line.x, line.mean, **shared)
    if band:
        axes.fill_between(line.x, line.low, line.high, **shade)


def _draw_points(
    axes: Axes, line: Line, look: tuple[str, Any], names: list[str] | None, shift: float
) -> None:
    """A line with a bar at every value, shifted to the right by ``shift`` points."""
    from matplotlib.transforms import offset_copy

    x = list(line.x) if names is None else [names.index(str(each)) for each in line.x]
    below = [mean - low for mean, low in zip(line.mean, line.low, strict=True)]
    above = [high - mean for mean, high in zip(line.mean, line.high, strict=True)]
    shared = {**_drawn_as(line, look), "marker": "o", "markersize": 4, "capsize": 2.5}
    drawn = axes.errorbar(x, line.mean, [below, above], **shared)
    for artist in drawn.get_children():
        place = offset_copy(artist.get_transform(), figure_of(axes), x=shift, units="points")
        artist.set_transform(place)


def _drawn_as(line: Line, look: tuple[str, Any]) -> dict[str, Any]:
    colour, dashes = look
    label = legend_text(line.label)
    return {"color": colour, "linestyle": dashes, "linewidth": 1.6, "label": label}


def _set_ticks(axes: Axes, values: set[Any], names: list[str] | None) -> None:
    """A tick at every value of the grid."""
    if names is not None:
        axes.set_xticks(range(len(names)), [literal(name) for name in names])
        axes.set_xmargin(0.1)
        return
    ticks = sorted(values)
    above = [tick for tick in ticks if tick > 0.0]
    if len(ticks) > 2 and ticks[0] >= 0.0 and above[-1] / above[0] >= WIDE:
        if len(above) == len(ticks):
            axes.set_xscale("log")
        else:  # zero among them
            axes.set_xscale("symlog", linthresh=above[0])
    if len(ticks) <= 12:
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.minorticks_off()


def interval_of_mean(mean: float, stderr: float, runs: int) -> tuple[float, float]:
    """A 95% interval of Student's t for a mean."""
    if runs < 2:
        return mean, mean
    from scipy.special import stdtrit

    margin = float(stdtrit(runs - 1, 0.975)) * stderr
    return (mean - margin, mean + margin) if math.isfinite(margin) else (mean, mean)
