"""Do my features explain the rewards? An answer from repeated rewards of each arm.

Everything rests on the posterior of one number, the share of the variance between arms that the
features explain (``rolf.diagnosis.posterior``), so the answer holds however the arms were chosen.
The rules, in this order; "surely" means with a posterior chance of at least ``level``:

1. not enough data: no arm has two rewards, all rewards are equal, or the arms do not surely differ;
2. use RoLF: the share is surely at least 0.05 and surely at most 0.95, so both parts count;
3. trust the features: it is surely at least 0.8;
4. ignore the features: it is surely at most 0.2;
5. use RoLF: it is surely at most 0.95, so something beyond the features moves the arms;
6. otherwise there is not enough data.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import numpy as np

from rolf.arms.table import Arms
from rolf.checks import between, vector
from rolf.diagnosis.evidence import Evidence
from rolf.diagnosis.lack_of_fit import Moments, design, lack_of_fit, noise_of
from rolf.diagnosis.posterior import Split, click_belief, real_belief, split_of
from rolf.diagnosis.result import ArmPart, Diagnosis, Share, share_text
from rolf.errors import InvalidArgument
from rolf.extras import require
from rolf.types import FloatArray, IntArray

TRUST, ROLF, IGNORE = "trust the features", "use RoLF", "ignore the features"
UNKNOWN = "not enough data"
#: features that explain at least the first share are trusted, at most the second: ignored
MOST, LITTLE = 0.8, 0.2
#: a part of the variance between arms that counts
SOME = 0.05


def diagnose(
    features: Any,
    arms: Any,
    rewards: Any,
    *,
    level: float = 0.95,
    randomised: bool = False,
    probabilities: Any = None,
) -> Diagnosis:
    """Do these features explain these rewards?

    Rewards that are all 0 or 1 are taken for clicks: what is split is then the variance of their
    log-odds.

    Args:
        features: (K, d), one row per arm: an array, a nested list, or a DataFrame whose index
            names the arms. They are standardised and an intercept is added; columns that repeat
            others do no harm.
        arms: the arm of each reward: its name, or its position if the features have no names.
        rewards: one number per entry of ``arms``.
        level: of the interval of the share, and the chance at which a verdict is sure.
        randomised: the arms were chosen at random, without regard to rewards. Then there are
            tests as well; for the log of a policy that learns they would be wrong.
        probabilities: the chance with which each decision's arm was chosen. Where they show that
            every arm always had the same chance, there are tests, too.

    >>> arms, rewards = [0, 0, 1, 1, 2, 2, 3, 3], [1, 2, 3, 4, 1, 2, 3, 4]
    >>> diagnosis = diagnose([[0], [1], [2], [3]], arms, rewards, randomised=True)
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
    if not isinstance(randomised, bool):
        raise InvalidArgument("randomised", randomised, "True or False")
    if probabilities is not None:
        chances = vector("probabilities", probabilities, "reward", values.size)
        if ((chances <= 0.0) | (chances > 1.0)).any():
            raise InvalidArgument("probabilities", probabilities, "chances above 0 and at most 1")
    else:
        chances = None
    centre = float(values.mean())  # rewards far from zero would lose digits
    evidence = Evidence.of(positions, values, table.count, centre, chances)
    return diagnosis_of(table, evidence, level, randomised)


