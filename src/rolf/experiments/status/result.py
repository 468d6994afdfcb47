"""The status of an experiment: counts, estimates and their uncertainty."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rolf.checks import whole
from rolf.experiments.log.replica import Replica
from rolf.experiments.status import text as status_text
from rolf.experiments.status.timeline import Period
from rolf.experiments.status.uplift import Uplift
from rolf.text import format_table, html_lines, html_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: level of the intervals
LEVEL = 0.9

#: number of arms in a printed status
SHOWN = 20


@dataclass(frozen=True)
class ArmStatus:
    """The status of one arm.

    Attributes:
        arm: name of the arm.
        active: whether it can still be chosen.
        plays: number of decisions for it.
        told: number of rewards told for it.
        estimate: the policy's estimate of its mean reward; None if features come with every ask.
        low, high: ends of the 90% interval around ``posterior_mean``.
        best: the probability, from the same posterior, that it is the best active arm.
        mean: mean of its rewards so far, default rewards included; None without rewards.
        posterior_mean: its mean reward according to the posterior of ``Status.posterior_of``; equal
            to ``estimate`` if that is the policy's own.
        history: number of its rounds of history, which count neither as plays nor as told.
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
        name, policy, options: as the experiment was created.
        asked: number of decisions so far.
        told: number of rewards told.
        defaults: number of decisions that count with the default reward.
        pending: number of decisions without a reward.
        model: model of the rewards behind intervals and probabilities: "real", "binary" or
            "counts"; None if there is none.
        notes: remarks for the user.
        arms: one entry per arm, retired ones included.
        posterior_of: the policy whose posterior yields intervals and probabilities: the
            experiment's own if it has one, otherwise "rolf-bayes" after the same rewards; None if
            there is none.
        total_reward: sum of all rewards, default rewards included.
        mean_reward: mean of all rewards; None without rewards.
        uplift: average gain per decision over the control; None if unknown.
        timeline: rewards over time; None unless requested.
        history: number of rounds of history that were learned.
        paused: whether the experiment makes no decisions until it is resumed.
    """

    name: str
    policy: str
    options: dict[str, Any]
    asked: int
    told: int
    defaults: int
    pending: int
    model: str | None
    notes: list[str]
    arms: list[ArmStatus]
    posterior_of: str | None = None
    total_reward: float = 0.0
    mean_reward: float | None = None
    uplift: Uplift | None = None
    timeline: list[Period] | None = None
    history: int = 0
    paused: bool = False

    def to_dict(self) -> dict[str, Any]:
        """The status as plain data for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Status:
        """The inverse of ``to_dict``; unknown fields are ignored."""
        known = {each.name: data[each.name] for each in fields(cls) if each.name in data}
        known["arms"] = [ArmStatus(**each) for each in data["arms"]]
        if data.get("uplift") is not None:
            known["uplift"] = Uplift(**data["uplift"])
        if data.get("timeline") is not None:
            known["timeline"] = [Period(**each) for each in data["timeline"]]
        return cls(**known)

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
            path: where to write the picture; by default it is not written.
            top: number of arms.
            ax: Matplotlib axes to draw the arms into; a new figure by default.

        Returns the figure.
        """
        from rolf.plots.status import status_figure
        from rolf.plots.style import finish

        arms = status_text.ordered(self)[: whole("top", top, 1)]
        title, note = status_text.head(self), status_text.rest(self, top)
        figure = status_figure(self, arms, title=title, note=note, level=LEVEL, ax=ax)
        return finish(figure, path)


class Counts(NamedTuple):
    """Numbers of decisions and of rewards told."""

    asked: int
    told: int


@dataclass(frozen=True)
class ArmRecord:
    """An arm with its number of plays, its number of rewards, and its features by column."""

    arm: Any
    active: bool
    plays: int
    told: int
    features: dict[str, float]


def arm_records(replica: Replica) -> list[ArmRecord]:
    """Every arm with its counts and features, from a replica."""
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
