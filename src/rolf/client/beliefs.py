"""What an experiment on a service says about its arms, and about their features."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rolf.arms.table import Arms
from rolf.checks import between, whole
from rolf.client.calls import named, path, round_given
from rolf.client.exchange import Call, Request
from rolf.types import FloatArray

if TYPE_CHECKING:
    from rolf.client.experiment import RemoteExperiment
    from rolf.diagnosis.result import Diagnosis


def estimates(
    experiment: RemoteExperiment, *, features: Any = None, context: Any = None
) -> Call[Any]:
    """Estimated mean reward of every arm: an array, or a Series for labelled arms."""
    known = yield from _believed(experiment, features, context)
    return _labelled(known, _column(known, "estimate"))


def rank(
    experiment: RemoteExperiment, k: int | None = None, *, features: Any = None, context: Any = None
) -> Call[list[Any]]:
    """The ``k`` best arms by estimate, best first, without retired ones; all by default."""
    count = None if k is None else whole("k", k, 1)
    known = yield from _believed(experiment, features, context)
    order = np.argsort(-_column(known, "estimate"), kind="stable")
    ordered = [known["arms"][place] for place in order]
    return [each["arm"] for each in ordered if each["active"]][:count]


def probability_best(
    experiment: RemoteExperiment,
    *,
    available: Iterable[Any] | None = None,
    features: Any = None,
    context: Any = None,
    draws: int = 10_000,
) -> Call[Any]:
    """The posterior probability of every arm to be the best one that is not retired, for policies
    with a posterior: the share of ``draws`` in which it is."""
    more = {} if whole("draws", draws, 1) == 10_000 else {"draws": int(draws)}
    known = yield from _believed(experiment, features, context, available, **more)
    _check_posterior(known)
    if not any(each["active"] for each in known["arms"]):
        from rolf.experiments.roster import all_retired

        raise all_retired()
    return _labelled(known, _column(known, "best"))


def intervals(
    experiment: RemoteExperiment, level: float = 0.9, *, features: Any = None, context: Any = None
) -> Call[Any]:
    """Posterior intervals of the arms' mean rewards, for policies with a posterior.

    Each holds the mean with probability ``level``, as much below as above. An array (K, 2), or a
    table with columns low and high for labelled arms. Unbounded while fewer than two different
    rewards have come.
    """
    more = {} if between("level", level, 0.0, 1.0) == 0.9 else {"level": float(level)}
    known = yield from _believed(experiment, features, context, **more)
    _check_posterior(known)
    ends = [_column(known, "low", -math.inf), _column(known, "high", math.inf)]
    return _labelled(known, np.column_stack(ends), ("low", "high"))


def _believed(
    experiment: RemoteExperiment, features: Any, context: Any, available: Any = None, **more: float
) -> Call[dict[str, Any]]:
    """What the service says about the arms, in a round if anything of one is given."""
    given = yield from round_given(experiment, available, features, context)
    place, question = path(experiment.name, "estimates"), {**given, **more}
    known: dict[str, Any]
    if not question:
        known = yield Request("GET", place)
        if any(each["estimate"] is not None for each in known["arms"]):
            return known
    known = yield Request("POST", place, question)  # which says what a round has to have
    return known


def _column(known: dict[str, Any], name: str, unknown: float = math.nan) -> FloatArray:
    values = [each[name] for each in known["arms"]]
    return np.array([unknown if value is None else value for value in values], dtype=np.float64)


def _labelled(
    known: dict[str, Any], values: FloatArray, columns: Sequence[str] | None = None
) -> Any:
    """Values per arm as a local experiment gives them."""
    labels = [each["arm"] for each in known["arms"]]
    return Arms(np.zeros((len(labels), 0)), named(labels)).labelled(values, columns)


def _check_posterior(known: dict[str, Any]) -> None:
    if known["posterior_of"] != known["policy"]:
        from rolf.experiments.experiment import no_posterior

        raise no_posterior(known["policy"])


def diagnosis(experiment: RemoteExperiment, *, level: float = 0.95) -> Call[Diagnosis]:
    """Whether the features explain the rewards, as ``rolf.diagnose`` finds.

    Args:
        level: of the intervals, and the chance at which a verdict is sure.
    """
    from rolf.diagnosis.lack_of_fit import LackOfFit
    from rolf.diagnosis.result import ArmDiagnosis, Diagnosis, Share

    params = {"level": between("level", level, 0.0, 1.0)}
    answer = yield Request("GET", path(experiment.name, "diagnosis"), params=params)
    data = {name: value for name, value in answer.items() if name in Diagnosis.__annotations__}
    nothing = {"level": level, "rewards": 0, "played": 0, "rank": 0, "arms": []}
    data = {**nothing, **data}
    data["arms"] = [ArmDiagnosis(**each) for each in data["arms"]]
    for name, kind in {"share": Share, "lack_of_fit": LackOfFit}.items():
        if data.get(name) is not None:
            data[name] = kind(**data[name])
    return Diagnosis(**data)