def diagnosis_of(table: Arms, evidence: Evidence, level: float, randomised: bool) -> Diagnosis:
    """The diagnosis of what a log has shown; ``randomised``: also where chances do not show it."""
    require("scipy", "a diagnosis")
    if evidence.chances is not None:
        randomised = randomised or evidence.chances.at_random
    moments, played = evidence.moments(), evidence.played
    columns = design(table.features[played])
    clicks = evidence.clicks
    if clicks:  # what was rounded is known exactly
        moments = moments._replace(means=np.rint(moments.counts * moments.means) / moments.counts)
    numbers: dict[str, Any] = {
        "level": level,
        "rewards": int(evidence.counts.sum()),
        "played": played.size,
        "rank": columns.shape[1] - 1,
        "scale": "log-odds" if clicks else "rewards",
        "randomised": randomised,
        "noise": None if math.isnan(moments.pooled) else moments.pooled,
    }
    if moments.freedom < 1 or evidence.low == evidence.high:
        reason = (
            "No arm has two rewards, so noise cannot be told from a latent part."
            if moments.freedom < 1
            else "All rewards are equal: there is nothing to explain."
        )
        noises = np.full(played.size, moments.pooled)
        parts = arm_parts(table, played, moments, noises, None, clicks, level)
        return Diagnosis(UNKNOWN, reason, **numbers, arms=parts).times(evidence.unit)
    noises = noise_of(columns, moments)
    if clicks:
        counts, sums = np.zeros((2, table.count))
        counts[played], sums[played] = moments.counts, moments.counts * moments.means
        split = split_of(click_belief(table.features, counts, sums))
    else:
        split = split_of(real_belief(table.features, played, moments, noises))
    share = share_of(split, level)
    verdict, reason = verdict_of(share, split.differ, level)
    exact = played.size <= columns.shape[1]
    if verdict == UNKNOWN and exact:
        reason += (
            f" {played.size} played arms are fitted exactly by an intercept and features of rank "
            f"{columns.shape[1] - 1}: play more arms, or use fewer features."
        )
    if randomised and not exact:
        numbers["lack_of_fit"] = lack_of_fit(columns, moments)
        numbers["differ_p_value"] = lack_of_fit(columns[:, :1], moments).robust_p_value
    return Diagnosis(
        verdict,
        reason,
        **numbers,
        share=share,
        explained=float(np.median(split.explained)),
        latent=float(np.median(split.latent)),
        arms=arm_parts(table, played, moments, noises, split, clicks, level),
    ).times(evidence.unit)


def share_of(split: Split, level: float) -> Share:
    """The share and its interval, with the chances that the rules ask for."""
    shares = split.shares
    low, middle, high = np.quantile(shares, [0.5 - 0.5 * level, 0.5, 0.5 + 0.5 * level])
    return Share(
        float(middle),
        float(low),
        float(high),
        most=float(np.mean(shares >= MOST)),
        little=float(np.mean(shares <= LITTLE)),
        some=float(np.mean(shares >= SOME)),
        not_all=float(np.mean(shares <= 1.0 - SOME)),
    )


def verdict_of(share: Share, differ: float, level: float) -> tuple[str, str]:
    """The verdict and its reason, where the share is known; ``differ`` is the chance that the
    arms differ."""
    if differ < level:
        return UNKNOWN, "The arms do not differ measurably: there is nothing to explain yet."
    size = share_text(share, level, " of the variance between arms")
    if share.some >= level and share.not_all >= level:
        return ROLF, (
            f"The features explain {size}; something that no feature tells moves the arms, too."
        )
    if share.most >= level:
        return TRUST, f"The features explain {size}; nothing else shows."
    if share.little >= level:
        return IGNORE, f"The features explain {size}: next to nothing, yet the arms differ."
    if share.not_all >= level:
        return ROLF, (
            "Something that no feature tells moves the arms. "
            f"The features explain {size}; whether they help at all is open."
        )
    return UNKNOWN, f"The features explain {size}: too wide to decide."


def arm_parts(
    table: Arms,
    played: IntArray,
    moments: Moments,
    noises: FloatArray,
    split: Split | None,
    clicks: bool,
    level: float,
) -> list[ArmPart]:
    """All arms; ``moments`` and ``noises`` are for the played ones only."""
    quantile = NormalDist().inv_cdf(0.5 + 0.5 * level)
    places = {int(position): place for place, position in enumerate(played)}
    out = []
    for position, label in enumerate(table.labels):
        seen: dict[str, Any] = {}
        place = places.get(position)
        if place is not None:
            plays, mean = float(moments.counts[place]), float(moments.means[place])
            seen["mean"] = mean
            if not math.isnan(noises[place]):
                error = math.sqrt(noises[place] / plays)
                ends = (mean - quantile * error, mean + quantile * error)
                low, high = wilson(mean, plays, quantile) if clicks else ends
                seen |= {"mean_stderr": error, "mean_low": low, "mean_high": high}
        if split is not None:
            above, below = float(split.above[position]), float(split.below[position])
            seen |= {
                "fit": float(split.fit[position]),
                "latent": float(split.parts[position]),
                "latent_stderr": float(split.stderr[position]),
                "shrinkage": float(split.shrinkage[position]),
                "chance": max(above, below),
            }
        out.append(ArmPart(label, 0 if place is None else int(moments.counts[place]), **seen))
    return out


def wilson(rate: float, plays: float, quantile: float) -> tuple[float, float]:
    """Wilson's interval of a rate; never outside 0 and 1."""
    square = quantile * quantile / plays
    middle = (rate + 0.5 * square) / (1.0 + square)
    half = math.sqrt(square * (rate * (1.0 - rate) + 0.25 * square)) / (1.0 + square)
    return min(middle - half, rate), max(middle + half, rate)
