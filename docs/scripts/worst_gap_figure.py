"""The regret of the worst gap against the number of rounds: docs/images/worst-gap.png.

Two arms, noise 1. For each number of rounds, the mean regret over the runs at the worst of several
gaps, in units of T^(-1/2) for policies whose worst gap has that order, and for RoLF in units of the
gap that exploration cannot detect. RoLF is played in blocks (``rolf/paper/blocks.py``) with 2K
forced rounds, the others round by round as far as feasible.

    python docs/scripts/worst_gap_figure.py     # some minutes; prints the numbers
    python docs/scripts/worst_gap_figure.py --quick
"""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np

import rolf
from quick import read_mode
from rolf import theory
from rolf.augment import Augmentation
from rolf.paper.blocks import Settings, play_blocks
from rolf.plots.style import GREY, line_styles

PICTURE = "worst-gap.png"
FEATURES = np.array([[1.0], [0.0]])
BLOCKS = {"RoLF-Ridge": 1 / 2, "RoLF-Ridge, leaving with probability $t^{-1/3}$": 1 / 3}


class AugmentedOFUL(rolf.OFUL):
    """OFUL on the augmented features, with the radius from theory."""

    name = ""

    def __init__(self, features: Any, **options: Any) -> None:
        super().__init__(Augmentation(features).matrix, **options)


ROUND_BY_ROUND: dict[str, tuple[Any, int]] = {
    "UCB1": (("ucb1", {"scale": 1.0}), 10**5),
    "LinUCB on augmented features": (
        (AugmentedOFUL, {"radius": "theory", "noise": 1.0, "delta": 0.01, "bound": 1.0}),
        10**5,
    ),
    "RoLF-Bayes": ("rolf-bayes", 10**5),
}


def block_curve(leave: float, powers: range, runs: int) -> dict[int, float]:
    settings = Settings(0.6, 1e-4, 1.0, lambda t: np.minimum(t, 4.0), leave)
    out = {}
    for power in powers:
        horizon = 10**power
        unseen = horizon ** (-(1.0 - leave) / 2.0)
        out[horizon] = max(
            play_blocks(
                (gap * unseen, 0.0), [horizon], settings, runs=runs, seed=power, share=0.02
            ).regret.mean()
            for gap in (0.25, 0.5, 1.0, 2.0)
        )
    return out


def plain_curve(policy: Any, most: int, plays: int) -> dict[int, float]:
    out = {}
    horizon = 1000
    while horizon <= most:
        runs = max(2, min(200, plays // horizon))
        out[horizon] = max(
            rolf.simulate(
                {"policy": policy},
                rolf.environments.Problem(FEATURES, [gap * horizon**-0.5, 0.0], 1.0),
                rounds=horizon,
                runs=runs,
                seed=0,
                jobs=1,
            )
            .regret[0, :, -1]
            .mean()
            for gap in (2.0, 4.0, 8.0, 16.0)
        )
        horizon *= 10
    return out


def main() -> None:
    mode = read_mode(__doc__)
    powers, runs = (range(3, 5), 20) if mode.quick else (range(3, 13), 1000)
    curves = {label: block_curve(leave, powers, runs) for label, leave in BLOCKS.items()}
    for label, (policy, most) in ROUND_BY_ROUND.items():
        few = (10**4, 2 * 10**4) if mode.quick else (most, 3 * 10**6)
        curves[label] = plain_curve(policy, *few)
    figure, axes = plt.subplots(figsize=(7.2, 4.6), layout="constrained")
    for (label, curve), (colour, style) in zip(curves.items(), line_styles([*curves]), strict=True):
        rounds, regret = np.array(list(curve)), np.array(list(curve.values()))
        slope = np.polyfit(np.log(rounds[-4:]), np.log(regret[-4:]), 1)[0]
        print(label, {f"{t:.0e}": round(float(value), 1) for t, value in curve.items()})
        print(f"    grows as T^{slope:.3f}")
        name = f"{label}: grows as $T^{{{slope:.2f}}}$"
        axes.loglog(rounds, regret, "o", ms=3.5, ls=style, lw=1.8, color=colour, label=name)
    rounds = np.array([1e3, 1e12])
    for power, words in ((theory.exploration_exponent(0.5), "$T^{3/4}$"), (0.5, "$T^{1/2}$")):
        line = 8.0 * (rounds / 1e3) ** power
        axes.loglog(rounds, line, ":", color=GREY, lw=1.0)
        axes.annotate(
            words,
            (rounds[-1], line[-1]),
            xytext=(4, 0),
            textcoords="offset points",
            color=GREY,
            va="center",
        )
    axes.legend(frameon=False, fontsize=9)
    axes.set(xlabel="rounds T", ylabel="regret at the worst gap", xlim=(700, 1e13))
    axes.set_xticks(10.0 ** np.arange(3, 13, 3))
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(mode.images / PICTURE, dpi=150)
    print(f"written: {mode.images / PICTURE}")


if __name__ == "__main__":
    main()
