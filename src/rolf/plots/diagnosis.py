"""The picture of a diagnosis: means against the features' predictions, and the split variance."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from rolf.plots.style import COLOURS, GREY, add_grid, figure_of, literal, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAMED = 12  # more names than this would overlap


class Point(NamedTuple):
    """An arm: name, fit, mean with its interval, and whether it deviates."""

    name: str
    fit: float
    mean: float
    low: float
    high: float
    deviates: bool


def diagnosis_figure(
    points: Sequence[Point],
    share: tuple[float, float, float] | None,
    *,
    title: str,
    note: str,
    level: float,
    scale: str,
    ax: Axes | None = None,
) -> Figure:
    """Two panels, means and the split; ``ax`` gets the means alone.

    ``points`` start with the arms that deviate, the surest first; ``share`` is the estimate with
    its interval; ``scale`` names the scale on which the variance is split.
    """
    if ax is not None:
        _means(ax, points, level)
        return figure_of(ax)
    figure = new_figure(9.0, 5.2)
    left, right = figure.subplots(1, 2, width_ratios=[3.6, 1.0])
    _means(left, points, level)
    _split(right, share, level, scale)
    figure.suptitle(title, x=0.01, ha="left", fontsize=12)
    figure.supxlabel(textwrap.fill(note, 125), x=0.01, ha="left", fontsize=8.5, color=GREY)
    return figure


def _means(axes: Axes, points: Sequence[Point], level: float) -> None:
    """Means with intervals against the fit; on the diagonal the features explain everything."""
    if not points:
        axes.set_axis_off()
        axes.text(0.5, 0.5, "nothing to compare yet", ha="center", va="center", color=GREY)
        return
    groups = (
        (False, COLOURS[0], "o", "may follow the features"),
        (True, COLOURS[1], "D", "deviates"),
    )
    for deviates, colour, marker, label in groups:
        group = [point for point in points if point.deviates == deviates]
        if group:
            axes.errorbar(
                [point.fit for point in group],
                [point.mean for point in group],
                [
                    [point.mean - point.low for point in group],
                    [point.high - point.mean for point in group],
                ],
                fmt=marker,
                color=colour,
                markersize=4.5,
                elinewidth=1.0,
                label=label,
            )
    fits = [point.fit for point in points]
    low, high = min(fits), max(fits)
    reach = 0.06 * (high - low) or 0.1 * max(abs(point.mean - low) for point in points) or 1.0
    ends = (low - reach, high + reach)
    axes.plot(ends, ends, color=GREY, linewidth=1.0, linestyle=(0, (6, 4)), zorder=1)
    axes.set_xlim(ends)
    for point in [point for point in points if point.deviates][:NAMED]:
        above = point.mean > point.fit  # names go on the side away from the diagonal
        axes.annotate(
            literal(point.name),
            (point.fit, point.mean),
            (-5, 3) if above else (5, -3),
            textcoords="offset points",
            ha="right" if above else "left",
            va="bottom" if above else "top",
            fontsize=8,
            color=COLOURS[1],
        )
    axes.set_xlabel("mean reward that the features predict for the arm")
    axes.set_ylabel(f"mean reward observed, and its {100.0 * level:.4g}% interval")
    axes.set_title("Arms; on the dashed line, features explain everything", loc="left", fontsize=10)
    axes.legend(
        loc="lower right",
        bbox_to_anchor=(1.0, 0.99),
        borderaxespad=0.2,
        ncols=2,
        frameon=False,
        fontsize=8.5,
        handletextpad=0.1,
    )
    add_grid(axes)


def _split(axes: Axes, share: tuple[float, float, float] | None, level: float, scale: str) -> None:
    """One bar: the variance between arms, split into what the features explain and the rest."""
    axes.set_title("Variance between arms", loc="left", fontsize=10)
    axes.set_xlabel(f"of the {scale}" if scale != "rewards" else "")
    axes.set_xlim(-0.75, 0.75)
    axes.set_ylim(0.0, 1.0)
    axes.set_xticks([])
    axes.set_yticks([0.0, 0.25, 0.5, 0.75, 1.0], ["0%", "25%", "50%", "75%", "100%"])
    axes.spines[["top", "right", "bottom"]].set_visible(False)
    if share is None:
        axes.text(0.0, 0.5, "cannot\nbe split", ha="center", va="center", color=GREY)
        axes.set_axis_off()
        return
    estimate, low, high = share
    axes.bar(-0.15, estimate, width=0.6, color=COLOURS[0])
    axes.bar(-0.15, 1.0 - estimate, width=0.6, bottom=estimate, color=COLOURS[5])
    for middle, part, name in (
        (0.5 * estimate, estimate, "features"),
        (0.5 + 0.5 * estimate, 1.0 - estimate, "latent"),
    ):
        if part >= 0.06:
            colour = "white" if name == "features" else "black"
            text = f"{name}\n{part:.0%}" if part >= 0.12 else f"{name} {part:.0%}"
            size = 8.5 if part >= 0.12 else 7.5
            axes.text(-0.15, middle, text, ha="center", va="center", fontsize=size, color=colour)
    axes.plot([0.3, 0.3], [low, high], color="black", linewidth=1.5, clip_on=False)
    for end in (low, high):
        axes.plot([0.25, 0.35], [end, end], color="black", linewidth=1.5, clip_on=False)
    words = f"{100.0 * level:.4g}% interval of the features' share"
    axes.text(0.45, 0.5, words, rotation=90, va="center", fontsize=7.5, color=GREY)
