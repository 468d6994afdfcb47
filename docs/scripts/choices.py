"""The effect on regret of choices the paper leaves open, for the pages on policies and results.

RoLF-Ridge and RoLF-Lasso with one choice changed at a time, on scenario 1, case 1 of the paper: the
change in cumulative regret after 1200 rounds, as the mean of 400 runs with its standard error. A
policy's stream follows from its label, so one label for all of them pairs the runs: same problems,
same noise, same draws as long as the decisions agree. Unpaired, the randomness of runs that go
astray would exceed most of these differences.

    .venv/bin/python docs/scripts/choices.py            # --quick: four short runs
"""

from __future__ import annotations

from typing import Any

import numpy as np

import rolf
from quick import read_mode
from rolf.types import FloatArray

ROUNDS, RUNS = 1200, 400
CHOICES = {
    'unmatched="impute"': {"unmatched": "impute"},
    'cap="appendix"': {"cap": "appendix"},
    'imputation="frozen"': {"imputation": "frozen"},
    'imputation="previous"': {"imputation": "previous"},
}
BASES = {'basis="qr"': {"basis": "qr"}}


def regret(name: str, rounds: int, runs: int, **options: Any) -> FloatArray:
    """Final regret of each run."""
    family = rolf.environments.paper(1, 1)
    result = rolf.simulate({"same": (name, options)}, family, rounds=rounds, runs=runs, seed=11)
    return np.asarray(result.regret[0, :, -1])


def main() -> None:
    rounds, runs = (100, 4) if read_mode(__doc__).quick else (ROUNDS, RUNS)
    for name in ("rolf-ridge", "rolf-lasso"):
        for coupling in ("action", "greedy"):
            default = regret(name, rounds, runs, coupling=coupling)
            print(f"{name}, coupling {coupling}: {default.mean():.1f}")
            choices = CHOICES | (BASES if name == "rolf-lasso" else {})
            for label, options in choices.items():
                change = regret(name, rounds, runs, coupling=coupling, **options) - default
                error = change.std(ddof=1) / runs**0.5
                print(f"  {label:20} {change.mean():+.1f} ± {error:.1f}")
    for case in (1, 2, 3):
        for bound in ("rewards", "theta"):
            family = rolf.environments.paper(1, case, bound=bound)
            plan = {name: name for name in ("rolf-ridge", "rolf-lasso")}
            rows = rolf.simulate(plan, family, rounds=rounds, runs=runs // 2, seed=case).summary()
            print(f'case {case}, bound="{bound}":', [f"{r.policy} {r.mean:.0f}" for r in rows])


if __name__ == "__main__":
    main()
