"""A policy as JSON-compatible data, and back; states of several workers added up."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from rolf.arms.table import Arms, number_table
from rolf.checks import MAX_COUNT, between, whole
from rolf.errors import IncompatibleState, InvalidArgument, UnknownPolicy
from rolf.estimators.contract import check_rest, check_totals, same, traits_of
from rolf.kernel import has_body
from rolf.policies.core.parts import Params
from rolf.policies.operations import Pending, rebuild
from rolf.policies.recording import called_with
from rolf.policies.state.arrays import arrays, copied, fill, find, like, pack, under
from rolf.policies.state.generators import generator_data, generator_of
from rolf.types import Choice, Seed

if TYPE_CHECKING:
    from rolf.policies.policy import Policy

FORMAT = "rolf-policy"
VERSION = 2
#: what finds the class of a saved state
Find = Callable[[str], "type[Policy]"]


def tag() -> str:
    """Eight digits that tell the decisions of one policy from those of any other."""
    return os.urandom(4).hex()


def save(policy: Policy, name: str) -> dict[str, Any]:
    """The policy as data; ``name`` is what finds its class again."""
    for label in policy.arms.labels:
        if not isinstance(label, str | int | float | bool):
            raise InvalidArgument("features", label, "arm names that JSON can hold, to be saved")
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
            for path, array in arrays(policy._state)
            if not under(policy.derived, path)
        },
        "pending": {
            key: {**_choice_data(each.choice), "row": each.row.tolist()}
            for key, each in policy._pending.items()
        },
        "issued": policy._issued,
        "tag": policy._tag,
        "rng": generator_data(policy._rng),
    }


def load(cls: type[Policy], find_class: Find, data: Any, seed: Seed) -> Policy:
    """The policy of saved data. Nothing in it is believed."""
    data = _checked(data)
    saved_class = _class_of(find_class, data)
    if not issubclass(saved_class, cls):
        raise IncompatibleState(f"a state of {data['policy']!r} is not one of {cls.name!r}")
    with _damage_refused(data["policy"]):
        policy: Policy = _blank(saved_class, data)
        _restore(policy, data)
        policy._pending.update(_pending(data["pending"], policy))
        policy._recount()
        check_state(policy, policy._state)
        if seed is None:
            policy._tag = _tag(data["tag"])
            policy._issued = _issued(data["issued"], policy)
            policy._rng = generator_of(data["rng"])
        else:  # a worker of its own from here on
            policy._rng = np.random.default_rng(seed)
    return policy


def merge(find_class: Find, states: Sequence[Any], base: Any, seed: Seed) -> dict[str, Any]:
    """Saved states added up; ``base`` is where all of them started, and counts once."""
    if not states:
        raise InvalidArgument("states", "none", "at least one saved state")
    known = [_checked(data) for data in ([*states, base] if base is not None else states)]
    known = [_with_all_options(find_class, data) for data in known]
    for data in known:
        for field in ("policy", "options", "features", "labels"):
            if data.get(field) != known[0].get(field):
                raise IncompatibleState(f"the states differ in their {field} and cannot be added")
    name = known[0]["policy"]
    with _damage_refused(name):
        tags = [_tag(data["tag"]) for data in known[: len(states)]]
        if len(set(tags)) < len(tags):
            raise IncompatibleState(
                "two of the states are of one and the same run and would count twice: start each "
                "worker on its own, or with from_state(state, seed=...)"
            )
        policy = _blank(_class_of(find_class, known[0]), {**known[0], "seed": seed})
        _add_up(policy, known, based=base is not None)
        waiting = _still_waiting(known[: len(states)], None if base is None else known[-1])
        policy._pending.update(_pending(waiting, policy))
        policy._recount()
        check_state(policy, policy._state)
    return save(policy, name)


def check_state(policy: Policy, state: Any) -> None:
    """Raise ValueError if a policy cannot have come to a state of its kind.

    For states from a file or a database. Every number is looked at once: a wrong one would do
    more harm than a wrong decision, for compiled code trusts its arguments.
    """
    _check_totals(policy, state)
    waiting = getattr(state, "waiting", None)
    if waiting is not None and not ((waiting >= 0.0) & (waiting <= MAX_COUNT)).all():
        raise ValueError("waiting is not a number of decisions for every arm")
    if isinstance(policy.params, Params):
        _check_finite(state, [path for path, _ in arrays(state)])
        _check_belief(check_rest, policy, state)


@contextmanager
def _damage_refused(name: str) -> Iterator[None]:
    """Say IncompatibleState, whatever goes wrong while a saved state is read."""
    try:
        with np.errstate(all="ignore"):
            yield
    except (LookupError, AttributeError, TypeError, ValueError, ArithmeticError) as error:
        raise IncompatibleState(f"the state of {name!r} is damaged: {error!r}") from error


def _restore(policy: Policy, data: Mapping[str, Any]) -> None:
    """The arrays of saved data. What follows from the totals is computed from them; what was
    saved takes its place, to the last bit, if it is the same up to rounding."""
    state = policy._state
    optional = (*policy.derived, *policy.added, *data.get("optional", ()))
    ignored = (*policy.derived, *policy.gone)
    saved = {path: each for path, each in data["state"].items() if not under(ignored, path)}
    if lost := [p for p, _ in arrays(state) if p not in saved and not under(optional, p)]:
        raise KeyError(", ".join(lost))
    fill(state, saved)
    composed = isinstance(policy.params, Params)
    if composed or any(path not in saved for path, _ in arrays(state)):
        _check_totals(policy, state)
        recomputed = copied(state)
        rebuild(policy.params, recomputed)
        for path, array in arrays(state):
            if path not in saved:
                array[...] = find(recomputed, path)
        if composed and not _agrees(policy, state, recomputed):
            for path, array in arrays(state):
                array[...] = find(recomputed, path)


def _check_totals(policy: Policy, state: Any) -> None:
    """Refuse totals that must not be computed with."""
    clock = state.clock
    if not ((clock >= 0) & (clock <= min(clock[0], MAX_COUNT))).all():
        raise ValueError(f"clock is {clock.tolist()}")
    _check_finite(state, (*policy.totals, *policy.common))
    if isinstance(policy.params, Params):
        _check_belief(check_totals, policy, state)


def _check_finite(state: Any, paths: Iterable[str]) -> None:
    for path in paths:
        if not np.isfinite(find(state, path)).all():
            raise ValueError(f"{path} holds numbers that are not finite")


def _check_belief(operation: Callable[..., None], policy: Policy, state: Any) -> None:
    """One of an estimator's checks, if it has it."""
    if has_body(operation, type(policy.params.model)):
        operation(policy.params.model, state.belief, int(state.clock[0]))


