"""The status of an experiment: counts, estimates and how certain they are."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from rolf.arms.table import Arms
from rolf.checks import whole
from rolf.estimators.linked_posterior import linked_grid
from rolf.estimators.links import CLICKS
from rolf.estimators.mixture import chances_of_best, intervals, known_posterior
from rolf.estimators.operations import ArmTotals, begin, learn_totals, means, recompute
from rolf.estimators.posterior import make_grid
from rolf.experiments import status_text
from rolf.experiments.moments import Moments
from rolf.experiments.replica import Replica
from rolf.experiments.roster import Roster
from rolf.experiments.timeline import Outcomes, Period, timeline
from rolf.experiments.uplift import (
    Uplift,
    control_shares,
    logged_uplift,
    make_uplift,
    posterior_uplift,
)
from rolf.policies.arrays import copied
from rolf.policies.catalogue import DEFAULT_POLICY
from rolf.policies.operations import estimate
from rolf.policies.posterior_policy import PosteriorPolicy
from rolf.policies.registry import policy_class
from rolf.text import format_table, html_lines, html_table
from rolf.types import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: of the intervals, and draws for the chances of being best
LEVEL = 0.9
DRAWS = 10_000

#: arms in the table of a printed status
SHOWN = 20

#: rewards, all 0 or 1, from which they are taken to be clicks
ENOUGH_CLICKS = 20

#: the models of RoLF-Bayes, for clicks and others, for the arms of an experiment: its status needs
#: them again and again
_grids: WeakKeyDictionary[Arms, dict[bool, Any]] = WeakKeyDictionary()
#: rewards of older logs may be larger than what is accepted now: their squares must add up
LARGEST = 1e140


@dataclass(frozen=True)
class ArmStatus:
    """The status of an arm.

    Attributes:
        arm: its name.
        active: whether it can still be chosen.
        plays: decisions for it.
        told: rewards told for it.
        estimate: of its mean reward, by the policy; None if features come with every ask.
        low, high: ends of the 90% interval around ``posterior_mean``.
        best: the probability, from the same posterior, that it is the best active arm.
        mean: of its rewards so far, default rewards included; None without any.
        posterior_mean: of its mean reward, by the posterior that ``Status.posterior_of`` names;
            the same as ``estimate`` if that is the policy's own.
        history: rounds from before the experiment, which count neither as plays nor as told.
    """

    arm: Any
    active: bool
    plays: int
    told: int
    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    best: float | None = None
    mean: float | None = None
    posterior_mean: float | None = None
    history: int = 0


@dataclass(frozen=True, repr=False)
class Status:
    """An experiment's counts and beliefs.

    Attributes:
        name, policy, options: as it was created.
        asked: decisions so far.
        told: rewards told.
        defaults: decisions that count with the default reward.
        waiting: decisions without a reward.
        model: of the rewards, from which intervals and probabilities follow: "real", "binary" or
            "counts"; None if there is none.
        notes: what a user should know about it.
        arms: one entry per arm, retired ones included.
        posterior_of: the policy whose posterior the intervals and probabilities come from: the
            experiment's own if it has one, otherwise "rolf-bayes", given the same rewards; None if
            there is none.
        total_reward: the sum of all rewards, default rewards included.
        mean_reward: their mean; None without any.
        uplift: what a decision earned beyond what the control would have; None if unknown.
        timeline: rewards over time; None unless asked for.
        history: rounds from before the experiment that were learned.
    """

    name: str
    policy: str
    options: dict[str, Any]
    asked: int
    told: int
    defaults: int
    waiting: int
    model: str | None
    notes: list[str]
    arms: list[ArmStatus]
    posterior_of: str | None = None
    total_reward: float = 0.0
    mean_reward: float | None = None
    uplift: Uplift | None = None
    timeline: list[Period] | None = None
    history: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Plain data that JSON can hold."""
        return asdict(self)

    def __str__(self) -> str:
        lines = [status_text.head(self), *status_text.sentences(self)]
        lines.append(format_table(status_text.table(self, SHOWN)))
        return "\n".join(filter(None, [*lines, status_text.rest(self, SHOWN)]))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        lines = html_lines(status_text.head(self), *status_text.sentences(self))
        rest = html_lines(status_text.rest(self, SHOWN), bold=False)
        return lines + html_table(status_text.table(self, SHOWN)) + rest

    def plot(
        self, path: str | Path | None = None, *, top: int = 10, ax: Axes | None = None
    ) -> Figure:
        """The best arms with their intervals and, if the status has a timeline, reward over time.

        Args:
            path: where to write the picture; nowhere by default.
            top: how many arms.
            ax: a Matplotlib axes to draw the arms into; a new figure by default.

        Returns the figure.
        """
        from rolf.plots.status import status_figure
        from rolf.plots.style import finish

        arms = status_text.ordered(self)[: whole("top", top, 1)]
        title, note = status_text.head(self), status_text.rest(self, top)
        figure = status_figure(self, arms, title=title, note=note, level=LEVEL, ax=ax)
        return finish(figure, path)


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


