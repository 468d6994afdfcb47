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

# Okabe and Ito's colours, which colour-blind people can tell apart; line styles carry
# the same information for print in grey.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#7F7F7F"]
#: a policy has the same colour in all pictures; some colours are Tol's
POLICIES = {
    "rolfbayes": "#D55E00",
    "rolflasso": "#0072B2",
    "rolfridge": "#882255",
    "ucb": "#000000",
    "linucb": "#009E73",
    "lints": "#CC79A7",
    "drlasso": "#8B5A2B",
    "oful": "#E69F00",
    "rolfvarying": "#332288",
    "betats": "#44AA99",
    "klucb": "#56B4E9",
    "ucb1": "#999933",
}
ALIASES = {
    "rolfbayesvarying": "rolfbayes",
    "rolfv": "rolfvarying",
    "linucbvarying": "linucb",
    "ucbdelta": "ucb",
}
#: how far variations of a policy are mixed with black (below 0) or white (above), in turn
SHADES = (0.0, -0.5, 0.45, -0.75, 0.65)
#: the same for the first and last of many variations, which go from dark to light
DARKEST, LIGHTEST = -0.7, 0.7
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
    """An empty figure of this size in inches, without Matplotlib's global state."""
    require("matplotlib", "drawing a picture")
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), dpi=150, layout="constrained")


def line_styles(labels: Sequence[str], policies: Sequence[str] = ()) -> list[tuple[str, Any]]:
    """Colour and line style of each label.

    A policy of the catalogue, recognised by its name in ``policies`` or by its label up to the
    first comma, always has the same colour. Labels of the same policy, or equal up to the comma,
    get shades of it.
    """
    keys = [
        _known(policy) or _known(label) or label.split(",")[0]
        for label, policy in zip(labels, policies or labels, strict=True)
    ]
    known = list(POLICIES)
    strangers = list(dict.fromkeys(key for key in keys if key not in POLICIES))
    free = [colour for key, colour in POLICIES.items() if key not in keys] or COLOURS
    out = []
    for position, key in enumerate(keys):
        variation, variations = keys[:position].count(key), keys.count(key)
        if key in POLICIES:
            colour, style = POLICIES[key], known.index(key)
        else:
            index = strangers.index(key)
            colour, style = free[index % len(free)], index
        dashes = STYLES[(style + variation) % len(STYLES)]
        out.append((_shade(colour, variation, variations), dashes))
    return out


def _known(name: str) -> str:
    """The policy of the catalogue with this name or label; empty if there is none."""
    words = "".join(letter for letter in name.split(",")[0].lower() if letter.isalnum())
    key = ALIASES.get(words, words)
    return key if key in POLICIES else ""


def _shade(colour: str, variation: int, variations: int) -> str:
    """The colour of one of a policy's variations."""
    from matplotlib.colors import to_hex, to_rgb

    channels = to_rgb(colour)
    dark = sum(channels) < 0.6  # can only get lighter
    if variations <= len(SHADES):
        amount = abs(SHADES[variation]) if dark else SHADES[variation]
    else:
        start = 0.0 if dark else DARKEST
        amount = start + (LIGHTEST - start) * variation / (variations - 1)
    end = 0.0 if amount < 0.0 else 1.0
    red, green, blue = (channel + abs(amount) * (end - channel) for channel in channels)
    return to_hex((red, green, blue))


def literal(text: str) -> str:
    """Text with its dollar signs escaped, so that they start no formula."""
    return text.replace("$", r"\$")


def add_grid(axes: Axes) -> None:
    """Two spines and a light grid behind the data."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color=LIGHT_GREY, linewidth=0.6)
    axes.set_axisbelow(True)


def name_rows(axes: Axes, heights: Sequence[float], names: Sequence[str]) -> None:
    """Names of a panel's rows, on its left, instead of an axis."""
    axes.set_yticks(heights, [literal(name) for name in names])
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)


def margin_note(axes: Axes, text: str, height: float | None = None) -> None:
    """Small text to the right of a panel, next to the row at this height or above all rows."""
    above = height is None
    axes.annotate(
        text,
        (1.0, 1.0 if height is None else height),
        (6, 4 if above else 0),
        xycoords=("axes fraction", "axes fraction" if above else "data"),
        textcoords="offset points",
        va="baseline" if above else "center",
        fontsize=8,
        color=GREY,
    )


def finish(figure: Figure, path: str | Path | None) -> Figure:
    """The figure; written to ``path`` if given."""
    if path is not None:
        save(figure, path)
    return figure


def figure_of(axes: Axes) -> Figure:
    """The figure that a panel belongs to."""
    figure: Any = axes.figure
    while hasattr(figure, "figure") and figure.figure is not figure:
        figure = figure.figure
    whole: Figure = figure
    return whole


def check_picture(argument: str, path: Path) -> None:
    """Raise unless a file's name is that of a picture."""
    if path.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise InvalidArgument(argument, str(path), "a file that ends in .png, .svg or .pdf")


def save(figure: Figure, path: str | Path) -> Path:
    """Write a figure; its folder is created if need be."""
    target = Path(path)
    check_picture("path", target)
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target)
    return target
