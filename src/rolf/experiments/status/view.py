"""The input of a status, copied from an experiment so that asks do not wait for the computation."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from rolf.estimators.contract import ArmTotals
from rolf.experiments.log.replica import Replica
from rolf.experiments.log.totals import RewardTotals
from rolf.experiments.roster import Roster
from rolf.policies.core.parts import means
from rolf.policies.posterior_policy import PosteriorPolicy
from rolf.policies.state.arrays import copied
from rolf.types import FloatArray

#: older logs may hold larger rewards than are accepted now; their squares must not overflow
LARGEST = 1e140


@dataclass(frozen=True)
class View:
    """The input of a status, independent of later changes to the replica.

    Attributes:
        policy, options: those of the experiment.
        roster: its arms.
        asked, told, history, defaults: counts, as in the replica.
        features: (K, d); None if features come with every ask and none were passed.
        estimates: the policy's estimates; None if they follow from its belief.
        model, belief: those of a policy with a posterior; None otherwise.
        totals: the rewards of each arm.
        counts, sums: number and sum of each arm's rewards of decisions.
    """

    policy: str
    options: dict[str, Any]
    roster: Roster
    asked: list[int]
    told: list[int]
    history: list[int]
    defaults: int
    features: FloatArray | None = None
    estimates: FloatArray | None = None
    model: Any = None
    belief: Any = None
    totals: ArmTotals | None = None
    counts: FloatArray = field(default_factory=lambda: np.zeros(0))
    sums: FloatArray = field(default_factory=lambda: np.zeros(0))


def view_of(replica: Replica, features: Any = None) -> View:
    """Copy the input of a status from a replica: only O(K) numbers per component."""
    policy, totals = replica.policy, replica.totals
    counts = np.array(totals.counts) - np.array(replica.history)
    view = View(
        policy=replica.record.policy,
        options=dict(policy.options),
        roster=replica.roster,
        asked=list(replica.asked),
        told=list(replica.told),
        history=list(replica.history),
        defaults=replica.defaults,
        totals=_totals(totals),
        counts=counts,
        sums=np.array(totals.sums)
        + (totals.anchor or 0.0) * np.array(totals.counts)
        - np.array(replica.history_sums),
    )
    if policy.varying and features is None:
        return view
    table = policy.arms.features if features is None else features
    if isinstance(policy, PosteriorPolicy):
        belief = copied(replica.state.belief)
        return replace(view, features=table, model=policy.params.model, belief=belief)
    return replace(
        view,
        features=table,
        estimates=means(policy.params, replica.state, table),
    )


def _totals(totals: RewardTotals) -> ArmTotals | None:
    """The rewards of each arm; None without rewards, or if their squares are too large."""
    if totals.anchor is None:
        return None
    counts, sums, squares = np.array([totals.counts, totals.sums, totals.squares])
    largest = max(abs(totals.anchor), math.sqrt(np.abs(squares).max()))
    return ArmTotals(counts, sums, squares, totals.anchor) if largest <= LARGEST else None


def clicks_in(totals: ArmTotals | None) -> int:
    """The number of rewards if all of them are 0 or 1; otherwise 0."""
    if totals is None or totals.level not in (0.0, 1.0):
        return 0
    sums = totals.plain_sums
    squares = totals.squares + totals.level * (2.0 * totals.sums + totals.level * totals.counts)
    fine = (sums == squares) & (sums == np.floor(sums)) & (sums >= 0.0) & (sums <= totals.counts)
    return int(totals.counts.sum()) if fine.all() else 0
