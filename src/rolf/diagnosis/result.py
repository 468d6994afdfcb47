"""The result of a diagnosis: a verdict, the numbers behind it, and all arms; as text and as a
picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rolf.diagnosis.lack_of_fit import LackOfFit
from rolf.plots.diagnosis import Point, diagnosis_figure
from rolf.plots.style import finish
from rolf.tables.result_table import ResultTable, save_result
from rolf.text import format_table, html_lines, html_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LISTED = 10  # deviating arms in the printed table
#: fields of an arm in units of rewards, and of the diagnosis in units of squared rewards
IN_REWARDS = ("mean", "mean_stderr", "mean_low", "mean_high", "fit", "latent", "latent_stderr")
IN_SQUARES = ("explained", "latent", "noise")
UNTESTED = "no test of lack of fit: that takes arms chosen at random, without regard to rewards"


@dataclass(frozen=True)
class Share:
    """The share of the variance between arms that the features explain: the median of its
    posterior, and an interval.

    The other fields are the posterior probabilities behind the verdict: that the share is at least
    0.8 (``most``), at most 0.2 (``little``), at least 0.05 (``some``) and at most 0.95
    (``not_all``).
    """

    estimate: float
    low: float
    high: float
    most: float
    little: float
    some: float
    not_all: float


@dataclass(frozen=True)
class ArmDiagnosis:
    """One arm: what was observed, what the features predict, and the rest.

    ``mean_low`` and ``mean_high`` are the interval of its mean, from its own rewards. ``fit`` is
    what its features predict and ``latent`` its latent part; together they are its expected mean.
    ``probability`` is how likely the sign of the latent part is right. ``shrinkage`` is how much of
    the distance between mean and fit is believed. None means unknown.
    """

    arm: Any
    plays: int
    mean: float | None = None
    mean_stderr: float | None = None
    mean_low: float | None = None
    mean_high: float | None = None
    fit: float | None = None
    latent: float | None = None
    latent_stderr: float | None = None
    shrinkage: float | None = None
    probability: float | None = None


@dataclass(frozen=True)
class Diagnosis:
    """The result of ``diagnose``; prints readably.

    Attributes:
        verdict: "trust the features", "use RoLF", "ignore the features" or "not enough data".
        reason: the numbers behind the verdict, in a sentence.
        level: of the intervals, and the probability at which a verdict is sure.
        rewards, played: the numbers of rewards, and of arms that have one.
        rank: how many directions the features of the played arms span, besides the intercept.
        arms: one entry per row of the features.
        scale: the scale of the variances: "rewards", or "log-odds" for rewards of 0 and 1.
        randomised: whether arms are known to have been chosen without regard to rewards.
        share: None if no arm has repeated rewards, or all rewards are equal.
        explained, latent: variances between arms, of the explained and of the latent part.
        noise: variance of one reward around its arm's mean.
        lack_of_fit: None unless ``randomised``, or if the features fit the arms exactly.
        differ_p_value: of the (robust) test that all arms have the same mean; None in the same
            cases.
        without_reward: how many rows of a file were left out for lack of a reward.
    """

    verdict: str
    reason: str
    level: float
    rewards: int
    played: int
    rank: int
    arms: list[ArmDiagnosis]
    scale: str = "rewards"
    randomised: bool = False
    share: Share | None = None
    explained: float | None = None
    latent: float | None = None
    noise: float | None = None
    lack_of_fit: LackOfFit | None = None
    differ_p_value: float | None = None
    without_reward: int = 0

    def times(self, unit: float) -> Diagnosis:
        """The diagnosis of the original rewards, if these were measured in ``unit``."""
        if unit == 1.0:
            return self
        arms = []
        for part in self.arms:
            numbers: Any = {name: _times(getattr(part, name), unit) for name in IN_REWARDS}
            arms.append(replace(part, **numbers))
        squares: Any = {name: _times(getattr(self, name), unit, 2) for name in IN_SQUARES}
        return replace(self, arms=arms, **squares)

    @property
    def deviating(self) -> list[ArmDiagnosis]:
        """The arms whose latent part has an interval that excludes zero, the surest first."""
        surely = 0.5 + 0.5 * self.level
        parts = [part for part in self.arms if (part.probability or 0.0) >= surely]
        return sorted(
            parts, key=lambda part: -abs((part.latent or 0.0) / (part.latent_stderr or 1.0))
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data for ``json.dumps``."""
        out = asdict(self)
        for arm in out["arms"]:
            if not isinstance(arm["arm"], str | int | float):
                arm["arm"] = str(arm["arm"])
        names = {id(part): data["arm"] for part, data in zip(self.arms, out["arms"], strict=True)}
        return {**out, "deviating": [names[id(part)] for part in self.deviating]}

    def table(self) -> ResultTable[ArmDiagnosis]:
        """One row per arm."""
        return ResultTable(self.arms)

    def save(self, path: str | Path) -> Path:
        """Write everything as JSON (.json), or a row per arm as CSV (.csv)."""
        return save_result(self, path)

    def _sentences(self) -> list[str]:
        """The numbers below the verdict, one per line."""
        count = f"{self.rewards} rewards, {self.played} of {len(self.arms)} arms played"
        lines = [f"{count}, features of rank {self.rank}"]
        if self.share is not None:
            scale = f"{self.scale} of the " if self.scale != "rewards" else ""
            lines.append(f"share that the features explain: {share_text(self.share, self.level)}")
            sizes = [math.sqrt(variance or 0.0) for variance in (self.explained, self.latent)]
            text = "standard deviations of the {}arms: features {:.3g}, latent {:.3g}"
            noise = f"; noise of a reward {math.sqrt(self.noise or 0.0):.3g}"
            lines.append(text.format(scale, *sizes) + noise)
        if (test := self.lack_of_fit) is not None:
            equal, robust = p_value_text(test.p_value), p_value_text(test.robust_p_value)
            ratio = f"F({test.df1}, {test.df2}) = {test.statistic:.3g}"
            lines.append(f"lack of fit: {ratio}, {equal}; for unequal noise {robust}")
        elif self.share is not None and not self.randomised:
            lines.append(UNTESTED)
        return lines

    def _deviating(self) -> tuple[str, list[list[str]]] | None:
        """A heading and a table of the arms that deviate."""
        if not (parts := self.deviating):
            return None
        more = f" (the surest {LISTED} of {len(parts)})" if len(parts) > LISTED else ""
        return f"arms that deviate from the features{more}:", _rows(parts[:LISTED])

    def __str__(self) -> str:
        lines = [f"verdict: {self.verdict}", self.reason, "", *self._sentences()]
        if deviating := self._deviating():
            heading, rows = deviating
            lines += ["", heading, format_table(rows)]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        out = html_lines(f"verdict: {self.verdict}", self.reason, *self._sentences())
        if deviating := self._deviating():
            heading, rows = deviating
            out += f"<br>{html_lines(heading, bold=False)}{html_table(rows)}"
        return out

    def plot(self, path: str | Path | None = None, *, ax: Axes | None = None) -> Figure:
        """Means against what the features predict, and the variance split.

        Saved to ``path`` if given. A Matplotlib axes ``ax`` gets the means alone.
        """
        deviating = self.deviating
        ids = {id(part) for part in deviating}
        points = [
            Point(
                str(part.arm),
                part.fit,
                part.mean,
                part.mean if part.mean_low is None else part.mean_low,
                part.mean if part.mean_high is None else part.mean_high,
                id(part) in ids,
            )
            for part in [*deviating, *(part for part in self.arms if id(part) not in ids)]
            if part.mean is not None and part.fit is not None
        ]
        figure = diagnosis_figure(
            points,
            (share.estimate, share.low, share.high) if (share := self.share) else None,
            title=f"Do the features explain the rewards? Verdict: {self.verdict}",
            note=self.reason,
            level=self.level,
            scale=self.scale,
            ax=ax,
        )
        return finish(figure, path)


def _times(value: float | None, unit: float, power: int = 1) -> float | None:
    return None if value is None else value * unit**power


def p_value_text(value: float) -> str:
    return "p < 0.001" if value < 0.001 else f"p = {value:.2g}"


def share_text(share: Share, level: float, whole: str = "") -> str:
    """The share, of a ``whole`` if named, with its interval rounded outwards."""
    low, high = math.floor(100.0 * share.low), math.ceil(100.0 * share.high)
    return f"{share.estimate:.0%}{whole} ({100.0 * level:.4g}% interval: {low}% to {high}%)"


def _rows(parts: Sequence[ArmDiagnosis]) -> list[list[str]]:
    rows = [["arm", "plays", "mean", "fit", "latent", "stderr", "probability"]]
    for part in parts:
        values = (part.mean, part.fit, part.latent, part.latent_stderr)
        numbers = ["" if value is None else f"{value:.4g}" for value in values]
        rows.append([str(part.arm), str(part.plays), *numbers, f"{part.probability or 0.0:.3g}"])
    return rows
