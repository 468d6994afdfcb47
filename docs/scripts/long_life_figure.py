"""Draw the picture of docs/decide/policies/rolf-bayes.md: regret over a million rounds.

python docs/scripts/long_life_figure.py    # some minutes; --quick: seconds
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

import rolf
from quick import read_mode
from rolf.plots.style import line_styles

PICTURE = "long-life.png"
ROUNDS, RUNS, NOISE = 1_000_000, 10, 0.5
UNIT = 4.3  # sqrt(2 log 10^4): UCB's width in units of its scale
POLICIES = {
    "LinUCB": ("linucb", {"width": NOISE, "ridge": 1.0}),
    "UCB(delta)": ("ucb", {"scale": 2.5 * NOISE / UNIT}),
    "RoLF-Bayes": ("rolf-bayes", {}),
}


def main() -> None:
    mode = read_mode(__doc__)
    horizon, runs = (1_000, 2) if mode.quick else (ROUNDS, RUNS)
    family = rolf.environments.synthetic(arms=20, observed=5, share=0.5, noise=NOISE)
    marks = np.unique(np.geomspace(10, horizon, 200).astype(int))
    figure, axes = plt.subplots(figsize=(7.5, 4.4), layout="constrained")
    for (name, entry), (color, _) in zip(POLICIES.items(), line_styles([*POLICIES]), strict=True):
        result = rolf.simulate({name: entry}, family, rounds=horizon, runs=runs, seed=4)
        regret = result.regret[0][:, marks - 1]
        mean, worst = regret.mean(axis=0), regret.max(axis=0)
        axes.plot(marks, mean, color=color, linewidth=2.0, label=name)
        axes.plot(marks, worst, color=color, linewidth=1.0, linestyle=(0, (2, 2)))
        print(f"{name}: mean {mean[-1]:.0f}, worst {worst[-1]:.0f}")
    axes.set(xscale="log", yscale="log", xlabel="rounds", ylabel="regret: mean, dotted: worst run")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlim(marks[0], horizon)
    figure.savefig(mode.images / PICTURE, dpi=150)


if __name__ == "__main__":
    main()
