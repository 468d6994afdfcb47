"""Pictures of regret: over rounds, in panels, and against a setting."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rolf.plots.style import GREY, add_grid, figure_of, line_styles, literal, new_figure
from rolf.types import FloatArray, IntArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


#: the band around a mean lies between these quantiles of the runs
BAND = (0.1, 0.9)
#: or one standard deviation on either side, as in the paper
BANDS = ("quantiles", "deviation")


class Curves(NamedTuple):
    """Cumulative regret, reduced to what a picture shows: arrays of (policies, rounds)."""

    labels: list[str]
    mean: FloatArray
    std: FloatArray  # zeros for one run
    low: FloatArray  # quantiles of the runs
    high: FloatArray
    runs: int
    policies: Sequence[str] = ()  # their names in the catalogue, if known
    points: IntArray | None = None  # the rounds of the columns, if not all

    @property
    def rounds(self) -> IntArray:
        """The round of every column, from 1."""
        return np.arange(1, self.mean.shape[1] + 1) if self.points is None else self.points

    @property
    def styles(self) -> list[tuple[str, Any]]:
        return line_styles(self.labels, self.policies)

    def band(self, kind: str) -> tuple[FloatArray, FloatArray]:
        """The lower and the upper end of a band around the mean, one of ``BANDS``."""
        if kind == "deviation":
            return self.mean - self.std, self.mean + self.std
        return self.low, self.high

    @property
    def order(self) -> list[int]:
        """The policies by final regret, the highest first."""
        return [int(index) for index in np.argsort(-self.mean[:, -1], kind="stable")]


def curves_of(
    labels: Sequence[str],
    regret: FloatArray,
    policies: Sequence[str] = (),
    points: IntArray | None = None,
) -> Curves:
    """Mean, standard deviation and quantiles over the runs of regret (policies, runs, rounds)."""
    mean = regret.mean(axis=1)
    runs = regret.shape[1]
    std = regret.std(axis=1, ddof=1) if runs > 1 else np.zeros_like(mean)
    low, high = np.quantile(regret, BAND, axis=1)
    return Curves(list(labels), mean, std, low, high, runs, policies, points)


def regret_figure(
    curves: Curves,
    *,
    title: str | None = None,
    logarithmic: bool = False,
    ax: Axes | None = None,
) -> Figure:
    """Cumulative regret of each policy: the mean over runs, and a band that holds most of them.

    Draws into ``ax`` if given, with the legend inside, else into a new figure.
    """
    axes = new_figure(7.5, 4.4).add_subplot() if ax is None else ax
    figure = figure_of(axes)
    regret_panel(axes, curves, logarithmic=logarithmic)
    if title:
        axes.set_title(literal(title), loc="left", fontsize=11)
    if ax is not None:
        axes.legend(frameon=False, fontsize=8, handlelength=2.6)
        return figure
    axes.legend(
        loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=9, handlelength=2.6
    )
    figure.supxlabel(note_on_runs(curves.runs), x=0.01, ha="left", fontsize=8, color=GREY)
    return figure


def panels_figure(
    panels: Sequence[tuple[str, Curves]],
    *,
    title: str,
    bounds: Sequence[tuple[str, Callable[[int], float]] | None] | None = None,
    logarithmic: bool = False,
    stacked: bool = False,
    band: str = "quantiles",
) -> Figure:
    """Panels side by side, with one legend if all show the same policies.

    ``bounds`` are dashed lines per panel: a name, and regret as a function of the round.
    ``band`` is one of ``BANDS``.
    ``stacked`` puts one panel below the other, for narrow screens.
    """
    count = len(panels)
    figure = new_figure(4.6, 3.3 * count + 1.2) if stacked else new_figure(4.1 * count, 4.4)
    grid = figure.subplots(count, 1) if stacked else figure.subplots(1, count)
    row = list(np.atleast_1d(grid))
    same_policies = all(curves.labels == panels[0][1].labels for _, curves in panels)
    for index, (axes, (name, curves)) in enumerate(zip(row, panels, strict=True)):
        regret_panel(axes, curves, logarithmic=logarithmic, band=band)
        axes.set_title(name, loc="left", fontsize=10)
        if index and not stacked:
            axes.set_ylabel("")
        if bounds and (bound := bounds[index]):
            _draw_bound(axes, *bound, int(curves.rounds[-1]))
        if not same_policies:
            axes.legend(loc="upper left", frameon=False, fontsize=8, handlelength=2.6)
    heading = textwrap.fill(title, 48 if stacked else 200)
    note = note_on_runs(panels[0][1].runs, band)
    figure.suptitle(f"{heading}\n", x=0.01, ha="left", fontsize=11 if stacked else 12)
    lines = 1.32 * heading.count("\n") * 11.0
    top = 1.0 - (21.0 + lines) / 72.0 / figure.get_figheight()
    figure.text(0.01, top, note, fontsize=8, color=GREY, va="top")
    if same_policies:
        _shared_legend(figure, row[0], panels, longest=2 if stacked else 6)
        figure.draw_without_rendering()  # the layout decides how far to push numbers apart
        for axes, (_, curves) in zip(row, panels, strict=True):
            mark_ends(axes, curves)
    return figure


def setting_figure(
    points: Mapping[Any, Curves],
    *,
    title: str,
    xlabel: str,
    logarithmic: bool = False,
    stacked: bool = False,
) -> Figure:
    """Final regret against a setting: mean and one standard error.

    ``stacked`` puts the legend below the panel, for narrow screens.
    """
    figure = new_figure(4.6, 4.8) if stacked else new_figure(7.5, 4.2)
    axes = figure.add_subplot()
    values = np.array(list(points), dtype=float)
    first = next(iter(points.values()))
    for index in list(points.values())[-1].order:
        label, (colour, style) = first.labels[index], first.styles[index]
        mean = [curves.mean[index, -1] for curves in points.values()]
        error = [curves.std[index, -1] / first.runs**0.5 for curves in points.values()]
        axes.errorbar(
            values,
            mean,
            error,
            color=colour,
            linestyle=style,
            linewidth=1.6,
            marker="o",
            markersize=4,
            capsize=2.5,
            label=legend_text(label),
        )
    if logarithmic:
        axes.set_xscale("log")
    axes.set_xticks(values, [f"{value:g}" for value in values])
    axes.minorticks_off()
    note = f"mean of {first.runs} runs, bars: one standard error"
    axes.set_xlabel(f"{xlabel}\n({note})" if stacked else xlabel)
    axes.set_ylabel(f"regret after {first.rounds[-1]} rounds")
    axes.set_ylim(bottom=0.0)
    axes.set_title(textwrap.fill(title, 48 if stacked else 200), loc="left", fontsize=11)
    add_grid(axes)
    if stacked:
        handles, names = axes.get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower left", ncols=2, frameon=False, fontsize=8)
    else:
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=9)
        figure.supxlabel(note, x=0.01, ha="left", fontsize=8, color=GREY)
    return figure


def regret_panel(
    axes: Axes, curves: Curves, *, logarithmic: bool = False, band: str = "quantiles"
) -> None:
    """Draw regret over rounds into one panel, the worst policy first."""
    count = curves.mean.shape[1]
    shown = np.unique(np.linspace(0, count - 1, min(count, 600)).astype(int))
    rounds = curves.rounds[shown]
    floor = 0.0
    if logarithmic:
        ends = curves.mean[:, -1]
        lowest = ends[ends > 0.0].min(initial=10.0)
        floor = float(10.0 ** np.floor(np.log10(lowest / 3.0)))
    for index in curves.order:
        colour, style = curves.styles[index]
        line = curves.mean[index, shown]
        label = f"{legend_text(curves.labels[index])}  ({curves.mean[index, -1]:.0f})"
        axes.plot(rounds, line, color=colour, linestyle=style, linewidth=1.8, label=label)
        if curves.runs > 1:
            low, high = (np.maximum(end[index, shown], floor) for end in curves.band(band))
            axes.fill_between(rounds, low, high, color=colour, alpha=0.13, linewidth=0)
    axes.set_xlabel("round")
    axes.set_ylabel("cumulative regret")
    axes.set_xlim(1, max(rounds[-1], 2))
    if logarithmic:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
    axes.set_ylim(bottom=floor)
    add_grid(axes)


def _draw_bound(axes: Axes, name: str, bound: Callable[[int], float], rounds: int) -> None:
    """A dashed line with its name at the right end."""
    line = [bound(t) for t in range(1, rounds + 1)]
    colour = "#444444"
    axes.plot(range(1, rounds + 1), line, color=colour, linewidth=1.0, linestyle=(0, (6, 4)))
    axes.annotate(
        name,
        (rounds, line[-1]),
        (-4, 3),
        textcoords="offset points",
        ha="right",
        fontsize=9,
        color=colour,
    )


def legend_text(label: str) -> str:
    """A label that the legend shows even if it starts with an underscore."""
    text = literal(label)
    return "\u200b" + text if text.startswith("_") else text


def note_on_runs(runs: int, band: str = "quantiles") -> str:
    if runs == 1:
        return "one run"
    if band == "deviation":
        return f"line: mean of {runs} runs; band: one standard deviation"
    low, high = (f"{100 * share:g}%" for share in BAND)
    return f"line: mean of {runs} runs; band: from {low} to {high} of the runs"


def _shared_legend(
    figure: Figure, axes: Axes, panels: Sequence[tuple[str, Curves]], longest: int
) -> None:
    """One legend below all panels, read line by line, in the order of mean final regret.

    Its lines have at most ``longest`` entries, and no entry stands alone in the last one.
    """
    handles, _ = axes.get_legend_handles_labels()  # in the order of the first panel
    labels = panels[0][1].labels
    by_label = {
        labels[index]: handle for index, handle in zip(panels[0][1].order, handles, strict=True)
    }
    ranks = np.mean([np.argsort(curves.order) for _, curves in panels], axis=0)
    ordered = [labels[index] for index in np.argsort(ranks, kind="stable")]
    lines = -(-len(ordered) // longest)
    columns = -(-len(ordered) // lines)
    while columns > 1 and len(ordered) % columns == 1:
        columns -= 1
    by_column = [each for start in range(columns) for each in ordered[start::columns]]
    figure.legend(
        [by_label[label] for label in by_column],
        [legend_text(label) for label in by_column],
        loc="outside lower center",
        ncols=columns,
        frameon=False,
        fontsize=9,
        handlelength=2.6,
    )


def mark_ends(axes: Axes, curves: Curves, *, named: bool = False) -> None:
    """Final means at the right edge, with or without names, pushed apart where they would
    overlap."""
    to_share = axes.transLimits.transform
    scale = axes.transScale.transform
    size = 9.0 if named else 7.5
    height = size * 1.25 / 72.0 / (axes.get_position().height * figure_of(axes).get_figheight())
    last = -np.inf
    for index in reversed(curves.order):
        value = float(curves.mean[index, -1])
        share = float(to_share(scale((1.0, max(value, axes.get_ylim()[0]))))[1])
        last = max(share, last + height)
        name = f"{literal(curves.labels[index])}  " if named else ""
        axes.annotate(
            f"{name}{value:.0f}",
            (1.0, last),
            (3, 0),
            xycoords="axes fraction",
            textcoords="offset points",
            va="center",
            fontsize=size,
            color=curves.styles[index][0],
        )
