"""The paper's statements against what was measured: verdicts and numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from scipy.stats import f as f_distribution

from rolf import theory
from rolf.paper.figures import BASELINES
from rolf.plots.regret import Curves

ROLFS = ("RoLF-Lasso", "RoLF-Ridge")
AGREES, DIFFERS, OPEN = "agrees", "differs", "open"
#: means within this factor are almost the same
ALMOST = 1.2
#: chance of calling a spread larger that is not
FALSE_ALARM = 0.01


class Claim(NamedTuple):
    """A statement, whether the measurement agrees, and the numbers behind the verdict."""

    statement: str
    verdict: str
    evidence: str


def claim(statement: str, holds: bool | None, evidence: str) -> Claim:
    """A statement with the verdict that its evidence gives; None: too few runs to tell."""
    if holds is None:
        return Claim(statement, OPEN, f"{evidence}; so few runs cannot tell")
    return Claim(statement, AGREES if holds else DIFFERS, evidence)


def judge(done: Mapping[str, Mapping[str, Any]]) -> list[Claim]:
    """Verdicts on all statements that the played panels can decide."""
    out: list[Claim] = []
    panels = {
        f"{figure[-1]}/{key[-1]}": played.curves
        for figure in ("figure1", "figure2")
        for key, played in done.get(figure, {}).items()
    }
    if panels:
        out += [_ahead(panels), _robust(panels), _slower(panels)]
    tuned = [
        played.curves
        for figure in ("figure1-tuned", "figure2-tuned")
        for played in done.get(figure, {}).values()
    ]
    if tuned:
        out.append(_tuned(tuned))
    if "figure1" in done:
        out.append(_case_two(done["figure1"]))
        out.append(_alike(done["figure1"], 'rewards divided, bound="rewards"'))
    if "figure1-theta" in done:
        out.append(_alike(done["figure1-theta"], "theta scaled as in the authors' runs"))
    if "figure2" in done:
        out.append(_same_cases(done["figure2"]))
    if "lower-bounds" in done:
        out += _lower_bounds(done["lower-bounds"])
    if "learnability" in done:
        out.append(_learnability(done["learnability"]))
    return out


def final(curves: Curves, label: str) -> float:
    """Mean regret at the horizon."""
    return float(curves.mean[curves.labels.index(label), -1])


def slope(curves: Curves, label: str, start: float, end: float) -> float:
    """Mean regret per round between two fractions of the horizon."""
    line = curves.mean[curves.labels.index(label)]
    first, last = int(start * (line.size - 1)), int(end * (line.size - 1))
    return float((line[last] - line[first]) / max(last - first, 1))


def _ahead(panels: Mapping[str, Curves]) -> Claim:
    exceptions = []
    factors = []
    for name, curves in panels.items():
        worse_rolf = max(final(curves, label) for label in ROLFS)
        best_baseline = min(final(curves, label) for label in BASELINES)
        factors.append(best_baseline / max(worse_rolf, 1e-12))
        if worse_rolf >= best_baseline:
            exceptions.append(name)
    evidence = (
        f"best baseline / worse RoLF: {min(factors):.1f} to {max(factors):.1f} over the panels"
    )
    if exceptions:
        evidence += "; not so on " + ", ".join(exceptions)
    return claim(
        "Both RoLFs end below LinUCB, LinTS, DRLasso and UCB(delta) on every panel "
        "(settings of the authors' runs).",
        not exceptions,
        evidence,
    )


def _robust(panels: Mapping[str, Curves]) -> Claim:
    """The text: RoLF is better than the linear bandits "in level and robustness"."""
    exceptions, holds = [], True if min(c.runs for c in panels.values()) > 1 else None
    for name, curves in panels.items():
        spread = dict(zip(curves.labels, curves.std[:, -1].tolist(), strict=True))
        steadiest = min(("LinUCB", "LinTS", "DRLasso"), key=spread.__getitem__)
        for label in ROLFS:
            if spread[label] > spread[steadiest]:
                exceptions.append(
                    f"{name}: {label} {spread[label]:.0f}, {steadiest} {spread[steadiest]:.0f}"
                )
                ratio, free = (spread[label] / spread[steadiest]) ** 2, curves.runs - 1
                chance = f_distribution.sf(ratio, free, free)
                holds = False if holds is False or chance < FALSE_ALARM else None
    return claim(
        "The regret of both RoLFs varies less between runs than that of LinUCB, LinTS and DRLasso "
        "on every panel.",
        holds,
        "standard deviations over the runs"
        + ("; not so on " + "; ".join(exceptions) if exceptions else " are lower on all panels"),
    )


def _slower(panels: Mapping[str, Curves]) -> Claim:
    ratios = []
    for curves in panels.values():
        forced = 60 / curves.mean.shape[1]  # the forced phase, 2K rounds
        for label in ROLFS:
            before = slope(curves, label, 0.0, min(forced, 0.5))
            after = slope(curves, label, 0.5, 1.0)
            ratios.append(after / max(before, 1e-12))
    return claim(
        "The regret of RoLF grows much more slowly once the forced phase is over.",
        max(ratios) < 0.5,
        f"slope in the second half / slope in the forced phase: {min(ratios):.3f} to "
        f"{max(ratios):.3f}",
    )


def _tuned(panels: list[Curves]) -> Claim:
    ratios = [
        min(final(c, label) for label in ROLFS) / min(final(c, label) for label in BASELINES)
        for c in panels
    ]
    return claim(
        "The advantage is RoLF's own and does not rest on the baselines' constants.",
        max(ratios) < 1.0,
        "against baselines that know the noise, the better RoLF has "
        f"{min(ratios):.1f} to {max(ratios):.1f} times the regret of the best of them",
    )


def _cases(played: Mapping[str, Any]) -> dict[int, tuple[float, float]]:
    """Mean final regret of both RoLFs in each case, and its standard error."""
    out = {}
    for key, panel in played.items():
        curves = panel.curves
        rows = [curves.labels.index(label) for label in ROLFS]
        error = float(curves.std[rows, -1].mean()) / curves.runs**0.5
        out[int(key[-1])] = float(curves.mean[rows, -1].mean()), error
    return out


def _listed(cases: Mapping[int, tuple[float, float]]) -> str:
    numbers = ", ".join(f"{mean:.0f} ± {error:.0f}" for mean, error in cases.values())
    return f"mean of both RoLFs and standard error in cases {', '.join(map(str, cases))}: {numbers}"


def _apart(one: tuple[float, float], other: tuple[float, float]) -> float:
    """By how many standard errors the first mean is above the second."""
    return (one[0] - other[0]) / max(math.hypot(one[1], other[1]), 1e-12)


def _case_two(played: Mapping[str, Any]) -> Claim:
    cases = _cases(played)
    (mean, error), others = cases[2], (cases[1], cases[3])
    slower: bool | None = all(other - mean > 2.0 * (error + more) for other, more in others)
    if not slower and not any(_much_larger(each, cases[2]) is False for each in others):
        slower = None
    return claim(
        "Of the three cases of scenario 1, regret grows most slowly in case 2, where the observed "
        "features explain everything.",
        slower,
        _listed(cases)
        + ("" if slower else "; case 2 is not lower than both others by more than the error"),
    )


def _alike(played: Mapping[str, Any], setting: str) -> Claim:
    cases = _cases(played)
    largest, smallest = max(cases.values()), min(cases.values())
    apart = _much_larger(largest, smallest)
    return claim(
        f"In scenario 1 RoLF performs almost the same in all three cases ({setting}).",
        None if apart is None else not apart,
        _listed(cases) + f"; the largest is {largest[0] / smallest[0]:.2f} times the smallest",
    )


def _much_larger(one: tuple[float, float], other: tuple[float, float]) -> bool | None:
    """Whether a mean is more than ALMOST times another, by two standard errors; None if neither
    that nor the opposite is sure."""
    distance = one[0] - ALMOST * other[0]
    error = 2.0 * math.hypot(one[1], ALMOST * other[1])
    return distance > 0.0 if abs(distance) > error else None


def _same_cases(played: Mapping[str, Any]) -> Claim:
    cases = _cases(played)
    distance = _apart(cases[2], cases[1])
    return claim(
        "In scenario 2 regret converges slightly more slowly in case 2 than in case 1.",
        distance > 3.0,
        _listed(cases)
        + f", {distance:+.1f} standard errors apart; with every feature observed both cases have "
        "the same distribution, so any difference is chance",
    )


def _lower_bounds(played: Mapping[str, Any]) -> list[Claim]:
    two, three = played["two-arms"].curves, played["three-arms"].curves
    misled = {label: final(two, label) for label in ("LinTS", "OFUL")}
    bound = theory.oful_lower_bound(two.mean.shape[1])
    worse_rolf = max(final(two, label) for label in ROLFS)
    blind = {label: final(three, label) for label in ("LinTS", "OFUL", "LinUCB", "DRLasso")}
    blind_bound = theory.observed_only_lower_bound(three.mean.shape[1])
    return [
        claim(
            "On the two-arm instance LinTS and OFUL lose at least T/16; RoLF is sublinear.",
            min(misled.values()) >= bound and worse_rolf < bound,
            ", ".join(f"{label} {regret:.0f}" for label, regret in misled.items())
            + f"; T/16 = {bound:.0f}; the worse RoLF {worse_rolf:.0f}",
        ),
        claim(
            "On the three-arm instance every policy that sees observed features only loses at "
            "least T/6.",
            min(blind.values()) >= blind_bound,
            ", ".join(f"{label} {regret:.0f}" for label, regret in blind.items())
            + f"; T/6 = {blind_bound:.0f}",
        ),
    ]


def _learnability(played: Mapping[str, Any]) -> Claim:
    ratios = {}
    for key in ("varying-fixed", "varying-varying"):
        curves = played[key].curves
        start, end = slope(curves, "RoLF-V", 0.0, 0.1), slope(curves, "RoLF-V", 0.5, 1.0)
        ratios[key] = end / max(start, 1e-12)
    return claim(
        "Varying features with a fixed latent part can be learned by RoLF-V; with a varying latent "
        "part nothing can.",
        ratios["varying-fixed"] < 0.5 < ratios["varying-varying"],
        "slope of RoLF-V in the second half / in the first tenth: "
        + ", ".join(f"{key} {ratio:.2f}" for key, ratio in ratios.items()),
    )
