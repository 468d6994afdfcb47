"""What the choices that the paper leaves do to regret, for docs/policies.md.

RoLF-Ridge and RoLF-Lasso with each choice changed alone, around the action and around the greedy
arm, on scenario 1, case 1 of the paper: mean cumulative regret of 200 runs after 1200 rounds and
its standard error. (`rolf reproduce --figure imputation` compares the imputations in all cases.)

    .venv/bin/python docs/scripts/choices.py
"""

from __future__ import annotations

import rolf

CHOICES = {
    "defaults": {},
    'cap="appendix"': {"cap": "appendix"},
    'unmatched="impute"': {"unmatched": "impute"},
    'imputation="frozen"': {"imputation": "frozen"},
    "frozen and impute": {"imputation": "frozen", "unmatched": "impute"},
}
POLICIES = {
    f"{name}, {coupling}, {label}": (name, {"coupling": coupling, **options})
    for coupling in ("action", "greedy")
    for name in ("rolf-ridge", "rolf-lasso")
    for label, options in CHOICES.items()
}


def main() -> None:
    family = rolf.environments.paper(1, 1)
    for row in rolf.simulate(POLICIES, family, rounds=1200, runs=200, seed=1).summary():
        print(f"{row.policy:42} {row.mean:.0f} ± {row.stderr:.1f}")
    for case in (1, 2, 3):
        for bound in ("rewards", "theta"):
            family = rolf.environments.paper(1, case, bound=bound)
            plan = {name: name for name in ("rolf-ridge", "rolf-lasso")}
            rows = rolf.simulate(plan, family, rounds=1200, runs=200, seed=case).summary()
            print(f'case {case}, bound="{bound}":', [f"{r.policy} {r.mean:.0f}" for r in rows])


if __name__ == "__main__":
    main()
