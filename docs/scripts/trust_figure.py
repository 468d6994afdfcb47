"""Draw the picture of docs/decide/policies/rolf-bayes.md: its belief about the features.

python docs/scripts/trust_figure.py    # --quick: two short runs
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

import rolf
from quick import read_mode

PICTURE = "trust.png"
MARKS = [5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 250, 350, 500]
CASES = {1.0: "features explain everything", 0.5: "half", 0.0: "nothing"}
COLORS = ("#2a6f97", "#e07a1f", "#7a7a7a")
RUNS = 40


def believed(share: float, marks: list[int], runs: int) -> np.ndarray:
    """(runs, marks): the share it believes the features explain."""
    out = np.empty((runs, len(marks)))
    for run in range(runs):
        family = rolf.environments.synthetic(arms=30, observed=5, share=share, noise=0.2)
        problem = family.draw(seed=run)
        policy = rolf.RoLFBayes(problem.features, seed=run)
        rng = np.random.default_rng(run)
        for round in range(1, marks[-1] + 1):
            decision = policy.ask()
            policy.tell(decision, problem.reward(decision.arm, rng))
            if round in marks:
                out[run, marks.index(round)] = policy.scales()["explained"]
    return out


def main() -> None:
    mode = read_mode(__doc__)
    marks, runs = (MARKS[:5], 2) if mode.quick else (MARKS, RUNS)
    figure, axes = plt.subplots(figsize=(7.5, 4.0), layout="constrained")
    for (share, name), color in zip(CASES.items(), COLORS, strict=True):
        beliefs = believed(share, marks, runs)
        low, high = np.quantile(beliefs, [0.1, 0.9], axis=0)
        axes.fill_between(marks, low, high, color=color, alpha=0.15, linewidth=0)
        axes.plot(marks, beliefs.mean(axis=0), color=color, linewidth=2.0)
        axes.annotate(
            name,
            (marks[-1], beliefs[:, -1].mean()),
            (6, 0),
            textcoords="offset points",
            va="center",
            color=color,
        )
    axes.set(xscale="log", ylim=(0, 1), xlabel="rounds", ylabel="share believed to be explained")
    axes.set_xticks([5, 10, 20, 50, 100, 200, 500], ["5", "10", "20", "50", "100", "200", "500"])
    axes.minorticks_off()
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlim(marks[0], marks[-1])
    figure.savefig(mode.images / PICTURE, dpi=150)


if __name__ == "__main__":
    main()
