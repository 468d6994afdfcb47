"""The status of an experiment as text and as a table, for terminals and notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rolf.text import counted

if TYPE_CHECKING:
    from rolf.experiments.status.result import ArmStatus, Status


def head(status: Status) -> str:
    return (
        f"{status.name}: {status.policy}; {status.asked} asked, {status.told} told, "
        f"{status.pending} pending"
        + (f", {status.defaults} by default" if status.defaults else "")
        + (f"; {counted(status.history, 'round')} of history" if status.history else "")
        + ("; paused" if status.paused else "")
    )


def sentences(status: Status) -> list[str]:
    """Total reward and uplift, and notes for reading the table."""
    lines = []
    if status.mean_reward is not None:
        lines.append(
            f"total reward: {status.total_reward:.6g}, {status.mean_reward:.4g} on average"
        )
    if status.uplift is not None:
        lines.append(f"uplift: {status.uplift}")
    if status.model is not None:
        lines.append(f"model of the rewards: {status.model}")
    if _borrowed(status):
        lines.append(
            f"{status.policy} has no intervals: the last three columns come from "
            f"{status.posterior_of} after the same rewards"
        )
    return [*lines, *(f"note: {note}" for note in status.notes)]


def ordered(status: Status) -> list[ArmStatus]:
    """The arms, best first: active ones first, by estimate, then by plays."""
    return sorted(status.arms, key=lambda arm: (not arm.active, -(arm.estimate or 0.0), -arm.plays))


def table(status: Status, top: int | None = None) -> list[list[str]]:
    """A header and one row per arm, for the ``top`` arms or all."""
    unknown = all(arm.estimate is None for arm in status.arms)  # features come with every ask
    posterior = any(arm.best is not None for arm in status.arms)
    header = ["arm", "plays", "told", "mean so far" if unknown else "estimate"]
    if posterior:
        header += [status.posterior_of or ""] * _borrowed(status) + ["90% interval", "best"]
    rows = [header]
    for arm in ordered(status)[:top]:
        label = str(arm.arm) if arm.active else f"{arm.arm} (retired)"
        row = [label, str(arm.plays), str(arm.told), _number(arm.mean if unknown else arm.estimate)]
        if posterior:
            row += [_number(arm.posterior_mean)] * _borrowed(status)
            row.append(_interval(arm))
            row.append("" if arm.best is None else f"{arm.best:.1%}")
        rows.append(row)
    return rows


def rest(status: Status, top: int | None) -> str:
    """A note on how many arms a table of the ``top`` arms leaves out; empty if none."""
    more = 0 if top is None else len(status.arms) - top
    return f"and {counted(more, 'more arm')}" if more > 0 else ""


def over_time(status: Status) -> list[list[str]]:
    """A header and one row per period of the timeline."""
    rows = [["decisions", "rewards", "mean", "stderr"]]
    for period in status.timeline or ():
        span = f"{period.first} to {period.last}"
        rows.append([span, str(period.rewards), _number(period.mean), _number(period.stderr)])
    return rows


def _borrowed(status: Status) -> bool:
    """Whether the intervals are not the policy's own."""
    return status.posterior_of not in (None, status.policy)


def _interval(arm: ArmStatus) -> str:
    if arm.low is None or arm.high is None:
        return "any"
    return f"{_number(arm.low)} to {_number(arm.high)}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"
