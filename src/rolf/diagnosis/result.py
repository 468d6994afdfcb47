"""What a diagnosis returns: a verdict, the numbers behind it, and all arms; in words and drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rolf.diagnosis.shares import LackOfFit
from rolf.plots.diagnosis import Point, diagnosis_figure
from rolf.plots.style import save
from rolf.text import format_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LISTED = 10  # deviating arms in the printed table


@dataclass(frozen=True)
class Share:
    """The share of the variance between arms that the features explain, with its interval.

    ``estimate`` is None where the estimated variance between arms is zero.
    """

    estimate: float | None
    low: float
    high: float


@dataclass(frozen=True)
class ArmPart:
    """One arm: what was observed, what the features predict, and what is left.

    ``deviation`` is the mean minus what the features and all other arms predict;
    ``deviation_stderr`` is its standard error if the arm had no latent part. ``p_value`` is
    adjusted by Holm for the number of arms. ``latent`` is the arm's estimated latent part: mean
    minus fit, times ``shrinkage``. None stands for unknown.
    """

    arm: Any
    plays: int
    mean: float | None
    mean_stderr: float | None
    fit: float | None
    deviation: float | None = None
    deviation_stderr: float | None = None
    p_value: float | None = None
    latent: float | None = None
    latent_stderr: float | None = None
    shrinkage: float | None = None


@dataclass(frozen=True)
class Diagnosis:
    """What ``diagnose`` found; prints readably.

    Attributes:
        verdict: "trust the features", "use RoLF", "ignore the features" or "not enough data".
        reason: the numbers behind the verdict, in a sentence.
        level: of the interval; tests are at 1 - level.
        rewards, played: how many rewards there are, and how many arms have one.
        rank: how many directions the features of the played arms span, besides the intercept.
        arms: one entry per row of the features.
        lack_of_fit: None if no arm has repeated rewards, or the features fit the arms exactly.
        differ_p_value: of the (robust) test that all arms have the same mean.
        share: None where ``lack_of_fit`` is.
        explained, latent, noise: variances: between arms, of the part that the features explain
            and of the latent part; and of one reward around its arm's mean.
    """

    verdict: str
    reason: str
    level: float
    rewards: int
    played: int
    rank: int
    arms: list[ArmPart]
    lack_of_fit: LackOfFit | None = None
    differ_p_value: float | None = None
    share: Share | None = None
    explained: float | None = None
    latent: float | None = None
    noise: float | None = None

    @property
    def deviating(self) -> list[ArmPart]:
        """The arms that deviate from the features beyond chance, the surest first."""
        alpha = 1.0 - self.level
        parts = [part for part in self.arms if part.p_value is not None and part.p_value <= alpha]
        return sorted(
            parts, key=lambda part: -abs((part.deviation or 0.0) / (part.deviation_stderr or 1.0))
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data for ``json.dumps``."""
        out = asdict(self)
        for arm in out["arms"]:
            if not isinstance(arm["arm"], str | int | float):
                arm["arm"] = str(arm["arm"])
        names = {id(part): data["arm"] for part, data in zip(self.arms, out["arms"], strict=True)}
        return {**out, "deviating": [names[id(part)] for part in self.deviating]}

    def __str__(self) -> str:
        count = f"{self.rewards} rewards, {self.played} of {len(self.arms)} arms played"
        lines = [
            f"verdict: {self.verdict}",
            self.reason,
            "",
            f"{count}, features of rank {self.rank}",
        ]
        if (test := self.lack_of_fit) is not None:
            equal, robust = p_value_text(test.p_value), p_value_text(test.robust_p_value)
            ratio = f"F({test.df1}, {test.df2}) = {test.statistic:.3g}"
            lines.append(f"lack of fit: {ratio}, {equal}; for unequal noise {robust}")
        if self.share is not None:
            lines.append(f"share that the features explain: {share_text(self.share, self.level)}")
            variances = (self.explained, self.latent, self.noise)
            deviations = [math.sqrt(variance or 0.0) for variance in variances]
            text = "standard deviations: features {:.3g}, latent {:.3g}, noise of a reward {:.3g}"
            lines.append(text.format(*deviations))
        if parts := self.deviating:
            more = f" (the surest {LISTED} of {len(parts)})" if len(parts) > LISTED else ""
            lines += ["", f"arms that deviate from the features{more}:", _table(parts[:LISTED])]
        return "\n".join(lines)

    __repr__ = __str__

    def plot(self, path: str | Path | None = None) -> Figure:
        """Means against what the features predict, and the variance split; written to ``path``
        if given."""
        from scipy.special import ndtri

        quantile = float(ndtri(0.5 + 0.5 * self.level))
        deviating = self.deviating
        ids = {id(part) for part in deviating}
        points = [
            Point(
                str(part.arm),
                part.fit,
                part.mean,
                quantile * (part.mean_stderr or 0.0),
                id(part) in ids,
            )
            for part in [*deviating, *(part for part in self.arms if id(part) not in ids)]
            if part.mean is not None and part.fit is not None
        ]
        figure = diagnosis_figure(
            points,
            astuple(self.share) if self.share else None,
            title=f"Do the features explain the rewards? Verdict: {self.verdict}",
            note=self.reason,
            level=self.level,
        )
        if path is not None:
            save(figure, path)
        return figure


def p_value_text(value: float) -> str:
    return "p < 0.001" if value < 0.001 else f"p = {value:.2g}"


def share_text(share: Share, level: float, whole: str = "") -> str:
    """The share, of a ``whole`` if named, with its interval rounded outwards."""
    value = "an unknown part" if share.estimate is None else f"{share.estimate:.0%}"
    low, high = math.floor(100.0 * share.low), math.ceil(100.0 * share.high)
    return f"{value}{whole} ({100.0 * level:.4g}% interval: {low}% to {high}%)"


def _table(parts: Sequence[ArmPart]) -> str:
    rows = [["arm", "plays", "mean", "fit", "latent", "stderr", "p"]]
    for part in parts:
        values = (part.mean, part.fit, part.latent, part.latent_stderr)
        numbers = [f"{math.nan if value is None else value:.4g}" for value in values]
        rows.append([str(part.arm), str(part.plays), *numbers, f"{part.p_value:.2g}"])
    return format_table(rows)
