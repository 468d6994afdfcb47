"""Draw the picture at the top of the README from the simulation behind its table.

rolf simulate examples/paper.toml --out out
python docs/scripts/hero_figure.py out/paper.parquet
python docs/scripts/hero_figure.py --quick    # simulates two short runs instead
"""

from __future__ import annotations

from pathlib import Path

import rolf
from quick import mode_of, parser
from rolf.plots.regret import mark_ends, note_on_runs, regret_panel
from rolf.plots.style import GREY, new_figure, save
from rolf.simulation.config import read_plan

EXAMPLE = Path(__file__).parents[2] / "examples" / "paper.toml"
PICTURE = "paper.png"
#: labels in the simulation, and in the picture
SHOWN = {
    "RoLF-Bayes": "RoLF-Bayes",
    "RoLF-Lasso": "RoLF-Lasso",
    "UCB(delta)": "UCB",
    "UCB(delta), tuned": "UCB, told the noise",
    "LinUCB": "LinUCB",
    "LinTS": "LinTS",
}


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("result", nargs="?", help="a file written by rolf simulate")
    args = arguments.parse_args()
    mode = mode_of(args)
    if mode.quick:
        plan = read_plan(EXAMPLE)
        played = rolf.simulate(plan.policies, plan.problem, rounds=200, runs=2, seed=0)
    elif args.result is None:
        arguments.error("name the Parquet file written by rolf simulate")
    else:
        played = rolf.load_result(args.result)
    curves = played.curves()
    rows = [played.labels.index(label) for label in SHOWN]
    few = curves._replace(
        labels=list(SHOWN.values()),
        policies=[curves.policies[row] for row in rows],
        **{name: getattr(curves, name)[rows] for name in ("mean", "std", "low", "high")},
    )
    figure = new_figure(6.4, 4.0)
    axes = figure.add_subplot()
    regret_panel(axes, few, logarithmic=True)
    axes.set_ylim(3.0, 1500.0)
    axes.set_ylabel("cumulative regret (logarithmic)")
    figure.suptitle(
        "30 arms, half of the features observed:\nRoLF-Bayes is told nothing and loses the least",
        x=0.01,
        ha="left",
        fontsize=12,
    )
    figure.supxlabel(note_on_runs(few.runs), x=0.01, ha="left", fontsize=8, color=GREY)
    figure.draw_without_rendering()
    mark_ends(axes, few, named=True)
    save(figure, mode.images / PICTURE)
    print(f"written: {mode.images / PICTURE}")


if __name__ == "__main__":
    main()