@dataclass(frozen=True)
class View:
    """What a status is computed from: nothing in it changes with the replica.

    Attributes:
        policy, options: of the experiment.
        roster: the arms.
        asked, told, history, defaults: counts, as in the replica.
        features: (K, d); None if features come with every ask and none were given.
        estimates: of the policy; None if they follow from its belief.
        model, belief: of a policy that has a posterior; None if it has none.
        totals: the rewards of every arm.
        counts, sums: how many rewards of decisions every arm has, and their sum.
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


def capture(replica: Replica, features: Any = None) -> View:
    """Copy from a replica what its status needs: O(K) numbers per component, and no more."""
    policy, moments = replica.policy, replica.moments
    counts = np.array(moments.counts) - np.array(replica.history)
    view = View(
        policy=replica.record.policy,
        options=dict(policy.options),
        roster=replica.roster,
        asked=list(replica.asked),
        told=list(replica.told),
        history=list(replica.history),
        defaults=replica.defaults,
        totals=_totals(moments),
        counts=counts,
        sums=np.array(moments.sums)
        + (moments.anchor or 0.0) * np.array(moments.counts)
        - np.array(replica.past_sums),
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
        estimates=np.array(estimate(policy.params, replica.state, table)),
    )


def _totals(moments: Moments) -> ArmTotals | None:
    """The rewards of every arm; None if there are none, or if their squares are too large."""
    if moments.anchor is None:
        return None
    counts, sums, squares = np.array([moments.counts, moments.sums, moments.squares])
    largest = max(abs(moments.anchor), math.sqrt(np.abs(squares).max()))
    return ArmTotals(counts, sums, squares, moments.anchor) if largest <= LARGEST else None


def _clicks(totals: ArmTotals | None) -> int:
    """How many rewards there are, if each of them is 0 or 1; otherwise 0."""
    if totals is None or totals.level not in (0.0, 1.0):
        return 0
    sums = totals.sums + totals.level * totals.counts
    squares = totals.squares + totals.level * (2.0 * totals.sums + totals.level * totals.counts)
    fine = (sums == squares) & (sums == np.floor(sums)) & (sums >= 0.0) & (sums <= totals.counts)
    return int(totals.counts.sum()) if fine.all() else 0


def _model_of(view: View) -> tuple[str | None, list[str]]:
    """The model of the rewards, and what a user should know about it."""
    clicks = _clicks(view.totals)
    if view.belief is None:
        if view.totals is None or view.features is None:
            return None, []
        return "binary" if clicks else "real", []
    model = view.options.get("rewards", "real")
    if model == "real" and clicks >= ENOUGH_CLICKS:
        return model, [
            f"all {clicks} rewards so far are 0 or 1; new experiments with the option "
            'rewards="binary" respect that'
        ]
    return model, []


def status_from(
    name: str, view: View, control: Any = None, outcomes: Outcomes | None = None
) -> Status:
    """The status of an experiment, computed from what was copied and, if given, from its log."""
    roster, count = view.roster, view.roster.arms.count
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
            ends = intervals(known, count, LEVEL).tolist()
            if roster.positions.size:
                best = chances_of_best(known, count, roster.positions, DRAWS).tolist()
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
    columns = (roster.arms.labels, roster.active, view.asked, view.told, estimates, ends, best)
    return Status(
        name=name,
        policy=view.policy,
        options=view.options,
        asked=asked,
        told=told,
        defaults=view.defaults,
        waiting=asked - told - view.defaults,
        model=model,
        notes=notes,
        arms=[
            ArmStatus(
                arm,
                bool(active),
                plays,
                rewarded,
                estimate,
                _finite(low),
                _finite(high),
                chance,
                average,
                expected,
                past,
            )
            for arm, active, plays, rewarded, estimate, (
                low,
                high,
            ), chance, average, expected, past in zip(
                *columns, averages, posterior_means, view.history, strict=True
            )
        ],
        posterior_of=posterior_of,
        total_reward=total,
        mean_reward=total / rewards if rewards else None,
        uplift=uplift,
        timeline=None if outcomes is None else timeline(outcomes),
        history=sum(view.history),
    )


def _beliefs(view: View, features: FloatArray) -> tuple[Any, Any] | None:
    """Model and belief of the policy; otherwise those of RoLF-Bayes, given the same rewards."""
    if view.belief is not None:
        return view.model, view.belief
    if view.totals is None or policy_class(view.policy).varying:
        return None
    arms, clicks = view.roster.arms, _clicks(view.totals) > 0
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
