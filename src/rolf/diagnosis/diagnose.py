"""Do my features explain the rewards? An answer from repeated rewards of each arm.

The answer rests on the posterior of one number, the share of the variance between arms that the
features explain (``rolf.diagnosis.posterior``), so it holds however the arms were chosen. The
rules, in this order; "surely" means with a posterior probability of at least ``level``:

1. not enough data: no arm has two rewards, all rewards are equal, or the arms do not surely differ;
2. use RoLF: the share is surely at least 0.05 and surely at most 0.95, so both parts count;
3. trust the features: it is surely at least 0.8;
4. ignore the features: it is surely at most 0.2;
5. use RoLF: it is surely at most 0.95, so something beyond the features moves the arms;
6. otherwise there is not enough data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np

from rolf.arms.table import Arms
from rolf.checks import between
from rolf.diagnosis.evidence import Evidence
from rolf.diagnosis.lack_of_fit import ArmSummary, design, lack_of_fit, noise_of
from rolf.diagnosis.posterior import Split, click_belief, real_belief, split_of
from rolf.diagnosis.result import ArmDiagnosis, Diagnosis, Share, share_text
from rolf.errors import InvalidArgument
from rolf.extras import require
from rolf.logs.layout import OPEN_BANDIT, OWN, Layout
from rolf.logs.log import ChooseLayout, as_log
from rolf.logs.reader import Decisions, LogPart
from rolf.parallel.sections import Workers
from rolf.progress import progress_bar
from rolf.tables.labels import Lookup
from rolf.types import FloatArray, IntArray

TRUST, ROLF, IGNORE = "trust the features", "use RoLF", "ignore the features"
UNKNOWN = "not enough data"
#: features that explain at least MOST are trusted, those that explain at most LITTLE ignored
MOST, LITTLE = 0.8, 0.2
#: the smallest share of the variance between arms that counts
SOME = 0.05


def diagnose(
    log: Any,
    features: Any,
    *,
    arm: str | None = None,
    reward: str | None = None,
    probability: str | None = None,
    level: float = 0.95,
    randomised: bool = False,
    progress: bool | Callable[[str], None] | None = None,
    backend: str = "local",
    jobs: int | None = None,
    address: str | None = None,
) -> Diagnosis:
    """Do these features explain the rewards of this log?

    If all rewards are 0 or 1 they are treated as clicks, and the variance of their log-odds is
    split. A log in files is read part by part and may be larger than memory.

    Args:
        log: the path of a log (CSV, Parquet, or a folder of Parquet files, one reward per row), a
            ``rolf.Log``, or pairs of an arm and its reward. Rows without a reward are left out.
        features: (K, d), one row per arm: an array, a nested list, a DataFrame whose index names
            the arms, or the path of a table of arms. They are standardised and an intercept is
            added; redundant columns are harmless.
        arm: the column of a file with the arm of each reward; by default "arm", or the Open Bandit
            Dataset's.
        reward: the column with the reward; by default "reward", or the Open Bandit Dataset's.
        probability: the column with the probability of each choice; by default "probability", if it
            exists and has no gaps. If every arm always had the same probability, there are tests as
            well.
        level: of the interval of the share, and the probability at which a verdict is sure.
        randomised: the arms were chosen at random, without regard to rewards. This adds tests,
            which would be wrong for the log of a policy that learns.
        progress: show a progress bar; by default on a terminal.
        backend: where to read the parts of a log in files, as for ``rolf.replay``.
        jobs: how many parts to read at the same time.
        address: of the Dask or Ray cluster.

    >>> arms, rewards = [0, 0, 1, 1, 2, 2, 3, 3], [1, 2, 3, 4, 1, 2, 3, 4]
    >>> log = list(zip(arms, rewards, strict=True))
    >>> diagnosis = diagnose(log, [[0], [1], [2], [3]], randomised=True)
    >>> diagnosis.verdict, diagnosis.lack_of_fit.df1, diagnosis.lack_of_fit.df2
    ('not enough data', 2, 4)
    >>> round(diagnosis.lack_of_fit.statistic, 9)
    6.4
    """
    workers = Workers.checked(backend, jobs, address)
    table = Arms.read(features)
    level = between("level", level, 0.0, 1.0)
    if not isinstance(randomised, bool):
        raise InvalidArgument("randomised", randomised, "True or False")
    source = as_log(log, _layout(arm, reward, probability))
    first = next((each for each in _rewarded(source.parts)), None)
    if first is None:
        name = log if isinstance(log, str | Path) else "log"
        raise InvalidArgument(f"{name}", "no row with a reward", "rewards")
    centre = float(first.rewards.mean())  # rewards far from zero would lose digits
    function = partial(_evidence, table, centre)
    seen: Evidence | None = None
    with progress_bar(progress, len(source.parts), "reading") as advance:
        for evidence in workers.results(function, source.parts, source.rows):
            seen = _plus(seen, evidence)
            advance(Path(log).name if isinstance(log, str | Path) else "log")
    assert seen is not None
    diagnosis = diagnosis_of(table, seen, level, randomised)
    return replace(diagnosis, without_reward=source.rows - diagnosis.rewards)


def _layout(arm: str | None, reward: str | None, probability: str | None) -> Layout | ChooseLayout:
    """The layout, with the columns that the user names."""

    def named(names: Sequence[str]) -> Layout:
        open_bandit = arm is None and "arm" not in names and "item_id" in names
        usual = OPEN_BANDIT if open_bandit else OWN
        columns = (arm or usual[0], reward or usual[1], probability or usual[2])
        return Layout(*columns, certain=probability is not None)

    if arm is not None:
        return named([])
    return lambda path, names: named(names).fitted(path, names)


def _rewarded(parts: Iterable[LogPart]) -> Iterator[Decisions]:
    """Read the decisions of some parts that have a reward, batch by batch."""
    return (each for part in parts for each in part.batches() if each.size)


def _evidence(table: Arms, centre: float, part: LogPart) -> Evidence | None:
    """The evidence in a part of a log; None if no row has a reward."""
    lookup = Lookup(table.labels)
    evidence: Evidence | None = None
    for each in _rewarded([part]):
        known = each.probabilities
        probabilities = None if math.isnan(float(known.min())) else known
        positions = each.positions(lookup)
        more = Evidence.of(positions, each.rewards, table.count, centre, probabilities)
        evidence = _plus(evidence, more)
    return evidence


def _plus(one: Evidence | None, other: Evidence | None) -> Evidence | None:
    if one is None or other is None:
        return one or other
    return one.plus(other)


def diagnosis_of(table: Arms, evidence: Evidence, level: float, randomised: bool) -> Diagnosis:
    """The diagnosis for this evidence; ``randomised`` as in ``diagnose``."""
    require("scipy", "a diagnosis")
    if evidence.probabilities is not None:
        randomised = randomised or evidence.probabilities.at_random
    summary, played = evidence.summary(), evidence.played
    columns = design(table.features[played])
    clicks = evidence.clicks
    if clicks:  # the sums are whole numbers: undo rounding
        summary = summary._replace(means=np.rint(summary.counts * summary.means) / summary.counts)
    numbers: dict[str, Any] = {
        "level": level,
        "rewards": int(evidence.counts.sum()),
        "played": played.size,
        "rank": columns.shape[1] - 1,
        "scale": "log-odds" if clicks else "rewards",
        "randomised": randomised,
        "noise": None if math.isnan(summary.pooled) else summary.pooled,
    }
    if summary.freedom < 1 or evidence.low == evidence.high:
        reason = (
            "No arm has two rewards, so noise and latent parts cannot be told apart."
            if summary.freedom < 1
            else "All rewards are equal: there is nothing to explain."
        )
        noises = np.full(played.size, summary.pooled)
        parts = arm_diagnoses(table, played, summary, noises, None, clicks, level)
        return Diagnosis(UNKNOWN, reason, **numbers, arms=parts).times(evidence.unit)
    noises = noise_of(columns, summary)
    if clicks:
        counts, sums = np.zeros((2, table.count))
        counts[played], sums[played] = summary.counts, summary.counts * summary.means
        split = split_of(click_belief(table.features, counts, sums))
    else:
        split = split_of(real_belief(table.features, played, summary, noises))
    share = share_of(split, level)
    verdict, reason = verdict_of(share, split.differ, level)
    exact = played.size <= columns.shape[1]
    if verdict == UNKNOWN and exact:
        reason += (
            f" {played.size} played arms are fitted exactly by an intercept and features of rank "
            f"{columns.shape[1] - 1}: play more arms, or use fewer features."
        )
    if randomised and not exact:
        numbers["lack_of_fit"] = lack_of_fit(columns, summary)
        numbers["differ_p_value"] = lack_of_fit(columns[:, :1], summary).robust_p_value
    return Diagnosis(
        verdict,
        reason,
        **numbers,
        share=share,
        explained=float(np.median(split.explained)),
        latent=float(np.median(split.latent)),
        arms=arm_diagnoses(table, played, summary, noises, split, clicks, level),
    ).times(evidence.unit)


def share_of(split: Split, level: float) -> Share:
    """The share and its interval, with the probabilities that the rules need."""
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
    """The verdict and its reason, where the share is known; ``differ`` is the probability that the
    arms differ."""
    if differ < level:
        return UNKNOWN, "The arms do not differ measurably: there is nothing to explain yet."
    size = share_text(share, level, " of the variance between arms")
    if share.some >= level and share.not_all >= level:
        return ROLF, (
            f"The features explain {size}; something that they do not capture moves the arms, too."
        )
    if share.most >= level:
        return TRUST, f"The features explain {size}; no other effect is visible."
    if share.little >= level:
        return IGNORE, f"The features explain {size}: next to nothing, yet the arms differ."
    if share.not_all >= level:
        return ROLF, (
            "Something that the features do not capture moves the arms. "
            f"The features explain {size}; whether they help at all is open."
        )
    return UNKNOWN, f"The features explain {size}: too wide to decide."


def arm_diagnoses(
    table: Arms,
    played: IntArray,
    summary: ArmSummary,
    noises: FloatArray,
    split: Split | None,
    clicks: bool,
    level: float,
) -> list[ArmDiagnosis]:
    """One entry per arm; ``summary`` and ``noises`` cover the played arms only."""
    quantile = NormalDist().inv_cdf(0.5 + 0.5 * level)
    places = {int(position): place for place, position in enumerate(played)}
    out = []
    for position, label in enumerate(table.labels):
        seen: dict[str, Any] = {}
        place = places.get(position)
        if place is not None:
            plays, mean = float(summary.counts[place]), float(summary.means[place])
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
                "probability": max(above, below),
            }
        out.append(ArmDiagnosis(label, 0 if place is None else int(summary.counts[place]), **seen))
    return out


def wilson(rate: float, plays: float, quantile: float) -> tuple[float, float]:
    """Wilson's interval of a rate, always within 0 and 1."""
    square = quantile * quantile / plays
    middle = (rate + 0.5 * square) / (1.0 + square)
    half = math.sqrt(square * (rate * (1.0 - rate) + 0.25 * square)) / (1.0 + square)
    return min(middle - half, rate), max(middle + half, rate)
