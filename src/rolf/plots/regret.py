"""Pictures of regret: over rounds, in panels, and against a setting."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rolf.plots.style import COLOURS as COLOURS
from rolf.plots.style import GREY, add_grid, line_styles, literal, new_figure
from rolf.plots.style import save as save
from rolf.types import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Curves(NamedTuple):
    """Cumulative regret, reduced to what a picture shows."""

    labels: list[str]
    mean: FloatArray  # (policies, rounds)
    std: FloatArray  # (policies, rounds); zeros for one run
    runs: int


def curves_of(labels: Sequence[str], regret: FloatArray) -> Curves:
    """Mean and standard deviation over the runs of regret (policies, runs, rounds)."""
    mean = regret.mean(axis=1)
    runs = regret.shape[1]
    std = regret.std(axis=1, ddof=1) if runs > 1 else np.zeros_like(mean)
    return Curves(list(labels), mean, std, runs)


def regret_figure(curves: Curves, *, title: str | None = None, logarithmic: bool = False) -> Figure:
    """Cumulative regret of each policy: the mean over runs, and one standard deviation."""
    figure = new_figure(7.5, 4.4)
    axes = figure.add_subplot()
    regret_panel(axes, curves, logarithmic=logarithmic)
    if title:
        axes.set_title(title, loc="left", fontsize=11)
    axes.legend(
        loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=9, handlelength=2.6
    )
    figure.supxlabel(_note(curves.runs), x=0.01, ha="left", fontsize=8, color=GREY)
    return figure


def panels_figure(
    panels: Sequence[tuple[str, Curves]],
    *,
    title: str,
    bounds: Sequence[tuple[str, Callable[[int], float]] | None] | None = None,
    logarithmic: bool = False,
) -> Figure:
    """Panels side by side, with one legend if all show the same policies.

    ``bounds`` are dashed lines, per panel: a name and regret as a function of the round.
    """
    figure = new_figure(4.1 * len(panels), 4.4)
    row = figure.subplots(1, len(panels), squeeze=False)[0]
    same_policies = all(curves.labels == panels[0][1].labels for _, curves in panels)
    for index, (axes, (name, curves)) in enumerate(zip(row, panels, strict=True)):
        regret_panel(axes, curves, logarithmic=logarithmic)
        axes.set_title(name, loc="left", fontsize=10)
        if index:
            axes.set_ylabel("")
        if bounds and (bound := bounds[index]):
            _draw_bound(axes, *bound, curves.mean.shape[1])
        if not same_policies:
            axes.legend(loc="upper left", frameon=False, fontsize=8, handlelength=2.6)
    if same_policies:
        handles, names = row[0].get_legend_handles_labels()
        figure.legend(
            handles,
            [n.rsplit("  ", 1)[0] for n in names],
            loc="outside lower center",
            ncols=min(len(names), 2 * len(panels)),
            frameon=False,
            fontsize=9,
            handlelength=2.6,
        )
        for axes, (_, curves) in zip(row, panels, strict=True):
            _end_values(axes, curves)
    figure.suptitle(f"{title}\n", x=0.01, ha="left", fontsize=12)
    figure.text(0.01, 0.925, _note(panels[0][1].runs), fontsize=8, color=GREY)
    return figure


def setting_figure(
    points: Mapping[Any, Curves], *, title: str, xlabel: str, logarithmic: bool = False
) -> Figure:
    """Final regret against a setting: mean and one standard error."""
    figure = new_figure(7.5, 4.2)
    axes = figure.add_subplot()
    values = np.array(list(points), dtype=float)
    first = next(iter(points.values()))
    styles = line_styles(first.labels)
    for index, (label, (colour, style)) in enumerate(zip(first.labels, styles, strict=True)):
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
            label=_legend_text(label),
        )
    if logarithmic:
        axes.set_xscale("log")
    axes.set_xticks(values, [f"{value:g}" for value in values])
    axes.minorticks_off()
    axes.set_xlabel(xlabel)
    axes.set_ylabel(f"regret after {first.mean.shape[1]} rounds")
    axes.set_ylim(bottom=0.0)
    axes.set_title(title, loc="left", fontsize=11)
    add_grid(axes)
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=9)
    note = f"mean of {first.runs} runs, bars: one standard error"
    figure.supxlabel(note, x=0.01, ha="left", fontsize=8, color=GREY)
    return figure


def regret_panel(axes: Axes, curves: Curves, *, logarithmic: bool = False) -> None:
    """Draw regret over rounds into one panel, the worst policy first."""
    rounds = curves.mean.shape[1]
    shown = np.unique(np.linspace(0, rounds - 1, min(rounds, 600)).astype(int))
    styles = line_styles(curves.labels)
    floor = 1.0 if logarithmic else 0.0
    for index in np.argsort(-curves.mean[:, -1], kind="stable"):
        colour, style = styles[index]
        line, band = curves.mean[index, shown], curves.std[index, shown]
        label = f"{_legend_text(curves.labels[index])}  ({curves.mean[index, -1]:.0f})"
        axes.plot(shown + 1, line, color=colour, linestyle=style, linewidth=1.8, label=label)
        if curves.runs > 1:
            low = np.maximum(line - band, floor)
            axes.fill_between(shown + 1, low, line + band, color=colour, alpha=0.13, linewidth=0)
    axes.set_xlabel("round")
    axes.set_ylabel("cumulative regret")
    axes.set_xlim(1, max(rounds, 2))
    if logarithmic:
        axes.set_yscale("log")
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


def _legend_text(label: str) -> str:
    """A label for the legend, which leaves out those that start with an underscore."""
    text = literal(label)
    return "\u200b" + text if text.startswith("_") else text


def _note(runs: int) -> str:
    return f"mean of {runs} runs, band: one standard deviation" if runs > 1 else "one run"


def _end_values(axes: Axes, curves: Curves) -> None:
    """The final means as numbers at the right edge, pushed apart where they would overlap."""
    to_share = axes.transLimits.transform
    scale = axes.transScale.transform
    styles = line_styles(curves.labels)
    last = -np.inf
    for index in np.argsort(curves.mean[:, -1], kind="stable"):
        value = float(curves.mean[index, -1])
        share = float(to_share(scale((1.0, max(value, axes.get_ylim()[0]))))[1])
        last = max(share, last + 1.0 / 22.0)
        axes.annotate(
            f"{value:.0f}",
            (1.0, last),
            (3, 0),
            xycoords="axes fraction",
            textcoords="offset points",
            va="center",
            fontsize=7.5,
            color=styles[index][0],
        )
