"""Compute the status of an experiment from a view of it."""

from __future__ import annotations

import math
from typing import Any
from weakref import WeakKeyDictionary

from rolf.arms.table import Arms
from rolf.estimators.contract import begin, learn_totals, means, recompute
from rolf.estimators.posterior.clicks import CLICKS, linked_grid
from rolf.estimators.posterior.fixed import make_grid
from rolf.estimators.posterior.mixture import intervals, known_posterior, probabilities_of_best
from rolf.experiments.status.result import LEVEL, ArmStatus, Status
from rolf.experiments.status.timeline import Outcomes, timeline
from rolf.experiments.status.uplift import (
    control_shares,
    logged_uplift,
    make_uplift,
    posterior_uplift,
)
from rolf.experiments.status.view import View, clicks_in, view_of
from rolf.policies.catalogue import DEFAULT_POLICY
from rolf.policies.registry import policy_class
from rolf.types import FloatArray, IntArray

__all__ = ["status_of", "view_of"]

#: number of draws for the probabilities of being best
DRAWS = 10_000

#: number of rewards from which all zeros and ones are taken for clicks
ENOUGH_CLICKS = 20

#: models of RoLF-Bayes for the arms of experiments, cached since statuses need them repeatedly
_grids: WeakKeyDictionary[Arms, dict[bool, Any]] = WeakKeyDictionary()


def _model_of(view: View) -> tuple[str | None, list[str]]:
    """The model of the rewards, and notes for the user about it."""
    clicks = clicks_in(view.totals)
    if view.belief is None:
        if view.totals is None or view.features is None:
            return None, []
        return "binary" if clicks else "real", []
    model = view.options.get("rewards", "real")
    if model == "real" and clicks >= ENOUGH_CLICKS:
        return model, [
            f"all {clicks} rewards so far are 0 or 1; new experiments with the option "
            'rewards="binary" make use of that'
        ]
    return model, []


def status_of(
    name: str,
    view: View,
    control: Any = None,
    outcomes: Outcomes | None = None,
    *,
    level: float = LEVEL,
    available: IntArray | None = None,
    draws: int = DRAWS,
) -> Status:
    """The status of an experiment, from a view and, if given, the outcomes in its log.

    ``level`` is the level of the arms' intervals; the best arm is among the available ones.
    """
    roster, count = view.roster, view.roster.arms.count
    rivals = roster.positions if available is None else available
    position = None if control is None else roster.arms.position(control, "control")
    varying = policy_class(view.policy).varying
    unknown: list[Any] = [None] * count
    estimates, posterior_means, best = unknown, unknown, unknown
    ends: list[list[Any]] = [[None, None]] * count
    model, notes = _model_of(view)
    uplift = posterior_of = None
    if view.features is not None:
        beliefs = _beliefs(view, view.features)
        values = view.estimates
        if beliefs is not None:
            believed = means(*beliefs, view.features)
            values = believed if values is None else values
            known = known_posterior(*beliefs, view.features)
            posterior_of = view.policy if view.belief is not None else DEFAULT_POLICY
            posterior_means = believed.tolist()
            ends = intervals(known, count, level).tolist()
            if rivals.size:
                best = probabilities_of_best(known, count, rivals, draws).tolist()
            shares = control_shares(position, roster.active)
            if known is not None and not varying and any(view.asked) and shares is not None:
                numbers = posterior_uplift(known, view.asked, shares, LEVEL, believed)
                uplift = make_uplift(control, numbers, LEVEL, posterior_of)
        if values is not None:
            estimates = values.tolist()
    if varying and outcomes is not None:
        logged = logged_uplift(outcomes, position, LEVEL)
        if isinstance(logged, str):
            notes = [*notes, f"no uplift: {logged}"]
        else:
            uplift = make_uplift(control, logged, LEVEL)
    asked, told, rewards = sum(view.asked), sum(view.told), float(view.counts.sum())
    total = float(view.sums.sum())
    averages = [
        _finite(sums / size) if size else None
        for sums, size in zip(view.sums.tolist(), view.counts.tolist(), strict=True)
    ]
    return Status(
        name=name,
        policy=view.policy,
        options=view.options,
        asked=asked,
        told=told,
        defaults=view.defaults,
        pending=asked - told - view.defaults,
        model=model,
        notes=notes,
        arms=[
            ArmStatus(arm, bool(active), *values)
            for arm, active, *values in zip(
                roster.arms.labels,
                roster.active,
                view.asked,
                view.told,
                estimates,
                *zip(*[map(_finite, each) for each in ends], strict=True),
                best,
                averages,
                posterior_means,
                view.history,
                strict=True,
            )
        ],
        posterior_of=posterior_of,
        total_reward=total,
        mean_reward=total / rewards if rewards else None,
        uplift=uplift,
        timeline=None if outcomes is None else timeline(outcomes),
        history=sum(view.history),
        paused=roster.paused,
    )


def _beliefs(view: View, features: FloatArray) -> tuple[Any, Any] | None:
    """Model and belief of the policy or, if it has none, of RoLF-Bayes after the same rewards."""
    if view.belief is not None:
        return view.model, view.belief
    if view.totals is None or policy_class(view.policy).varying:
        return None
    arms, clicks = view.roster.arms, clicks_in(view.totals) > 0
    models = _grids.setdefault(arms, {})
    if clicks not in models:
        models[clicks] = linked_grid(features, CLICKS) if clicks else make_grid(features)
    model = models[clicks]
    belief = begin(model, arms.count)
    learn_totals(model, belief, view.totals)
    recompute(model, belief, 0)
    return model, belief


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