def _agrees(policy: Policy, state: Any, recomputed: Any) -> bool:
    """Whether a state agrees with the one that was recomputed from its totals."""
    agrees = traits_of(type(policy.params.model)).agrees
    if agrees is not None:
        return agrees(state.belief, recomputed.belief)
    return all(same(array, find(recomputed, path)) for path, array in arrays(state))


def _add_up(policy: Policy, known: Sequence[Any], *, based: bool) -> None:
    """Totals of saved states; the last one is where the others started, if they are based."""
    state = policy._state
    saved = [
        {
            path: like(path, find(state, path), data["state"][path])
            for path in (*policy.totals, *policy.common)
        }
        for data in known
    ]
    parts = policy._aligned(saved)
    for path in policy.common:
        find(state, path)[...] = parts[0][path]
    start = parts.pop() if based else None
    for path in policy.totals:
        array = find(state, path)
        zero = 0 if start is None else start[path].astype(array.dtype)
        array += sum(part[path].astype(array.dtype) - zero for part in parts) + zero
    _check_totals(policy, state)
    rebuild(policy.params, state)


def _still_waiting(states: Sequence[Any], base: Any) -> dict[str, Any]:
    """Decisions without a reward: those of the common start that no worker told, and the
    workers' own."""
    shared = {} if base is None else base["pending"]
    out = {key: each for key, each in shared.items() if all(key in s["pending"] for s in states)}
    for data in states:
        out.update({key: each for key, each in data["pending"].items() if key not in shared})
    return out


