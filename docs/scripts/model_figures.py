"""Draw the pictures of docs/start/model.md: augmentation with three arms.

Three advertisements: one has a picture, one a discount, one both. The two features encode this, so
a linear model must believe that "both" is worth the sum of the others. Here it is the worst, for an
unmeasured reason. All numbers in the pictures are computed, and those on the page are printed.

    .venv/bin/python docs/scripts/model_figures.py    # --quick: a few runs
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Polygon

import rolf
from quick import read_mode
from rolf.plots.style import COLOURS, GREY, POLICIES

ARMS = ["picture", "both", "discount"]
PROBLEM = rolf.environments.Problem([[1, 0], [1, 1], [0, 1]], means=[0.9, 0.3, 0.6], noise=0.1)
TRUTH, LINEAR, AUGMENTED = COLOURS[6], POLICIES["linucb"], POLICIES["rolfridge"]
ROUNDS, RUNS, TOLD = 1000, 200, 100


# --- three arms in space -----------------------------------------------------------------------


class Camera:
    """Projects vectors of R^3, with the row space of the features as the floor."""

    def __init__(self, augmented: rolf.Augmentation, turn: float, height: float) -> None:
        first = augmented.observed[:, 0] / np.linalg.norm(augmented.observed[:, 0])
        up = augmented.basis()[:, 0]
        self.turn, self.height = np.radians(turn), np.radians(height)
        self.frame = np.array([first, np.cross(up, first), up])

    def __call__(self, vector: np.ndarray) -> np.ndarray:
        along, across, up = self.frame @ np.asarray(vector, dtype=float)
        right = along * np.cos(self.turn) - across * np.sin(self.turn)
        depth = along * np.sin(self.turn) + across * np.cos(self.turn)
        return np.array([right, up * np.cos(self.height) + depth * np.sin(self.height)])

    def floor(self, right: float, depth: float) -> np.ndarray:
        """The point on the floor this far to the right and this far back."""
        along = right * np.cos(self.turn) + depth * np.sin(self.turn)
        across = -right * np.sin(self.turn) + depth * np.cos(self.turn)
        return along * self.frame[0] + across * self.frame[1]


def triple(vector: np.ndarray, form: str = ".1f") -> str:
    written = ", ".join(f"{value:{form}}" for value in vector)
    return f"({written})".replace("-", "\N{MINUS SIGN}")


def arrow(axes: Axes, start: np.ndarray, end: np.ndarray, colour: str, **more: object) -> None:
    look = {"arrowstyle": "-|>", "mutation_scale": 15, "linewidth": 2.2, "zorder": 5, **more}
    axes.add_patch(FancyArrowPatch(start, end, color=colour, shrinkA=0, shrinkB=0, **look))


def words(axes: Axes, place: np.ndarray, text: str, shift: tuple[float, float], **more) -> None:
    look = {"fontsize": 10.5, "ha": "left", "va": "center", "linespacing": 1.3, "zorder": 8}
    axes.annotate(text, place, shift, textcoords="offset points", **{**look, **more})


def floor(axes: Axes, see: Camera, columns: np.ndarray) -> None:
    """The row space as a disk, divided by the arm that looks best."""
    centre, radius = np.array([0.66, 0.02]), 1.32
    turns = np.linspace(0.0, 2.0 * np.pi, 721)
    edge = centre + radius * np.column_stack([np.cos(turns), np.sin(turns)])
    rewards = np.array([see.floor(*point) for point in edge])
    rim = np.array([see(point) for point in rewards])
    axes.add_patch(Polygon(rim, facecolor="#edf0f3", edgecolor="#b9c2cb", linewidth=1.0))
    both = rewards.argmax(axis=1) == ARMS.index("both")
    sector = rim[both][np.argsort(rim[both][:, 1])]
    axes.add_patch(Polygon([(0.0, 0.0), *sector], facecolor=LINEAR, alpha=0.15, linewidth=0))
    for border in (columns[:, 0], columns[:, 1], -columns.sum(axis=1)):  # two arms look alike
        far = rim[np.argmax(rewards @ border / np.linalg.norm(rewards, axis=1))]
        axes.plot([0.0, far[0]], [0.0, far[1]], color="#9aa5b0", linewidth=1.0)
    look = {"fontsize": 9, "color": GREY, "ha": "center", "style": "italic"}
    words(axes, see(see.floor(1.44, 0.80)), "“both” looks best", (0, 0), **look)
    words(axes, see(see.floor(0.46, -0.72)), "“picture” looks best", (0, 0), **look)
    words(axes, see(see.floor(-0.22, 0.40)), "“discount”\nlooks best", (0, 0), **look)


def square(axes: Axes, see: Camera, foot: np.ndarray, up: np.ndarray) -> None:
    """The mark of a right angle."""
    size = 0.06
    aside = see.floor(-1.0, 0.0)
    path = [foot + size * up, foot + size * (up + aside), foot + size * aside]
    axes.plot(*zip(*map(see, path), strict=True), color=GREY, linewidth=1.0, zorder=4)


def space_figure(*, stacked: bool = False) -> Figure:
    augmented = rolf.Augmentation(PROBLEM.features)
    observed, latent = augmented.coefficients(PROBLEM.means)
    shadow = augmented.observed @ observed
    up = augmented.basis()[:, 0]
    lift = up * latent[0]
    assert np.allclose(shadow + lift, PROBLEM.means)
    see = Camera(augmented, turn=-18.5, height=19.5)
    origin = np.zeros(3)
    figure = Figure(figsize=(4.9, 7.5) if stacked else (9.8, 3.75), dpi=180)
    left, right = figure.subplots(2, 1) if stacked else figure.subplots(1, 2)
    edges = {"left": 0.005, "right": 0.995, "bottom": 0.0, "wspace": 0.02, "hspace": 0.08}
    figure.subplots_adjust(top=0.965 if stacked else 0.93, **edges)
    for axes in (left, right):
        floor(axes, see, augmented.observed)
        arrow(axes, see(origin), see(shadow), LINEAR)
        square(axes, see, shadow, up)
        arrow(axes, see(origin), see(PROBLEM.means), TRUTH)
        axes.plot(*see(origin), "o", color=TRUTH, markersize=5, zorder=7)
        axes.set_aspect("equal")
        axes.set_xlim(-0.70, 2.02)
        axes.set_ylim(-0.82, 1.02)
        axes.axis("off")
        plane = "The floor is $R(X)$: all beliefs (picture, both, discount)\n"
        plane += "that coefficients of the two features can express."
        words(axes, np.array([0.66, -0.68]), plane, (0, 0), fontsize=9.5, color=GREY, ha="center")
    best = ARMS[PROBLEM.best]
    wrong = ARMS[int(shadow.argmax())]

    told = f"the truth\n$r$ = {triple(PROBLEM.means)}\nbest arm: {best}"
    words(left, see(PROBLEM.means), told, (10, 17), color=TRUTH)
    gap = [see(shadow), see(PROBLEM.means)]
    left.plot(*zip(*gap, strict=True), color=GREY, linewidth=1.5, linestyle=(0, (4, 3)), zorder=4)
    words(left, see(shadow + 0.82 * lift), "out of reach", (8, 0), color=GREY, fontsize=9.5)
    told = f"closest belief\n$X^\\top\\mu_o$ = {triple(shadow)}\nbest arm: {wrong}. Wrong!"
    words(left, see(shadow), told, (10, 5), color=LINEAR)

    told = f"reached exactly\n$r = X^\\top\\mu_o + b\\,\\mu_u$\nbest arm: {best}. Right."
    words(right, see(PROBLEM.means), told, (10, 17), color=TRUTH)
    arrow(right, see(shadow), see(PROBLEM.means), AUGMENTED, linewidth=2.8, zorder=6)
    told = f"$b\\,\\mu_u$ = {triple(lift, '+.1f')}"
    words(right, see(shadow + 0.82 * lift), told, (9, 0), color=AUGMENTED)
    words(right, see(shadow), f"$X^\\top\\mu_o$ = {triple(shadow)}", (10, 0), color=LINEAR)

    title = {"loc": "left", "fontsize": 12, "fontweight": "bold"}
    left.set_title("A linear bandit stays on the floor", **title)
    right.set_title("Augmentation adds the direction that leads off it", **title)
    return figure


# --- the same as bars --------------------------------------------------------------------------


def beliefs() -> dict[str, np.ndarray]:
    """The beliefs of both models after the same rewards, equally many per arm."""
    rng = np.random.default_rng(0)
    arms = np.repeat(np.arange(3), TOLD)
    rewards = [PROBLEM.reward(int(arm), rng) for arm in arms]
    out = {"true mean rewards": PROBLEM.means}
    for label, kind in {
        "a linear model believes (LinUCB)": rolf.LinUCB,
        "the augmented model believes (RoLF-Ridge)": rolf.RoLFRidge,
    }.items():
        policy = kind(PROBLEM.features, seed=0)
        policy.learn(arms, rewards)
        out[label] = np.asarray(policy.estimates())
    return out


def bars_figure(values: dict[str, np.ndarray]) -> Figure:
    figure = Figure(figsize=(6.6, 4.4), dpi=180, layout="constrained")
    axes = figure.add_subplot()
    width = 0.26
    hatches = [None, "///", None]
    for index, (label, heights) in enumerate(values.items()):
        colour = [TRUTH, LINEAR, AUGMENTED][index]
        places = np.arange(3) + (index - 1) * (width + 0.02)
        axes.bar(
            places,
            heights,
            width,
            label=label,
            color="#ffffff" if hatches[index] else colour,
            edgecolor=colour,
            hatch=hatches[index],
            linewidth=1.4,
        )
        for arm, (place, height) in enumerate(zip(places, heights, strict=True)):
            best = arm == int(np.argmax(heights))
            text = f"{height:.2f}" + ("\nbest" if best else "")
            look = {"fontweight": "bold" if best else "normal", "color": colour}
            place_above = {"xytext": (0, 5), "textcoords": "offset points", "ha": "center"}
            behind = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}  # no grid behind it
            axes.annotate(text, (place, height), va="bottom", bbox=behind, **place_above, **look)
    names = ["picture\nx = (1, 0)", "both\nx = (1, 1)", "discount\nx = (0, 1)"]
    axes.set_xticks(range(3), names, fontsize=11)
    axes.tick_params(length=0)
    axes.set_ylabel("mean reward")
    axes.set_ylim(0, 1.1)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    figure.legend(loc="outside upper left", ncols=1, frameon=False, fontsize=10)
    return figure


# --- and over time -------------------------------------------------------------------------------


def play(runs: int) -> rolf.Result:
    told = {"setting": "tuned"}
    return rolf.simulate(
        {
            "OFUL": "oful",
            "LinUCB, told the noise": ("linucb", told),
            "RoLF-Ridge": "rolf-ridge",
            "UCB, told the noise": ("ucb", told),
        },
        PROBLEM,
        rounds=ROUNDS,
        runs=runs,
        seed=0,
    )


def locked(result: rolf.Result) -> np.ndarray:
    """Share of runs that mostly played a wrong arm in the last hundred rounds."""
    lost = result.regret[:, :, -1] - result.regret[:, :, -101]
    return (lost > 50 * 0.3).mean(axis=1)


def runs_figure(result: rolf.Result, *, stacked: bool = False) -> Figure:
    figure = Figure(figsize=(4.9, 5.4) if stacked else (9.8, 3.1), dpi=180, layout="constrained")
    grid = figure.subplots(2, 2, sharey=True) if stacked else figure.subplots(1, 4, sharey=True)
    panels = grid.ravel()
    colours = [colour for colour, _ in result.curves().styles]
    shares = locked(result)
    for axes, label, colour, share in zip(panels, result.labels, colours, shares, strict=True):
        lines = result[label]
        rounds = np.arange(1, lines.shape[1] + 1)
        axes.plot(rounds[::10], lines[:, ::10].T, color=colour, alpha=0.16, linewidth=0.9)
        axes.plot(rounds, lines.mean(axis=0), color=TRUTH, linewidth=2.0)
        axes.annotate(
            f"mean {lines[:, -1].mean():.0f}",
            (rounds[-1], lines[:, -1].mean()),
            (-4, 5),
            textcoords="offset points",
            ha="right",
            fontsize=10,
        )
        axes.set_title(label, loc="left", fontsize=10.5, fontweight="bold")
        axes.text(
            0.03,
            0.95,
            f"{share:.0%} of runs end\non a wrong arm",
            transform=axes.transAxes,
            va="top",
            fontsize=10,
            color=GREY,
        )
        axes.set_xlabel("round")
        axes.set_xlim(0, ROUNDS)
        axes.set_xticks([0, ROUNDS // 2, ROUNDS])
        axes.set_ylim(0, 330)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(color="#dddddd", linewidth=0.6)
    for axes in panels[:: 2 if stacked else 4]:
        axes.set_ylabel("cumulative regret")
    return figure


def save(figure: Figure, path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, metadata={"Software": None})
    print(f"written: {path}")


def main() -> None:
    mode = read_mode(__doc__)
    save(space_figure(), mode.images / "model-space.png")
    save(space_figure(stacked=True), mode.images / "model-space-narrow.png")
    values = beliefs()
    save(bars_figure(values), mode.images / "model-beliefs.png")
    result = play(3 if mode.quick else RUNS)
    save(runs_figure(result), mode.images / "model-runs.png")
    save(runs_figure(result, stacked=True), mode.images / "model-runs-narrow.png")
    for label, numbers in values.items():
        print(f"{label}: " + ", ".join(f"{v:.2f}" for v in numbers))
    shares = locked(result)
    for row, share in zip(result.summary(), shares, strict=True):
        print(f"{row.policy}: mean {row.mean:.1f}, worst run {row.max:.0f}, locked {share:.1%}")


if __name__ == "__main__":
    main()
