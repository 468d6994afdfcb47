"""What an experiment on a service says about its arms, from its status and its diagnosis."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from rolf.checks import between, whole
from rolf.client.exchange import Call, Request
from rolf.client.operations import labelled, path, status
from rolf.errors import ExperimentError

if TYPE_CHECKING:
    from rolf.client.remote import RemoteExperiment
    from rolf.diagnosis import Diagnosis
    from rolf.experiments.status import Status


def rank(experiment: RemoteExperiment, k: int | None = None) -> Call[list[Any]]:
    """The ``k`` best arms by estimate, best first, without retired ones; all by default."""
    count = None if k is None else whole("k", k, 1)
    known = yield from status(experiment)
    active = [(arm.estimate, arm.arm) for arm in known.arms if arm.active]
    if any(estimate is None for estimate, _ in active):
        raise _varying(known)
    active.sort(key=lambda pair: -(pair[0] or 0.0))
    return [arm for _, arm in active[:count]]


def best(experiment: RemoteExperiment) -> Call[Any]:
    """The posterior probability of every arm to be the best one that is not retired, for policies
    with a posterior."""
    known = yield from _with_posterior(experiment)
    chances = [math.nan if arm.best is None else arm.best for arm in known.arms]
    return labelled([arm.arm for arm in known.arms], np.array(chances))


def intervals(experiment: RemoteExperiment) -> Call[Any]:
    """90% posterior intervals of the arms' mean rewards, for policies with a posterior.

    An array (K, 2), or a table with columns low and high for labelled arms. Unbounded while fewer
    than two different rewards have come.
    """
    known = yield from _with_posterior(experiment)
    ends = [
        (-math.inf if arm.low is None else arm.low, math.inf if arm.high is None else arm.high)
        for arm in known.arms
    ]
    return labelled([arm.arm for arm in known.arms], np.array(ends), ("low", "high"))


def _with_posterior(experiment: RemoteExperiment) -> Call[Status]:
    known = yield from status(experiment)
    if known.posterior_of is None:
        raise _varying(known)
    if known.posterior_of != known.policy:
        raise ExperimentError(
            f"{known.policy} has no posterior, from which this follows; "
            "status() shows that of RoLF-Bayes given the same rewards"
        )
    return known


def _varying(known: Status) -> ExperimentError:
    return ExperimentError(
        f"{known.policy} takes features or a context with every ask, and this does not send any"
    )


def diagnosis(experiment: RemoteExperiment, *, level: float = 0.95) -> Call[Diagnosis]:
    """Whether the features explain the rewards, as ``rolf.diagnosis.diagnose`` finds.

    Args:
        level: of the intervals, and the chance at which a verdict is sure.
    """
    from rolf.diagnosis import ArmPart, Diagnosis, Share
    from rolf.diagnosis.moments import LackOfFit

    params = {"level": between("level", level, 0.0, 1.0)}
    answer = yield Request("GET", path(experiment.name, "diagnosis"), params=params)
    data = {name: value for name, value in answer.items() if name in Diagnosis.__annotations__}
    nothing = {"level": level, "rewards": 0, "played": 0, "rank": 0, "arms": []}
    data = {**nothing, **data}
    data["arms"] = [ArmPart(**each) for each in data["arms"]]
    for name, kind in {"share": Share, "lack_of_fit": LackOfFit}.items():
        if data.get(name) is not None:
            data[name] = kind(**data[name])
    return Diagnosis(**data)
