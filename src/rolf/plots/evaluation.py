"""The picture of an evaluation on a log: values and intervals, beside the log's own mean."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rolf.plots.style import (
    COLOURS,
    GREY,
    LIGHT_GREY,
    figure_of,
    literal,
    margin_note,
    name_rows,
    new_figure,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Look(NamedTuple):
    """How an estimator is drawn."""

    title: str
    marker: str
    colour: str


LOOKS = {
    "replay": Look("replay (learns on the way)", "s", COLOURS[0]),
    "ips": Look("inverse propensity", "o", COLOURS[1]),
    "snips": Look("self-normalised", "^", COLOURS[2]),
    "dr": Look("doubly robust", "D", COLOURS[3]),
}


def evaluation_figure(
    estimates: Sequence[Any],
    logged: Any | None,
    *,
    title: str,
    level: float,
    ax: Axes | None = None,
) -> Figure:
    """One line per value of an evaluation; ``logged`` is the log's own mean.

    Draws into ``ax`` if given, with the legend inside, else into a new figure.
    """
    policies = list(dict.fromkeys(estimate.policy for estimate in estimates))
    present = {estimate.estimator for estimate in estimates}
    used = [name for name in LOOKS if name in present]
    gap = len(used) + 1
    height = 1.9 + 0.24 * gap * len(policies)
    axes = new_figure(7.5, height).add_subplot() if ax is None else ax
    figure = figure_of(axes)
    if logged is not None:
        axes.axvspan(logged.low, logged.high, color=LIGHT_GREY, alpha=0.6, linewidth=0)
        axes.axvline(logged.value, color=GREY, linewidth=1.0, linestyle="--")
    for estimate in estimates:
        height = policies.index(estimate.policy) * gap + used.index(estimate.estimator)
        _draw(axes, estimate, height)
    margin_note(axes, "decisions\nit rests on")
    centres = [index * gap + (len(used) - 1) / 2 for index in range(len(policies))]
    name_rows(axes, centres, policies)
    for index in range(1, len(policies)):
        axes.axhline(index * gap - 1, color=LIGHT_GREY, linewidth=0.8)
    axes.set_ylim(gap * len(policies) - 1, -1)
    axes.set_xlabel("mean reward of a decision")
    note = f"lines and grey band: {100 * level:g}% confidence intervals"
    axes.set_title(note, loc="right", fontsize=8, color=GREY)
    axes.grid(axis="x", color="#eeeeee", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_title(literal(title), loc="left", fontsize=11)
    look = {"handles": _legend_handles(used), "frameon": False, "fontsize": 8.5}
    if ax is None:
        figure.legend(loc="outside lower center", ncols=3, **look)
    else:
        axes.legend(**look)
    return figure


def _draw(axes: Axes, estimate: Any, height: int) -> None:
    """The interval, the value on it, and at the right edge the number of decisions."""
    look = LOOKS[estimate.estimator]
    if math.isfinite(estimate.low + estimate.high):
        ends = [estimate.low, estimate.high]
        axes.plot(ends, [height, height], color=look.colour, linewidth=1.8)
    axes.plot(estimate.value, height, look.marker, color=look.colour, markersize=5.5)
    margin_note(axes, f"{estimate.effective:,.0f}", height)


def _legend_handles(estimators: Sequence[str]) -> list[Any]:
    from matplotlib.lines import Line2D

    handles = [
        Line2D(
            [],
            [],
            color=look.colour,
            marker=look.marker,
            markersize=5.5,
            linewidth=1.8,
            label=look.title,
        )
        for look in (LOOKS[name] for name in estimators)
    ]
    handles.append(Line2D([], [], color=GREY, linestyle="--", label="mean as logged"))
    return handles
