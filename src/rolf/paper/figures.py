"""What is reproduced: every figure, its panels, and the policies that play in them.

"paper" settings are those of the runs published by the paper's authors: RoLF with greedy coupling,
2K forced rounds and penalty p; baselines with the constants named in the documentation. "tuned"
baselines know the noise level. RoLF-Bayes, which is not in the paper, has no settings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rolf import environments, theory
from rolf.augment import Augmentation
from rolf.policies.rivals.lints import LinTS
from rolf.policies.rivals.linucb import LinUCB


@dataclass(frozen=True)
class Panel:
    """One simulation: a problem or family, and policies by label."""

    key: str
    title: str
    problem: Any
    policies: Mapping[str, Any]
    x: Any = None  # what varies, in a figure of final regret against a setting
    offset: int = 0  # added to the seed


@dataclass(frozen=True)
class Figure:
    """Panels that belong together.

    kind "regret" draws regret over rounds, each panel on its own; "sweep" draws final regret
    against ``x``, all panels in one picture.
    """

    key: str
    title: str
    caption: str
    panels: tuple[Panel, ...]
    kind: str = "regret"
    xlabel: str = ""
    setting: str = "both"
    runs: int = 5
    rounds: int = 1200
    logx: bool = False
    logy: bool = False
    bounds: Mapping[str, tuple[str, Callable[[int], float]]] = field(default_factory=dict)


GREEDY = {"coupling": "greedy"}

PAPER: dict[str, Any] = {
    "RoLF-Bayes": "rolf-bayes",
    "RoLF-Lasso": ("rolf-lasso", GREEDY),
    "RoLF-Ridge": ("rolf-ridge", GREEDY),
    "LinUCB": "linucb",
    "LinTS": "lints",
    "DRLasso": "drlasso",
    "UCB(delta)": "ucb",
}
#: as in the algorithm boxes: pseudo-actions around the action
BOXES: dict[str, Any] = {"RoLF-Lasso, action": "rolf-lasso", "RoLF-Ridge, action": "rolf-ridge"}
BASELINES = ("LinUCB", "LinTS", "DRLasso", "UCB(delta)")
TUNED: dict[str, Any] = {
    label: (spec if label not in BASELINES else (spec, {"setting": "tuned"}))
    for label, spec in PAPER.items()
}
TUNED_CAPTION = (
    "The same problems and the same RoLF; baselines in their tuned setting. The scale is "
    "logarithmic."
)


TOLD = {"setting": "tuned", "noise": 0.45}  # about that of a yes-or-no reward
CLICKS: dict[str, Any] = {
    "RoLF-Bayes": "rolf-bayes",
    "Beta-TS": "beta-ts",
    "KL-UCB": "kl-ucb",
    "UCB1": "ucb1",
    "LinUCB, tuned": ("linucb", TOLD),
    "LinTS, tuned": ("lints", TOLD),
}


class AugmentedLinUCB(LinUCB):
    """LinUCB on the augmented features: what augmentation does alone."""

    name = ""

    def __init__(self, features: Any, **options: Any) -> None:
        super().__init__(Augmentation(features).matrix, **options)


class AugmentedLinTS(LinTS):
    """LinTS on the augmented features."""

    name = ""

    def __init__(self, features: Any, **options: Any) -> None:
        super().__init__(Augmentation(features).matrix, **options)


def _paper_panels(
    policies: Mapping[str, Any], scenario: int, bound: str = "rewards"
) -> tuple[Panel, ...]:
    names = {
        (1, 1): "Case 1: general",
        (1, 2): "Case 2: latent within observed",
        (1, 3): "Case 3: observed within latent",
        (2, 1): "Case 1",
        (2, 2): "Case 2",
    }
    return tuple(
        Panel(
            key=f"scenario{scenario}-case{case}",
            title=names[scenario, case],
            problem=environments.paper(scenario, case, bound=bound),
            policies=policies,
            offset=case,
        )
        for case in ((1, 2, 3) if scenario == 1 else (1, 2))
    )


def _all_cases(policies: Mapping[str, Any]) -> tuple[Panel, ...]:
    return tuple(
        Panel(
            f"case{case}",
            f"Scenario 1, case {case}",
            environments.paper(1, case),
            policies,
            offset=case,
        )
        for case in (1, 2, 3)
    )


def _sweep(
    key: str,
    title: str,
    xlabel: str,
    caption: str,
    points: Mapping[Any, tuple[Any, Mapping[str, Any]]],
    *,
    logx: bool = False,
) -> Figure:
    panels = tuple(
        Panel(f"{index}", f"{xlabel} = {x}", problem, policies, x=x)
        for index, (x, (problem, policies)) in enumerate(points.items())
    )
    return Figure(key, title, caption, panels, "sweep", xlabel, runs=20, logx=logx)


def _couplings(**options: Any) -> dict[str, Any]:
    """RoLF with both couplings, and the same options."""
    return {
        "RoLF-Lasso, action": ("rolf-lasso", options),
        "RoLF-Ridge, action": ("rolf-ridge", options),
        "RoLF-Lasso, greedy": ("rolf-lasso", {**options, **GREEDY}),
        "RoLF-Ridge, greedy": ("rolf-ridge", {**options, **GREEDY}),
    }


def _tuned_rivals(noise: float = 0.1) -> dict[str, Any]:
    """RoLF with its defaults, and rivals that know the noise."""
    tuned = {"setting": "tuned", "noise": noise}
    return {
        "RoLF-Bayes": "rolf-bayes",
        **_couplings(),
        "LinUCB, tuned": ("linucb", tuned),
        "UCB(delta), tuned": ("ucb", tuned),
    }


def _learners(bayes: str, linucb: str) -> dict[str, Any]:
    """RoLF-V and its rivals, for features that are fixed or vary."""
    return {
        "RoLF-Bayes": bayes,
        "RoLF-V": "rolf-varying",
        "LinUCB": linucb,
        "LinUCB, tuned": (linucb, {"setting": "tuned"}),
        "UCB(delta)": "ucb",
        "UCB(delta), tuned": ("ucb", {"setting": "tuned"}),
    }


def figures() -> dict[str, Figure]:
    """Every figure, by key, in the order of the page."""
    base = environments.paper(1, 1)
    action = {"RoLF-Lasso": "rolf-lasso", "RoLF-Ridge": "rolf-ridge"}
    lower_bound_policies = {**PAPER, **action, "OFUL": "oful"}
    fixed = _learners("rolf-bayes", "linucb")
    varying = _learners("rolf-bayes-varying", "linucb-varying")
    all_figures = [
        Figure(
            "figure1",
            "Figure 1: half of the features observed (scenario 1)",
            "K=30, d_z=35, d=17, noise 0.1, settings of the authors' published runs, where RoLF "
            'couples around the greedy arm; "action": around the action, as in the paper\'s '
            "algorithm boxes. RoLF-Bayes is not in the paper.",
            _paper_panels({**PAPER, **BOXES}, 1),
            setting="paper",
        ),
        Figure(
            "figure1-theta",
            "Figure 1 with theta bounded: RoLF alone",
            "The authors' runs scale theta to an l1 norm of at most 1; figure 1 divides the "
            "rewards. Which of the two is taken decides how much the three cases differ.",
            _paper_panels(
                {label: PAPER[label] for label in ("RoLF-Lasso", "RoLF-Ridge")}, 1, bound="theta"
            ),
            setting="paper",
            runs=50,
        ),
        Figure(
            "figure2",
            "Figure 2: all features observed, more of them than arms (scenario 2)",
            "K=30, d=d_z=60. With nothing latent, both cases have the same distribution; "
            "only their seeds differ. Policies as in figure 1.",
            _paper_panels({**PAPER, **BOXES}, 2),
            setting="paper",
        ),
        Figure(
            "figure1-tuned",
            "Figure 1 with baselines that know the noise",
            TUNED_CAPTION,
            _paper_panels(TUNED, 1),
            setting="tuned",
            logy=True,
        ),
        Figure(
            "figure2-tuned",
            "Figure 2 with baselines that know the noise",
            TUNED_CAPTION,
            _paper_panels(TUNED, 2),
            setting="tuned",
            logy=True,
        ),
        Figure(
            "lower-bounds",
            "Where observed features mislead: the instances of the two lower bounds",
            "Two arms: the one coefficient that fits favours the worse arm. Three arms: best and "
            "worst look alike. Dashed: the theorems' lower bounds T/16 and T/6. RoLF with "
            "coupling around the action.",
            (
                Panel("two-arms", "Two arms", environments.two_arms(), lower_bound_policies),
                Panel("three-arms", "Three arms", environments.three_arms(), lower_bound_policies),
            ),
            runs=20,
            bounds={
                "two-arms": ("T/16", theory.oful_lower_bound),
                "three-arms": ("T/6", theory.observed_only_lower_bound),
            },
        ),
        Figure(
            "learnability",
            "What can be learned: features fixed or varying, latent part fixed or varying",
            "A policy that learns has a curve that flattens. RoLF-V takes the features of each "
            "round; if the latent part changes too, the regret of every policy is linear.",
            (
                Panel("fixed-fixed", "Observed fixed, latent fixed", base, fixed),
                Panel(
                    "varying-fixed",
                    "Observed varying, latent fixed",
                    environments.varying(latent="fixed"),
                    varying,
                ),
                Panel(
                    "varying-varying",
                    "Observed varying, latent varying",
                    environments.varying(latent="varying"),
                    varying,
                ),
            ),
            runs=10,
            rounds=3000,
        ),
        Figure(
            "clicks",
            "Yes or no: rewards that are 0 or 1",
            "K=30, d=8; rates between 2 and 98%. On the left the features explain half of the "
            "variance between arms, on the right nothing. Beta-TS, KL-UCB and UCB1 see no "
            "features; the linear bandits are told the noise. The scale is logarithmic.",
            tuple(
                Panel(
                    f"share{share:g}",
                    f"Features explain {words}",
                    environments.synthetic(share=share, rewards="bernoulli"),
                    CLICKS,
                )
                for share, words in ((0.5, "half"), (0.0, "nothing"))
            ),
            runs=20,
            rounds=3000,
            logy=True,
        ),
        Figure(
            "parts",
            "Which part does what: augmentation, doubly robust estimation, coupling",
            "LinUCB and LinTS on the observed and on the augmented features, both knowing the "
            "noise; RoLF with both couplings and with the penalties for which the doubly robust "
            "estimate is the imputation estimate.",
            _all_cases(
                {
                    "LinUCB, tuned": ("linucb", {"setting": "tuned"}),
                    "LinUCB, tuned, augmented": (AugmentedLinUCB, {"setting": "tuned"}),
                    "LinTS, tuned": ("lints", {"setting": "tuned"}),
                    "LinTS, tuned, augmented": (AugmentedLinTS, {"setting": "tuned"}),
                    "RoLF-Lasso, action": "rolf-lasso",
                    "RoLF-Lasso, greedy": ("rolf-lasso", GREEDY),
                    "RoLF-Lasso, imputation only": ("rolf-lasso", {"penalty": (0.6, 1.0)}),
                    "RoLF-Ridge, action": "rolf-ridge",
                }
            ),
            runs=50,
        ),
        Figure(
            "imputation",
            "Pseudo-rewards imputed again with the newest estimate, or frozen at their round",
            "Coupling around the action. The paper's proofs impute every past round again, and so "
            "does rolf by default; read literally, its equation freezes the pseudo-rewards of a "
            "round.",
            _all_cases(
                {
                    "RoLF-Lasso": "rolf-lasso",
                    "RoLF-Lasso, frozen": ("rolf-lasso", {"imputation": "frozen"}),
                    "RoLF-Ridge": "rolf-ridge",
                    "RoLF-Ridge, frozen": ("rolf-ridge", {"imputation": "frozen"}),
                }
            ),
            runs=50,
        ),
        _sweep(
            "exploration",
            "Regret against the length of the forced phase",
            "forced rounds",
            "Scenario 1, case 1. With coupling around the greedy arm, whatever the forced phase "
            "missed stays missed.",
            {n: (base, _couplings(exploration=n)) for n in (0, 15, 30, 60, 120, 240)},
        ),
        _sweep(
            "penalty",
            "Regret against the penalty of both lassos, or of the ridge",
            "penalty",
            "Scenario 1, case 1. The theory's penalties are far to the right of this picture.",
            {x: (base, _couplings(penalty=x)) for x in (0.01, 0.1, 0.6, 2.0, 10.0, 50.0)},
            logx=True,
        ),
        _sweep(
            "coupling-probability",
            "Regret against the coupling probability p",
            "p",
            "Scenario 1, case 1; the penalty stays 0.6.",
            {p: (base, _couplings(p=p, penalty=0.6)) for p in (0.51, 0.6, 0.7, 0.8, 0.9, 0.99)},
        ),
        _sweep(
            "noise",
            "Regret against the noise",
            "standard deviation of the noise",
            "Scenario 1, case 1; tuned rivals know it, RoLF does not need to.",
            {
                s: (environments.paper(1, 1, noise=s), _tuned_rivals(s))
                for s in (0.02, 0.05, 0.1, 0.3, 1.0)
            },
            logx=True,
        ),
        _sweep(
            "arms",
            "Regret against the number of arms",
            "K",
            "Scenario 1, case 1 with d_z=35 and d=17 throughout.",
            {
                k: (environments.paper(1, 1, arms=k), _tuned_rivals())
                for k in (5, 10, 20, 30, 60, 100)
            },
        ),
        _sweep(
            "observed",
            "Regret against the share of observed features",
            "d of 35 features observed",
            "Scenario 1, case 1, K=30.",
            {
                d: (environments.paper(1, 1, observed=d), _tuned_rivals())
                for d in (1, 5, 10, 17, 25, 34)
            },
        ),
    ]
    return {figure.key: figure for figure in all_figures}
