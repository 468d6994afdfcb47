"""Pictures: readable in print and by colour-blind people, drawn without global state."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rolf.types import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which colour-blind people can tell apart; the line styles carry
# the same information for print in grey.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#7F7F7F"]
STYLES: list[Any] = ["-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)), "-"]


def regret_figure(
    labels: Sequence[str],
    regret: FloatArray,
    *,
    title: str | None = None,
    logarithmic: bool = False,
) -> Figure:
    """Cumulative regret of each policy: the mean over runs, and one standard deviation."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 4.4), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    regret_panel(axes, labels, regret, logarithmic=logarithmic)
    if title:
        axes.set_title(title, loc="left", fontsize=11)
    axes.legend(
        loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=9, handlelength=2.6
    )
    return figure


def regret_panel(
    axes: Axes, labels: Sequence[str], regret: FloatArray, *, logarithmic: bool = False
) -> None:
    """Draw regret (policies, runs, rounds) into one panel, the worst policy first."""
    _, runs, rounds = regret.shape
    mean = regret.mean(axis=1)
    spread = regret.std(axis=1, ddof=1) if runs > 1 else np.zeros_like(mean)
    shown = np.unique(np.linspace(0, rounds - 1, min(rounds, 600)).astype(int))
    order = np.argsort(-mean[:, -1], kind="stable")
    for index in order:
        colour = COLOURS[index % len(COLOURS)]
        style = STYLES[(index + 3 * (index // len(COLOURS))) % len(STYLES)]
        line, band = mean[index, shown], spread[index, shown]
        axes.plot(
            shown + 1,
            line,
            color=colour,
            linestyle=style,
            linewidth=1.8,
            label=f"{labels[index]}  ({mean[index, -1]:.0f})",
        )
        if runs > 1:
            low = np.maximum(line - band, 0.0)
            axes.fill_between(shown + 1, low, line + band, color=colour, alpha=0.13, linewidth=0)
    axes.set_xlabel("round")
    note = f"mean of {runs} runs, band: one standard deviation" if runs > 1 else "one run"
    axes.set_ylabel("cumulative regret")
    axes.text(
        0.0, -0.17, note, transform=axes.transAxes, fontsize=8, color="#555555", va="top", ha="left"
    )
    axes.set_xlim(1, rounds)
    if logarithmic:
        axes.set_yscale("symlog", linthresh=1.0)
    axes.set_ylim(bottom=0.0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)


def save(figure: Figure, path: str | Path) -> Path:
    """Write a figure; the folder is made if needed."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target)
    return target
