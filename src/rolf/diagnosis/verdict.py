"""Do my features explain the rewards? An answer from repeated rewards of each arm.

Three numbers decide: the p-value of the lack of fit (robust to unequal noise), and the lower and
upper end of the interval of the share of the variance between arms that the features explain.
``rolf.diagnosis.shares`` says how they are computed. The rules, in this order, with
alpha = 1 - level:

1. not enough data: no arm has two rewards, or no more arms were played than features (and an
   intercept) can fit exactly, or all rewards are equal;
2. the lack of fit is significant (p <= alpha), so something moves the arms that no feature tells:
   ignore the features, if they explain less than half (upper end below 0.5) and not provably
   anything (lower end below 0.01); else use RoLF;
3. the lack of fit is not significant: trust the features, if they explain 0.9 at least (lower
   end); else not enough data.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rolf.arms.table import Arms
from rolf.checks import between
from rolf.diagnosis import shares
from rolf.diagnosis.shares import LackOfFit
from rolf.errors import InvalidArgument
from rolf.plots import diagnosis as pictures
from rolf.plots import regret as plots
from rolf.types import FloatArray, IntArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TRUST, ROLF, IGNORE = "trust the features", "use RoLF", "ignore the features"
UNKNOWN = "not enough data"
#: the features are trusted if they explain at least this share, ignored if at most that share
ENOUGH, TOO_LITTLE = 0.9, 0.5
#: a lower end of the interval below this is no proof that the features explain anything
NOTHING = 0.01


@dataclass(frozen=True)
class Share:
    """Share of the variance between arms that the features explain, with its interval.

    ``estimate`` is None where the estimated variance between arms is zero.
    """

    estimate: float | None
    low: float
    high: float


@dataclass(frozen=True)
class ArmPart:
    """One arm: what was seen, what the features say, and what is left.

    ``deviation`` is the mean minus what the features and all other arms predict, with its
    standard error if the arm had no latent part; ``p_value`` is adjusted by Holm for the
    number of arms. ``latent`` is the arm's estimated latent part: mean minus fit, times
    ``shrinkage``. None: not known.
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
        rewards, played: how many rewards, and how many arms have one.
        rank: how many directions the features of the played arms span, beside the intercept.
        arms: one entry for each row of the features.
        lack_of_fit: None without repeated rewards, or without arms to spare.
        differ_p_value: of the (robust) test that all arms have one mean.
        share: None where ``lack_of_fit`` is.
        explained, latent, noise: variances, of the features' and of the latent part between
            arms and of one reward around its arm's mean.
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
        found = [a for a in self.arms if a.p_value is not None and a.p_value <= 1.0 - self.level]
        return sorted(found, key=lambda a: -abs((a.deviation or 0.0) / (a.deviation_stderr or 1.0)))

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
            equal, robust = _p(test.p_value), _p(test.robust_p_value)
            ratio = f"F({test.df1}, {test.df2}) = {test.statistic:.3g}"
            lines.append(f"lack of fit: {ratio}, {equal}; for unequal noise {robust}")
        if self.share is not None:
            lines.append(f"share that the features explain: {_share(self.share, self.level)}")
            parts = (self.explained, self.latent, self.noise)
            deviations = [math.sqrt(part or 0.0) for part in parts]
            text = "standard deviations: features {:.3g}, latent {:.3g}, noise of a reward {:.3g}"
            lines.append(text.format(*deviations))
        if found := self.deviating:
            more = f" (the surest 10 of {len(found)})" if len(found) > 10 else ""
            lines += ["", f"arms that deviate from the features{more}:", *_table(found[:10])]
        return "\n".join(lines)

    __repr__ = __str__

    def plot(self, path: str | Path | None = None) -> Figure:
        """Means against what the features say, and the split; written to ``path`` if given."""
        from scipy.special import ndtri

        width = float(ndtri(0.5 + 0.5 * self.level))
        apart = self.deviating
        names = {id(part) for part in apart}
        points = [
            pictures.Point(
                str(a.arm), a.fit, a.mean, width * (a.mean_stderr or 0.0), id(a) in names
            )
            for a in [*apart, *(a for a in self.arms if id(a) not in names)]
            if a.mean is not None and a.fit is not None
        ]
        figure = pictures.diagnosis_figure(
            points,
            astuple(self.share) if self.share else None,
            title=f"Do the features explain the rewards? Verdict: {self.verdict}",
            note=self.reason,
            level=self.level,
        )
        if path is not None:
            plots.save(figure, path)
        return figure


