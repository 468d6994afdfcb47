"""How an experiment stands."""

from __future__ import annotations

import math
import warnings
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from rolf.errors import RolfWarning
from rolf.experiments.replica import Replica
from rolf.policies.operations import estimate
from rolf.policies.rolf_bayes import RoLFBayes


@dataclass(frozen=True)
class ArmStatus:
    """One arm.

    Attributes:
        arm: its name.
        active: whether it is still played.
        plays: decisions for it.
        told: rewards that came.
        estimate: of its mean reward; None where features come with every ask.
        low, high: ends of the 90% interval of its mean reward; where the policy has no
            posterior of its own, from that of RoLF-Bayes given the same rewards.
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
        name, policy, options: how it was made.
        asked: decisions so far.
        told: rewards that came.
        defaults: decisions that count with the default reward.
        waiting: decisions without a reward.
        arms: one entry an arm, retired ones included.
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
        """Plain data, as JSON takes it."""
        return asdict(self)


def status_of(name: str, replica: Replica, features: Any = None) -> Status:
    """What a replica knows, as people and programs read it."""
    policy, table = replica.policy, replica.table
    count = table.arms.count
    values: list[Any] = [None] * count
    ends: list[tuple[Any, Any]] = [(None, None)] * count
    best: list[Any] = [None] * count
    if not policy.varying or features is not None:
        given = {"features": features} if policy.varying else {}
        now = policy.arms.features if features is None else features
        values = [float(v) for v in estimate(policy.params, replica.state, now)]
        sure = _posterior(replica)
        if sure is not None:
            pairs = np.asarray(sure.intervals(**given)).tolist()
            ends = [(_finite(low), _finite(high)) for low, high in pairs]
        if sure is not None and table.positions.size:
            shares = np.asarray(sure.best(available=table.positions, **given)).tolist()
            best = [share if on else 0.0 for share, on in zip(shares, table.active, strict=True)]
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
                arm=table.arms.labels[i],
                active=bool(table.active[i]),
                plays=replica.asked[i],
                told=replica.told[i],
                estimate=values[i],
                low=ends[i][0],
                high=ends[i][1],
                best=best[i],
            )
            for i in range(count)
        ],
    )


def _posterior(replica: Replica) -> Any:
    """The policy, if it has a posterior; else one that knows the same rewards."""
    policy, moments = replica.policy, replica.moments
    if hasattr(policy, "intervals"):
        return policy
    if policy.varying or moments.anchor is None or not np.isfinite(moments.squares).all():
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RolfWarning)
        out = RoLFBayes(policy.arms.features, seed=0)
    out.learn_totals(moments.counts, moments.sums, moments.squares, level=moments.anchor)
    return out


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