def _checked(data: Any) -> dict[str, Any]:
    """Saved data of this version."""
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise IncompatibleState("this is not the saved state of a rolf policy")
    if not isinstance(data.get("policy"), str):
        raise IncompatibleState(f"no policy here is called {data.get('policy')!r}")
    if data.get("version") == 1:
        return _from_version_1(data)
    if data.get("version") != VERSION:
        raise IncompatibleState(
            f"the state has version {data.get('version')!r}, this rolf reads versions 1 and "
            f"{VERSION}"
        )
    return data


def _from_version_1(data: dict[str, Any]) -> dict[str, Any]:
    """States of version 1 were laid out policy by policy, and held lists of numbers."""
    moved = {"widths.now": "squares", "widths.limits": "limits"}
    nested = "bayes" in data["policy"]  # components were called belief there
    out: dict[str, Any] = {}
    try:
        for path, values in data["state"].items():
            new = moved.get(path, path.removeprefix("ridge.").removeprefix("lasso."))
            if nested and path.startswith("belief."):
                new = path.replace("belief.", "components.", 1)
            if path == "clock":
                out["clock"] = [*values, 0][:2]
                if len(values) == 3:  # rewards that RoLF-Ridge had taken in
                    out["belief.seen"] = [values[2]]
            elif path == "waiting":
                out[path] = values
            elif path != "scores":
                out[f"belief.{new}"] = values
    except (AttributeError, TypeError) as error:
        raise IncompatibleState(f"the state of {data['policy']!r} is damaged: {error!r}") from error
    return {
        **data,
        "version": VERSION,
        "state": out,
        "optional": ("waiting", "belief.squares", "belief.limits", "belief.logdet"),
    }


def _with_all_options(find_class: Find, data: dict[str, Any]) -> dict[str, Any]:
    """Older versions knew fewer options: the others have their defaults."""
    cls = _class_of(find_class, data)
    with _damage_refused(data["policy"]):
        return {**data, "options": called_with(cls, (None,), dict(data["options"]))}


def _class_of(find_class: Find, data: dict[str, Any]) -> type[Policy]:
    try:
        return find_class(data["policy"])
    except UnknownPolicy as error:
        raise IncompatibleState(f"no policy here is called {data['policy']!r} ({error})") from error


def _blank(cls: Any, data: dict[str, Any]) -> Any:
    """The policy as it was made, before it saw anything."""
    table = np.array(data["features"], dtype=np.float64, order="C")
    for field in ("labels", "columns"):
        if not isinstance(data[field], list | None):
            raise ValueError(f"{field} are no list")
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


def _pending(data: Mapping[str, Any], policy: Policy) -> dict[str, Pending]:
    """The decisions that wait for their reward."""
    table = policy._typical_features()
    arms, columns = len(table), policy._kept_features(policy.params, table, 0).size
    weighs = isinstance(policy.params, Params) and traits_of(type(policy.params.model)).weighs
    out = {}
    for key, each in data.items():
        chance = each["probability"]
        if chance is not None:
            chance = between("probability", chance, 0.0, 1.0, inclusive=True)
        if chance == 0.0 or (chance is None and weighs):
            raise ValueError(f"decision {key!r} has no probability")
        row = number_table([each["row"]], "row", columns=columns)[0]
        choice = Choice(
            whole("arm", each["arm"], 0, arms - 1),
            math.nan if chance is None else chance,
            whole("greedy", each["greedy"], 0, arms - 1),
            whole("pseudo", each["pseudo"], 0, arms - 1),
            bool(each["matched"]),
        )
        out[str(key)] = Pending(choice, row)
    return out


def _tag(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"the tag is {value!r}")
    return value


def _issued(value: Any, policy: Policy) -> int:
    """The number of decisions, none of whose ids may be given out again."""
    numbers = [key.rpartition("-") for key in policy._pending]
    own = [int(number) for tag, _, number in numbers if tag == policy._tag and number.isdecimal()]
    return whole("issued", value, max(own, default=0), MAX_COUNT)
