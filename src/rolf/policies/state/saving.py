"""Save and load a policy as JSON-compatible data, and merge the states of several workers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from rolf.arms.table import Arms, number_table
from rolf.checks import MAX_COUNT, between, whole
from rolf.errors import IncompatibleState, InvalidArgument, UnknownPolicy
from rolf.estimators.contract import check_rest, check_totals, same
from rolf.policies.core import parts
from rolf.policies.registry import policy_class, policy_name
from rolf.policies.state.arrays import arrays, copied, fill, find, like, pack, under
from rolf.policies.state.generators import generator_data, generator_of
from rolf.policies.state.pending import Pending
from rolf.types import Choice, Seed

FORMAT = "rolf-policy"
VERSION = 1


def save(policy: Any) -> dict[str, Any]:
    """The policy as data."""
    name = policy_name(type(policy))
    if "<locals>" in name:
        got, expected = f"{type(policy).__name__}.name = ''", "a name, to find the class again"
        raise InvalidArgument("name", got, expected)
    for label in policy.arms.labels:
        if not isinstance(label, str | int | float | bool):
            raise InvalidArgument("features", label, "arm names that JSON can hold, to be saved")
    decisions = policy.decisions
    return {
        "format": FORMAT,
        "version": VERSION,
        "policy": name,
        "options": dict(policy.options),
        "features": policy.arms.features.tolist(),
        "labels": policy.arms.labels if policy.arms.named else None,
        "columns": policy.arms.columns if policy.arms.named else None,
        "state": {
            path: pack(array)
            for path, array in arrays(policy.state)
            if not under(policy.derived, path)
        },
        "pending": {
            key: {**_choice_data(each.choice), "row": each.row.tolist()}
            for key, each in decisions.by_id.items()
        },
        "issued": decisions.issued,
        "tag": decisions.tag,
        "rng": generator_data(policy.rng),
    }


def load(cls: type, data: Any, seed: Seed) -> Any:
    """The policy of saved data; everything in them is checked."""
    data = _checked(data)
    saved_class = _class_of(data)
    if not issubclass(saved_class, cls):
        wanted = getattr(cls, "name", "") or cls.__name__
        raise IncompatibleState(f"a state of {data['policy']!r} is not one of {wanted!r}")
    with _damage_refused(data["policy"]):
        policy = _blank(saved_class, data)
        _restore(policy, data)
        _restore_pending(policy, data["pending"])
        check_state(policy)
        if seed is None:
            policy.decisions.tag = _tag(data["tag"])
            least = max(policy.decisions.own_numbers(), default=0)  # issue no id twice
            policy.decisions.issued = whole("issued", data["issued"], least, MAX_COUNT)
            policy.rng = generator_of(data["rng"])
        else:  # an independent worker from here on
            policy.rng = np.random.default_rng(seed)
    return policy


def merge(saved: Sequence[Any], base: Any, seed: Seed) -> dict[str, Any]:
    """Merge saved data; ``base``, where all of them started, counts once."""
    if not saved:
        raise InvalidArgument("states", "none", "at least one saved state")
    known = [_checked(data) for data in ([*saved, base] if base is not None else saved)]
    for data in known:
        for field in ("policy", "options", "features", "labels"):
            if data.get(field) != known[0].get(field):
                raise IncompatibleState(f"the states differ in their {field} and cannot be added")
    name = known[0]["policy"]
    with _damage_refused(name):
        tags = [_tag(data["tag"]) for data in known[: len(saved)]]
        if len(set(tags)) < len(tags):
            raise IncompatibleState(
                "two of the states are of one and the same run and would count twice: start each "
                "worker on its own, or with from_dict(data, seed=...)"
            )
        policy = _blank(_class_of(known[0]), {**known[0], "seed": seed})
        if len(known) > 1 and policy.traits.additive is not True:
            reason = policy.traits.additive
            raise IncompatibleState(f"states of {name!r} cannot be added: {reason}")
        _add_up(policy, known, based=base is not None)
        _restore_pending(policy, _still_pending(known[: len(saved)], base))
        check_state(policy)
    return save(policy)


def check_state(policy: Any) -> None:
    """Raise ValueError if a policy's state is impossible.

    For states from a file or a database. Every number is checked once: a wrong one could do worse
    than cause a wrong decision, since compiled code trusts its arguments.
    """
    state = policy.state
    _check_totals(policy, state)
    if not ((state.pending >= 0.0) & (state.pending <= MAX_COUNT)).all():
        raise ValueError("pending is not a number of decisions for every arm")
    _check_finite(state, [path for path, _ in arrays(state)])
    check_rest(policy.params.model, state.belief, int(state.clock[0]))


@contextmanager
def _damage_refused(name: str) -> Iterator[None]:
    """Turn any error while reading a saved state into IncompatibleState."""
    try:
        with np.errstate(all="ignore"):
            yield
    except (LookupError, AttributeError, TypeError, ValueError, ArithmeticError) as error:
        raise IncompatibleState(f"the state of {name!r} is damaged: {error!r}") from error


def _restore(policy: Any, data: Mapping[str, Any]) -> None:
    """Restore the arrays of saved data. Arrays that follow from the totals are recomputed; where
    the saved ones agree up to rounding, they are used, to the last bit."""
    state = policy.state
    saved = {path: each for path, each in data["state"].items() if not under(policy.derived, path)}
    missing = [path for path, _ in arrays(state) if path not in saved]
    if lost := [path for path in missing if not under(policy.derived, path)]:
        raise KeyError(", ".join(lost))
    fill(state, saved)
    _check_totals(policy, state)
    recomputed = copied(state)
    parts.recompute(policy.params, recomputed)
    for path in missing:
        find(state, path)[...] = find(recomputed, path)
    if not _agrees(policy, state, recomputed):
        for path, array in arrays(state):
            array[...] = find(recomputed, path)


def _check_totals(policy: Any, state: Any) -> None:
    """Refuse totals that are unsafe to compute with."""
    clock = state.clock
    if not ((clock >= 0) & (clock <= min(clock[0], MAX_COUNT))).all():
        raise ValueError(f"clock is {clock.tolist()}")
    _check_finite(state, (*policy.totals, *policy.common))
    check_totals(policy.params.model, state.belief, int(clock[0]))


def _check_finite(state: Any, paths: Iterable[str]) -> None:
    for path in paths:
        if not np.isfinite(find(state, path)).all():
            raise ValueError(f"{path} holds numbers that are not finite")


def _agrees(policy: Any, state: Any, recomputed: Any) -> bool:
    """Whether a state agrees with the one recomputed from its totals."""
    if policy.traits.agrees is not None:
        return bool(policy.traits.agrees(state.belief, recomputed.belief))
    return all(same(array, find(recomputed, path)) for path, array in arrays(state))


def _add_up(policy: Any, known: Sequence[Any], *, based: bool) -> None:
    """Add up the totals of saved states; if ``based``, the last one is where the others started."""
    state = policy.state
    saved = [
        {
            path: like(path, find(state, path), data["state"][path])
            for path in (*policy.totals, *policy.common)
        }
        for data in known
    ]
    parts = aligned(policy, saved)
    for path in policy.common:
        find(state, path)[...] = parts[0][path]
    start = parts.pop() if based else None
    for path in policy.totals:
        array = find(state, path)
        zero = 0 if start is None else start[path].astype(array.dtype)
        array += sum(part[path].astype(array.dtype) - zero for part in parts) + zero
    _check_totals(policy, state)
    policy.recompute()


def aligned(policy: Any, saved: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The totals of saved states, by path, aligned so that they can be added."""
    if policy.traits.align is None:
        return saved
    cut = len("belief.")
    beliefs = [{k[cut:]: v for k, v in each.items() if k != "clock"} for each in saved]
    return [
        {"clock": each["clock"], **{f"belief.{k}": v for k, v in belief.items()}}
        for each, belief in zip(saved, policy.traits.align(beliefs), strict=True)
    ]


