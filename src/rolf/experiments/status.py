"""The status of an experiment: counts, estimates and how certain they are."""

from __future__ import annotations

import math
import warnings
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from rolf.errors import RolfWarning
from rolf.experiments.replica import Replica
from rolf.policies.operations import estimate
from rolf.policies.rolf_bayes import RoLFBayes


@dataclass(frozen=True)
class ArmStatus:
    """The status of an arm.

    Attributes:
        arm: its name.
        active: whether it can still be chosen.
        plays: decisions for it.
        told: rewards told for it.
        estimate: of its mean reward; None if features come with every ask.
        low, high: ends of the 90% interval of its mean reward; if the policy has no posterior
            of its own, from that of RoLF-Bayes given the same rewards.
        best: the probability, from the same posterior, that it is the best active arm.
    """

    arm: Any
    active: bool
    plays: int
    told: int
    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    best: float | None = None


@dataclass(frozen=True)
class Status:
    """An experiment's counts and beliefs.

    Attributes:
        name, policy, options: as it was created.
        asked: decisions so far.
        told: rewards told.
        defaults: decisions that count with the default reward.
        waiting: decisions without a reward.
        arms: one entry per arm, retired ones included.
    """

    name: str
    policy: str
    options: dict[str, Any]
    asked: int
    told: int
    defaults: int
    waiting: int
    arms: list[ArmStatus]

    def to_dict(self) -> dict[str, Any]:
        """Plain data that JSON can hold."""
        return asdict(self)


class Counts(NamedTuple):
    """How many decisions were made, and how many rewards told."""

    asked: int
    told: int


@dataclass(frozen=True)
class ArmRecord:
    """An arm, how often it was played, how many rewards were told, and its features by column."""

    arm: Any
    active: bool
    plays: int
    told: int
    features: dict[str, float]


def arm_records(replica: Replica) -> list[ArmRecord]:
    """Every arm with its counts and features, as far as a replica knows."""
    arms = replica.roster.arms
    columns = zip(
        arms.labels,
        replica.roster.active,
        replica.asked,
        replica.told,
        arms.features.tolist(),
        strict=True,
    )
    return [
        ArmRecord(arm, bool(active), plays, told, dict(zip(arms.columns, row, strict=True)))
        for arm, active, plays, told, row in columns
    ]


def status_of(name: str, replica: Replica, features: Any = None) -> Status:
    """The status of an experiment, as far as a replica knows."""
    policy, roster = replica.policy, replica.roster
    count = roster.arms.count
    estimates: list[Any] = [None] * count
    intervals: list[tuple[Any, Any]] = [(None, None)] * count
    best: list[Any] = [None] * count
    if not policy.varying or features is not None:
        varying = {"features": features} if policy.varying else {}
        table = policy.arms.features if features is None else features
        estimates = [float(value) for value in estimate(policy.params, replica.state, table)]
        posterior = _posterior(replica)
        if posterior is not None:
            ends = np.asarray(posterior.intervals(**varying)).tolist()
            intervals = [(_finite(low), _finite(high)) for low, high in ends]
        if posterior is not None and roster.positions.size:
            best = np.asarray(posterior.best(available=roster.positions, **varying)).tolist()
    asked, told = sum(replica.asked), sum(replica.told)
    return Status(
        name=name,
        policy=replica.record.policy,
        options=dict(policy.options),
        asked=asked,
        told=told,
        defaults=replica.defaults,
        waiting=asked - told - replica.defaults,
        arms=[
            ArmStatus(
                arm=roster.arms.labels[i],
                active=bool(roster.active[i]),
                plays=replica.asked[i],
                told=replica.told[i],
                estimate=estimates[i],
                low=intervals[i][0],
                high=intervals[i][1],
                best=best[i],
            )
            for i in range(count)
        ],
    )


def _posterior(replica: Replica) -> Any:
    """The policy, if it has a posterior; otherwise one that learned from the same rewards."""
    policy, moments = replica.policy, replica.moments
    if hasattr(policy, "intervals"):
        return policy
    if policy.varying or moments.anchor is None or not np.isfinite(moments.squares).all():
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RolfWarning)
        posterior = RoLFBayes(policy.arms.features, seed=0)
    posterior.learn_totals(moments.counts, moments.sums, moments.squares, level=moments.anchor)
    return posterior


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
