"""The rewards of an experiment in the order of decisions, and their mean over time."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rolf.experiments.roster import Roster
from rolf.experiments.storage.rows import DECISION, ROSTER, LogRow, Row
from rolf.types import FloatArray, IntArray

#: maximum number of periods, and minimum number of decisions per period
PERIODS, SHORTEST = 20, 10


class Outcomes(NamedTuple):
    """The decisions of a log in order, as arrays (n,) with NaN for unknown values."""

    times: FloatArray
    arms: IntArray
    probabilities: FloatArray
    rewards: FloatArray
    actives: FloatArray  # number of active arms


@dataclass(frozen=True)
class Period:
    """A period of consecutive decisions.

    Attributes:
        first, last: numbers of the first and last decision, counted from 1.
        start, end: times of the first and last decision, in seconds since 1970.
        rewards: number of decisions with a reward, default rewards included.
        mean: mean of these rewards; None without rewards.
        stderr: standard error of the mean; None for fewer than two rewards.
    """

    first: int
    last: int
    start: float
    end: float
    rewards: int
    mean: float | None
    stderr: float | None


def read_outcomes(roster: Roster, rows: Iterable[LogRow]) -> Outcomes:
    """Read the outcomes of decisions from the rows of a log; ``roster`` is the initial one.

    The latest reward of a decision counts.
    """
    decisions: dict[int, list[float]] = {}
    active = len(roster.positions)
    for values in rows:
        row = Row(*values)
        if row.kind == DECISION:
            probability = math.nan if row.probability is None else row.probability
            decisions[row.number] = [row.time, row.arm, probability, math.nan, active]
        elif row.kind == ROSTER:
            roster = roster.changed(row.parsed)
            active = len(roster.positions)
        elif row.number in decisions and row.reward is not None:
            decisions[row.number][3] = float(row.reward)
    table = np.array([decisions[number] for number in sorted(decisions)]).reshape(-1, 5)
    times, arms, probabilities, rewards, actives = table.T
    return Outcomes(times, arms.astype(np.int64), probabilities, rewards, actives)


def timeline(outcomes: Outcomes) -> list[Period]:
    """The mean reward in each of about twenty periods with equally many decisions."""
    count = outcomes.times.size
    if not count:
        return []
    parts = max(1, min(PERIODS, count // SHORTEST))
    edges = np.linspace(0, count, parts + 1).astype(int)
    periods = []
    for start, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        rewards = outcomes.rewards[start:end]
        rewards = rewards[~np.isnan(rewards)]
        size = rewards.size
        periods.append(
            Period(
                first=start + 1,
                last=end,
                start=float(outcomes.times[start]),
                end=float(outcomes.times[end - 1]),
                rewards=size,
                mean=float(rewards.mean()) if size else None,
                stderr=float(rewards.std(ddof=1)) / math.sqrt(size) if size > 1 else None,
            )
        )
    return periods
