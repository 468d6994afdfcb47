"""The theory's penalties compared with the default, for docs/decide/policies.md.

RoLF-Lasso with the penalties of the paper's consistency theorem and with the default, p, on the
five problems of the paper: mean cumulative regret of 50 runs after 1200 rounds.

    .venv/bin/python docs/scripts/theory_penalty.py    # --quick: two short runs
"""

from __future__ import annotations

import rolf
from quick import read_mode

POLICIES = {
    "theory": ("rolf-lasso", {"penalty": "theory"}),
    "p": "rolf-lasso",
}


def main() -> None:
    rounds, runs = (100, 2) if read_mode(__doc__).quick else (1200, 50)
    for scenario, case in ((1, 1), (1, 2), (1, 3), (2, 1), (2, 2)):
        family = rolf.environments.paper(scenario, case)
        result = rolf.simulate(POLICIES, family, rounds=rounds, runs=runs, seed=case)
        line = ", ".join(f'penalty "{row.policy}": {row.mean:.0f}' for row in result.summary())
        print(f"scenario {scenario}, case {case}: {line}")


if __name__ == "__main__":
    main()
