"""What all pictures share: colours, line styles, empty figures, files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rolf.errors import InvalidArgument
from rolf.extras import require

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
GREY = "#555555"  # of notes and reference lines
LIGHT_GREY = "#dddddd"  # of grids and bands


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, its size in inches, drawn without matplotlib's global state."""
    require("matplotlib", "drawing a picture")
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), dpi=150, layout="constrained")


def line_styles(labels: Sequence[str]) -> list[tuple[str, Any]]:
    """Colour and line style of each policy.

    Labels that differ only after a comma are variations of one policy: they share its
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


def literal(text: str) -> str:
    """Text as it is, with dollar signs that do not start a formula."""
    return text.replace("$", r"\$")


def add_grid(axes: Axes) -> None:
    """Two spines and a light grid behind the data."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color=LIGHT_GREY, linewidth=0.6)
    axes.set_axisbelow(True)


def save(figure: Figure, path: str | Path) -> Path:
    """Write a figure; its folder is created if need be."""
    target = Path(path)
    if target.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise InvalidArgument("path", str(path), "a file that ends in .png, .svg or .pdf")
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target)
    return target