def diagnose(features: Any, arms: Any, rewards: Any, *, level: float = 0.95) -> Diagnosis:
    """Do these features explain these rewards?

    Args:
        features: (K, d), one row an arm: an array, a nested list, or a DataFrame whose index
            names the arms. They are centred and an intercept is added; columns that repeat
            others do no harm.
        arms: the arm of each reward: its name, or its position if the features name none.
        rewards: numbers, as many.
        level: of the interval of the share; tests are at 1 - level.

    >>> found = diagnose([[0], [1], [2], [3]], [0, 0, 1, 1, 2, 2, 3, 3], [1, 2, 3, 4, 1, 2, 3, 4])
    >>> found.verdict, found.lack_of_fit.df1, found.lack_of_fit.df2
    ('not enough data', 2, 4)
    >>> round(found.lack_of_fit.statistic, 9)
    6.4
    """
    known = Arms.read(features)
    level = between("level", level, 0.0, 1.0)
    values = _numbers(rewards)
    if isinstance(arms, str) or not hasattr(arms, "__iter__"):
        raise InvalidArgument("arms", arms, "the arm of each reward")
    positions = known.positions(arms)
    if positions.size != values.size:
        raise InvalidArgument("arms", f"{positions.size} arms", f"{values.size}, one a reward")
    seen = shares.moments_of(positions, values, known.count)
    played = np.unique(positions)
    columns = shares.design(known.features[played])
    about: dict[str, Any] = {"level": level, "rewards": values.size, "played": played.size}
    about["rank"] = columns.shape[1] - 1
    if missing := _missing(values, columns, seen.freedom):
        noise = seen.pooled if seen.freedom else math.nan
        stderr = np.sqrt(noise / seen.counts)
        fit = shares.everywhere(known.features, played, shares.fit_of(columns, seen))
        parts = _arms(known, played, seen, stderr, fit, {})
        return Diagnosis(UNKNOWN, missing, **about, noise=_known(noise), arms=parts)
    test = shares.lack_of_fit(columns, seen)
    differ = shares.lack_of_fit(columns[:, :1], seen).robust_p_value
    noises = shares.noise_of(columns, seen)
    profile = shares.Profile(columns, seen, noises)
    split = shares.split_of(profile, noises, level)
    total = split.explained + split.latent
    share = Share(split.explained / total if total else None, split.low, split.high)
    found = shares.parts_of(profile, noises, split.latent)
    each = found._asdict()
    each["p_value"] = shares.deviation_p_values(found, noises)
    fit = shares.everywhere(known.features, played, each.pop("fit"))
    stderr = np.sqrt(noises.arms / seen.counts)
    return Diagnosis(
        *_verdict(test, differ, share, level),
        **about,
        lack_of_fit=test,
        differ_p_value=differ,
        share=share,
        explained=split.explained,
        latent=split.latent,
        noise=noises.pooled,
        arms=_arms(known, played, seen, stderr, fit, each),
    )


def _numbers(rewards: Any) -> FloatArray:
    try:
        values = np.array(rewards, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidArgument("rewards", rewards, "a list of numbers") from None
    if values.ndim != 1 or not values.size:
        raise InvalidArgument("rewards", f"shape {values.shape}", "a list of numbers")
    if not np.isfinite(values).all():
        place = int(np.argmin(np.isfinite(values)))
        raise InvalidArgument("rewards", f"{values[place]} at place {place}", "finite numbers")
    return values


def _known(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def _arms(
    known: Arms,
    played: IntArray,
    seen: shares.Moments,
    stderr: FloatArray,
    fit: FloatArray,
    each: dict[str, FloatArray],
) -> list[ArmPart]:
    """All arms, played or not."""
    place = {int(position): index for index, position in enumerate(played)}
    out = []
    for position, label in enumerate(known.labels):
        index = place.get(position)
        if index is None:
            out.append(ArmPart(label, 0, None, None, _known(fit[position])))
            continue
        rest: dict[str, Any] = {name: _known(values[index]) for name, values in each.items()}
        plays, mean = int(seen.counts[index]), float(seen.means[index])
        error = _known(stderr[index])
        out.append(ArmPart(label, plays, mean, error, _known(fit[position]), **rest))
    return out


# --- words ----------------------------------------------------------------------------------------


def _missing(values: FloatArray, columns: FloatArray, freedom: int) -> str | None:
    """Why nothing can be tested, if so."""
    played, fitted = columns.shape
    if freedom < 1:
        return "No arm has two rewards, so noise cannot be told from a latent part."
    if played <= fitted:
        return (
            f"{played} played arms are fitted exactly by an intercept and features of rank "
            f"{fitted - 1}: nothing is left to test them on. Play more arms or use fewer features."
        )
    return "All rewards are equal: there is nothing to explain." if np.ptp(values) == 0.0 else None


def _verdict(test: LackOfFit, differ: float, share: Share, level: float) -> tuple[str, str]:
    """The rules at the top of this file."""
    alpha = 1.0 - level
    size = _share(share, level, " of the variance between arms")
    lack = f"lack of fit: {_p(test.robust_p_value)}"
    if test.robust_p_value <= alpha:
        if share.high < TOO_LITTLE and share.low < NOTHING:
            text = (
                f"The features explain {size}, not provably anything, yet the arms differ ({lack})."
            )
            return IGNORE, text
        text = (
            f"Something that no feature tells moves the arms ({lack}); the features explain {size}."
        )
        if share.low < NOTHING:
            text += " Whether they help at all is open."
        return ROLF, text
    if share.low >= ENOUGH:
        return TRUST, f"The features explain {size}, and nothing else shows ({lack})."
    if differ > alpha:
        text = f"The arms do not differ measurably ({_p(differ)}): there is nothing to explain yet."
        return UNKNOWN, text
    return UNKNOWN, (
        f"The features explain {size}: too wide to decide, though nothing else shows yet ({lack})."
    )


def _p(value: float) -> str:
    return "p < 0.001" if value < 0.001 else f"p = {value:.2g}"


def _share(share: Share, level: float, what: str = "") -> str:
    """The share in words; its interval is rounded outwards."""
    value = "an unknown part" if share.estimate is None else f"{share.estimate:.0%}"
    low, high = math.floor(100.0 * share.low), math.ceil(100.0 * share.high)
    return f"{value}{what} ({100.0 * level:.4g}% interval: {low}% to {high}%)"


def _table(parts: Sequence[ArmPart]) -> list[str]:
    rows = [["arm", "plays", "mean", "fit", "latent", "stderr", "p"]]
    for a in parts:
        values = [math.nan if v is None else v for v in (a.mean, a.fit, a.latent, a.latent_stderr)]
        rows.append([str(a.arm), str(a.plays), *(f"{v:.4g}" for v in values), f"{a.p_value:.2g}"])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        rest = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        lines.append("  ".join([row[0].ljust(widths[0]), *rest]))
    return lines
