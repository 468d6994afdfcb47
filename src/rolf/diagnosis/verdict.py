"""Do my features explain the rewards? An answer from repeated rewards of each arm.

Three numbers decide: the p-value of the lack of fit (robust to unequal noise), and the lower and
upper end of the interval of the share of the variance between arms that the features explain.
``rolf.diagnosis.shares`` says how they are computed. The rules, in this order, with
alpha = 1 - level:

1. not enough data: no arm has two rewards, or so few arms were played that the features (and an
   intercept) fit them exactly, or all rewards are equal;
2. the lack of fit is significant (p <= alpha), so something beyond the features moves the arms:
   ignore the features if they explain less than half (upper end below 0.5) and possibly nothing
   (lower end below 0.01); otherwise use RoLF;
3. the lack of fit is not significant: trust the features if they explain at least 0.9 (lower
   end); otherwise there is not enough data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from rolf.arms.table import Arms
from rolf.checks import between, vector
from rolf.diagnosis import shares
from rolf.diagnosis.result import ArmPart, Diagnosis, Share, p_value_text, share_text
from rolf.diagnosis.shares import LackOfFit
from rolf.errors import InvalidArgument
from rolf.types import FloatArray, IntArray

TRUST, ROLF, IGNORE = "trust the features", "use RoLF", "ignore the features"
UNKNOWN = "not enough data"
#: features that explain at least the first share are trusted, less than the second: ignored
ENOUGH, TOO_LITTLE = 0.9, 0.5
#: a lower end of the interval below this does not prove that the features explain anything
NOTHING = 0.01


def diagnose(features: Any, arms: Any, rewards: Any, *, level: float = 0.95) -> Diagnosis:
    """Do these features explain these rewards?

    Args:
        features: (K, d), one row per arm: an array, a nested list, or a DataFrame whose index
            names the arms. They are centred and an intercept is added; columns that repeat
            others do no harm.
        arms: the arm of each reward: its name, or its position if the features have no names.
        rewards: one number per entry of ``arms``.
        level: of the interval of the share; tests are at 1 - level.

    >>> arms, rewards = [0, 0, 1, 1, 2, 2, 3, 3], [1, 2, 3, 4, 1, 2, 3, 4]
    >>> diagnosis = diagnose([[0], [1], [2], [3]], arms, rewards)
    >>> diagnosis.verdict, diagnosis.lack_of_fit.df1, diagnosis.lack_of_fit.df2
    ('not enough data', 2, 4)
    >>> round(diagnosis.lack_of_fit.statistic, 9)
    6.4
    """
    table = Arms.read(features)
    level = between("level", level, 0.0, 1.0)
    values = vector("rewards", rewards, "decision")
    if not values.size:
        raise InvalidArgument("rewards", rewards, "at least one reward")
    if isinstance(arms, str) or not hasattr(arms, "__iter__"):
        raise InvalidArgument("arms", arms, "the arm of each reward")
    positions = table.positions(arms)
    if positions.size != values.size:
        raise InvalidArgument("arms", f"{positions.size} arms", f"{values.size}, one per reward")
    moments = shares.moments_of(positions, values, table.count)
    played = np.unique(positions)
    columns = shares.design(table.features[played])
    counts: dict[str, Any] = {
        "level": level,
        "rewards": values.size,
        "played": played.size,
        "rank": columns.shape[1] - 1,
    }
    if reason := _untestable(values, columns, moments.freedom):
        stderr = np.sqrt(moments.pooled / moments.counts)
        fit = shares.extend_fit(table.features, played, shares.fit_of(columns, moments))
        entries = _arm_parts(table, played, moments, stderr, fit, {})
        noise = _or_none(moments.pooled)
        return Diagnosis(UNKNOWN, reason, **counts, noise=noise, arms=entries)
    test = shares.lack_of_fit(columns, moments)
    differ = shares.lack_of_fit(columns[:, :1], moments).robust_p_value
    noises = shares.noise_of(columns, moments)
    profile = shares.Profile(columns, moments, noises)
    split = shares.split_of(profile, noises, level)
    total = split.explained + split.latent
    share = Share(split.explained / total if total else None, split.low, split.high)
    parts = shares.parts_of(profile, noises, split.latent)
    per_arm = {**parts._asdict(), "p_value": shares.deviation_p_values(parts, noises)}
    fit = shares.extend_fit(table.features, played, per_arm.pop("fit"))
    stderr = np.sqrt(noises.arms / moments.counts)
    return Diagnosis(
        *verdict_of(test, differ, share, level),
        **counts,
        lack_of_fit=test,
        differ_p_value=differ,
        share=share,
        explained=split.explained,
        latent=split.latent,
        noise=noises.pooled,
        arms=_arm_parts(table, played, moments, stderr, fit, per_arm),
    )


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def _arm_parts(
    table: Arms,
    played: IntArray,
    moments: shares.Moments,
    stderr: FloatArray,
    fit: FloatArray,
    per_arm: Mapping[str, FloatArray],
) -> list[ArmPart]:
    """All arms: ``fit`` is (K,), everything else is for the played arms only."""
    places = {int(position): place for place, position in enumerate(played)}
    out = []
    for position, label in enumerate(table.labels):
        place = places.get(position)
        if place is None:
            out.append(ArmPart(label, 0, None, None, _or_none(fit[position])))
            continue
        rest: dict[str, Any] = {name: _or_none(values[place]) for name, values in per_arm.items()}
        plays, mean = int(moments.counts[place]), float(moments.means[place])
        error = _or_none(stderr[place])
        out.append(ArmPart(label, plays, mean, error, _or_none(fit[position]), **rest))
    return out


def _untestable(values: FloatArray, columns: FloatArray, freedom: int) -> str | None:
    """Why nothing can be tested, if so: rule 1."""
    played, fitted = columns.shape
    if freedom < 1:
        return "No arm has two rewards, so noise cannot be told from a latent part."
    if played <= fitted:
        return (
            f"{played} played arms are fitted exactly by an intercept and features of rank "
            f"{fitted - 1}: nothing is left to test them on. Play more arms or use fewer features."
        )
    return "All rewards are equal: there is nothing to explain." if np.ptp(values) == 0.0 else None


def verdict_of(test: LackOfFit, differ: float, share: Share, level: float) -> tuple[str, str]:
    """Rules 2 and 3: the verdict and its reason."""
    alpha = 1.0 - level
    size = share_text(share, level, " of the variance between arms")
    lack = f"lack of fit: {p_value_text(test.robust_p_value)}"
    if test.robust_p_value <= alpha:
        if share.high < TOO_LITTLE and share.low < NOTHING:
            return IGNORE, (
                f"The features explain {size}, not provably anything, yet the arms differ ({lack})."
            )
        reason = (
            f"Something that no feature tells moves the arms ({lack}); the features explain {size}."
        )
        if share.low < NOTHING:
            reason += " Whether they help at all is open."
        return ROLF, reason
    if share.low >= ENOUGH:
        return TRUST, f"The features explain {size}, and nothing else shows ({lack})."
    if differ > alpha:
        equal = p_value_text(differ)
        return UNKNOWN, (
            f"The arms do not differ measurably ({equal}): there is nothing to explain yet."
        )
    return UNKNOWN, (
        f"The features explain {size}: too wide to decide, though nothing else shows yet ({lack})."
    )
