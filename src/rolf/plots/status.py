"""The picture of an experiment: its best arms with intervals, and rewards over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rolf.plots.style import (
    COLOURS,
    GREY,
    LIGHT_GREY,
    add_grid,
    figure_of,
    literal,
    margin_note,
    name_rows,
    new_figure,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

POSTERIOR, OWN = COLOURS[1], COLOURS[0]
LONGEST = 24  # letters of a name


class Bar(NamedTuple):
    """An arm: its plays, its value with an interval, and the policy's own estimate if it has no
    intervals. None means unknown."""

    name: str
    plays: int
    value: float | None
    low: float | None
    high: float | None
    own: float | None


class _Control(NamedTuple):
    """What an experiment is compared with: its name and mean reward."""

    mean: float
    name: str

    @property
    def look(self) -> dict[str, Any]:
        """How its line is drawn."""
        label = literal(f"{self.name} (control)")
        return {"color": GREY, "linewidth": 1.2, "linestyle": (0, (5, 3)), "label": label}


def status_figure(
    status: Any, arms: Sequence[Any], *, title: str, note: str, level: float, ax: Axes | None = None
) -> Figure:
    """Arms of a status, the best first, next to its rewards over time, if known. ``ax`` gets the
    arms alone.
    """
    borrowed = status.posterior_of != status.policy
    bars = [
        Bar(
            str(arm.arm) if arm.active else f"{arm.arm} (retired)",
            arm.plays,
            arm.mean if arm.best is None else arm.posterior_mean,
            arm.low,
            arm.high,
            arm.estimate if borrowed else None,
        )
        for arm in arms
    ]
    control = _Control(status.uplift.baseline, status.uplift.against) if status.uplift else None
    shown = (bars, status.policy, status.posterior_of, level, control)
    if ax is not None:
        _arms(ax, *shown)
        ax.set_title(literal(title), loc="left", fontsize=11)
        return figure_of(ax)
    periods = [period for period in status.timeline or () if period.mean is not None]
    figure = new_figure(10.0 if periods else 6.5, 2.0 + 0.27 * max(len(bars), 5))
    if periods:
        left, right = figure.subplots(1, 2)
        _over_time(right, periods, level, control)
    else:
        left = figure.add_subplot()
    _arms(left, *shown)
    figure.suptitle(literal(title), x=0.01, ha="left", fontsize=11)
    if note:
        figure.supxlabel(note, x=0.01, ha="left", fontsize=8, color=GREY)
    return figure


def _arms(
    axes: Axes,
    arms: Sequence[Bar],
    policy: str,
    posterior_of: str | None,
    level: float,
    control: _Control | None,
) -> None:
    """One line per arm, with its number of plays at the right edge."""
    if control is not None:
        axes.axvline(control.mean, **control.look)
    for height, arm in enumerate(arms):
        if arm.low is not None and arm.high is not None:
            axes.plot([arm.low, arm.high], [height, height], color=POSTERIOR, linewidth=2.0)
        margin_note(axes, f"{arm.plays:,}", height)
    interval = f"{posterior_of}, with its {100 * level:g}% interval"
    _marks(axes, [arm.value for arm in arms], "o", POSTERIOR, interval if posterior_of else "mean")
    _marks(axes, [arm.own for arm in arms], "D", OWN, policy)
    margin_note(axes, "plays")
    names = [each if len(each) <= LONGEST else f"{each[: LONGEST - 1]}…" for each, *_ in arms]
    name_rows(axes, range(len(arms)), names)
    axes.set_ylim(len(arms) - 0.4, -0.6)
    axes.set_xlabel("mean reward")
    axes.grid(axis="x", color=LIGHT_GREY, linewidth=0.6)
    axes.set_axisbelow(True)
    _legend(axes)


def _marks(
    axes: Axes, values: Sequence[float | None], marker: str, colour: str, label: str
) -> None:
    known = [(value, height) for height, value in enumerate(values) if value is not None]
    if known:
        face = colour if marker == "o" else "white"
        axes.plot(
            *zip(*known, strict=True),
            marker,
            color=colour,
            markerfacecolor=face,
            markersize=5.5,
            label=literal(label),
        )


def _over_time(axes: Axes, periods: Sequence[Any], level: float, control: _Control | None) -> None:
    """The mean reward of each period at its end, with an interval."""
    from statistics import NormalDist

    reach = NormalDist().inv_cdf(0.5 + 0.5 * level)
    if control is not None:
        axes.axhline(control.mean, **control.look)
    axes.errorbar(
        [period.last for period in periods],
        [period.mean for period in periods],
        [reach * (period.stderr or 0.0) for period in periods],
        color=POSTERIOR,
        marker="o",
        markersize=4.0,
        linewidth=1.6,
        elinewidth=1.0,
        label=f"mean reward, with a {100 * level:g}% interval",
    )
    axes.set_xlim(left=0.0)
    axes.set_xlabel("decisions so far")
    axes.set_ylabel("mean reward of the latest")
    add_grid(axes)
    _legend(axes)


def _legend(axes: Axes) -> None:
    """The legend, above the panel so that it covers nothing."""
    handles, labels = axes.get_legend_handles_labels()
    if not handles:
        return
    axes.legend(
        handles,
        labels,
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        borderaxespad=0.2,
        frameon=False,
        fontsize=8,
        ncols=1,
    )
