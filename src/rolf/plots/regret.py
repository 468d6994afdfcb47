"""Pictures: readable in print and by colour-blind people, drawn without global state."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rolf.errors import InvalidArgument
from rolf.types import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which colour-blind people can tell apart; the line styles carry
# the same information for print in grey.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#7F7F7F"]
STYLES: list[Any] = [
    "-",
    "--",
    "-.",
    ":",
    (0, (5, 1)),
    (0, (3, 1, 1, 1)),
    (0, (1, 1)),
    (0, (8, 2, 1, 2)),
]


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
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 4.4), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    regret_panel(axes, curves, logarithmic=logarithmic)
    if title:
        axes.set_title(title, loc="left", fontsize=11)
    axes.legend(
        loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=9, handlelength=2.6
    )
    figure.supxlabel(_note(curves.runs), x=0.01, ha="left", fontsize=8, color="#555555")
    return figure


def panels_figure(
    panels: Sequence[tuple[str, Curves]],
    *,
    title: str,
    bounds: Sequence[tuple[str, Callable[[int], float]] | None] | None = None,
    logarithmic: bool = False,
) -> Figure:
    """Panels side by side; one legend where all show the same policies."""
    from matplotlib.figure import Figure

    count = len(panels)
    figure = Figure(figsize=(4.1 * count, 4.4), dpi=150, layout="constrained")
    drawn = figure.subplots(1, count, squeeze=False)[0]
    alike = all(curves.labels == panels[0][1].labels for _, curves in panels)
    for index, (axes, (name, curves)) in enumerate(zip(drawn, panels, strict=True)):
        regret_panel(axes, curves, logarithmic=logarithmic)
        axes.set_title(name, loc="left", fontsize=10)
        if index:
            axes.set_ylabel("")
        bound = bounds[index] if bounds else None
        if bound is not None:
            rounds = np.arange(1, curves.mean.shape[1] + 1)
            line = [bound[1](int(t)) for t in rounds]
            axes.plot(rounds, line, color="#444444", linewidth=1.0, linestyle=(0, (6, 4)))
            axes.annotate(
                bound[0],
                (rounds[-1], line[-1]),
                (-4, 3),
                textcoords="offset points",
                ha="right",
                fontsize=9,
                color="#444444",
            )
        if not alike:
            axes.legend(loc="upper left", frameon=False, fontsize=8, handlelength=2.6)
    if alike:
        handles, names = drawn[0].get_legend_handles_labels()
        figure.legend(
            handles,
            [n.rsplit("  ", 1)[0] for n in names],
            loc="outside lower center",
            ncols=min(len(names), 6),
            frameon=False,
            fontsize=9,
            handlelength=2.6,
        )
        for axes, (_, curves) in zip(drawn, panels, strict=True):
            _end_values(axes, curves)
    figure.suptitle(f"{title}\n", x=0.01, ha="left", fontsize=12)
    figure.text(0.01, 0.925, _note(panels[0][1].runs), fontsize=8, color="#555555")
    return figure


def setting_figure(
    points: Mapping[Any, Curves], *, title: str, xlabel: str, logarithmic: bool = False
) -> Figure:
    """Final regret against a setting: mean and one standard error."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 4.2), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    values = np.array(list(points), dtype=float)
    labels = next(iter(points.values())).labels
    runs = next(iter(points.values())).runs
    for index, (label, (colour, style)) in enumerate(zip(labels, looks(labels), strict=True)):
        mean = [curves.mean[index, -1] for curves in points.values()]
        error = [curves.std[index, -1] / runs**0.5 for curves in points.values()]
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
            label=_plain_text(label),
        )
    if logarithmic:
        axes.set_xscale("log")
    axes.set_xticks(values, [f"{value:g}" for value in values])
    axes.minorticks_off()
    axes.set_xlabel(xlabel)
    axes.set_ylabel(f"regret after {next(iter(points.values())).mean.shape[1]} rounds")
    axes.set_ylim(bottom=0.0)
    axes.set_title(title, loc="left", fontsize=11)
    _plain(axes)
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=9)
    note = f"mean of {runs} runs, bars: one standard error"
    figure.supxlabel(note, x=0.01, ha="left", fontsize=8, color="#555555")
    return figure


def regret_panel(axes: Axes, curves: Curves, *, logarithmic: bool = False) -> None:
    """Draw regret over rounds into one panel, the worst policy first."""
    rounds = curves.mean.shape[1]
    shown = np.unique(np.linspace(0, rounds - 1, min(rounds, 600)).astype(int))
    styles = looks(curves.labels)
    floor = 1.0 if logarithmic else 0.0
    for index in np.argsort(-curves.mean[:, -1], kind="stable"):
        colour, style = styles[index]
        line, band = curves.mean[index, shown], curves.std[index, shown]
        label = f"{_plain_text(curves.labels[index])}  ({curves.mean[index, -1]:.0f})"
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
    _plain(axes)


def looks(labels: Sequence[str]) -> list[tuple[str, Any]]:
    """Colour and line style of each policy.

    Labels that differ only behind a comma are variations of one policy: they share its
    colour and differ in style.
    """
    names = [label.split(",")[0] for label in labels]
    order = list(dict.fromkeys(names))
    out = []
    for position, name in enumerate(names):
        index = order.index(name)
        style = index + 3 * (index // len(COLOURS)) + names[:position].count(name)
        out.append((COLOURS[index % len(COLOURS)], STYLES[style % len(STYLES)]))
    return out


def _plain_text(label: str) -> str:
    """A label as it is: no mathematics, and not hidden from the legend."""
    text = label.replace("$", r"\$")
    return "\u200b" + text if text.startswith("_") else text


def _plain(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)


def _note(runs: int) -> str:
    return f"mean of {runs} runs, band: one standard deviation" if runs > 1 else "one run"


def _end_values(axes: Axes, curves: Curves) -> None:
    """The final means as numbers at the right edge, pushed apart where they would overlap."""
    to_share = axes.transLimits.transform
    scale = axes.transScale.transform
    last = -np.inf
    for index in np.argsort(curves.mean[:, -1], kind="stable"):
        value = float(curves.mean[index, -1])
        share = float(to_share(scale((1.0, max(value, axes.get_ylim()[0]))))[1])
        place = max(share, last + 1.0 / 22.0)
        last = place
        axes.annotate(
            f"{value:.0f}",
            (1.0, place),
            (3, 0),
            xycoords="axes fraction",
            textcoords="offset points",
            va="center",
            fontsize=7.5,
            color=looks(curves.labels)[index][0],
        )


def save(figure: Figure, path: str | Path) -> Path:
    """Write a figure; the folder is made if needed."""
    target = Path(path)
    if target.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise InvalidArgument("path", str(path), "a file that ends in .png, .svg or .pdf")
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target)
    return target