def _still_pending(states: Sequence[Any], base: Any) -> dict[str, Any]:
    """Pending decisions: those of the common start that no worker has told, and the workers'
    own."""
    shared = {} if base is None else base["pending"]
    out = {key: each for key, each in shared.items() if all(key in s["pending"] for s in states)}
    for data in states:
        out.update({key: each for key, each in data["pending"].items() if key not in shared})
    return out


def _checked(data: Any) -> dict[str, Any]:
    """The data, checked to be a saved policy of this version."""
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise IncompatibleState("this is not the saved state of a rolf policy")
    if not isinstance(data.get("policy"), str):
        raise IncompatibleState(f"no policy here is called {data.get('policy')!r}")
    if data.get("version") != VERSION:
        raise IncompatibleState(
            f"the state has version {data.get('version')!r}, this rolf reads version {VERSION}"
        )
    return data


def _class_of(data: dict[str, Any]) -> Any:
    try:
        return policy_class(data["policy"])
    except UnknownPolicy as error:
        raise IncompatibleState(f"no policy here is called {data['policy']!r} ({error})") from error


def _blank(cls: Any, data: dict[str, Any]) -> Any:
    """The policy as it was created, without experience."""
    table = np.array(data["features"], dtype=np.float64, order="C")
    for field in ("labels", "columns"):
        if not isinstance(data[field], list | None):
            raise ValueError(f"{field} is not a list")
    policy = cls(table, seed=data.get("seed"), **data["options"])
    policy.arms = Arms(table, data["labels"], data["columns"])
    return policy


def _choice_data(choice: Choice) -> dict[str, Any]:
    return {
        "arm": int(choice.arm),
        "probability": None if np.isnan(choice.probability) else float(choice.probability),
        "greedy": int(choice.greedy),
        "pseudo": int(choice.pseudo),
        "matched": bool(choice.matched),
    }


def _restore_pending(policy: Any, data: Mapping[str, Any]) -> None:
    """The pending decisions."""
    table = policy.typical_features()
    arms, columns = len(table), policy.keep(table, 0).size
    for key, each in data.items():
        probability = each["probability"]
        if probability is not None:
            probability = between("probability", probability, 0.0, 1.0, inclusive=True)
        if probability == 0.0 or (probability is None and policy.traits.weighs):
            raise ValueError(f"decision {key!r} has no probability")
        row = number_table([each["row"]], "row", columns=columns)[0]
        choice = Choice(
            whole("arm", each["arm"], 0, arms - 1),
            math.nan if probability is None else probability,
            whole("greedy", each["greedy"], 0, arms - 1),
            whole("pseudo", each["pseudo"], 0, arms - 1),
            bool(each["matched"]),
        )
        policy.decisions.by_id[str(key)] = Pending(choice, row)
    policy.count_pending()


def _tag(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"the tag is {value!r}")
    return value
