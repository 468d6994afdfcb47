"""How an experiment stands."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from rolf.experiments.replica import Replica
from rolf.policies.operations import estimate


@dataclass(frozen=True)
class ArmStatus:
    """One arm.

    Attributes:
        arm: its name.
        active: whether it is still played.
        plays: decisions for it.
        told: rewards that came.
        estimate: of its mean reward; None where features come with every ask.
        low, high: ends of its 90% interval, where the policy has a posterior.
        best: the posterior probability that it is the best active arm.
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
        if hasattr(policy, "intervals"):
            pairs = np.asarray(policy.intervals(**given)).tolist()
            ends = [(_finite(low), _finite(high)) for low, high in pairs]
        if hasattr(policy, "best") and table.positions.size:
            shares = np.asarray(policy.best(available=table.positions, **given)).tolist()
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


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
