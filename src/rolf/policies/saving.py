"""A policy as JSON-compatible data, and back; states of several workers added up."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rolf.arms.table import Arms
from rolf.errors import IncompatibleState, InvalidArgument, UnknownPolicy
from rolf.policies.arrays import arrays, fill, find, pack, under, unpack
from rolf.policies.operations import Pending, rebuild
from rolf.types import Choice, Generator, Seed

if TYPE_CHECKING:
    from rolf.policies.base import Policy

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
        "rng": _freeze(policy._rng.bit_generator.state),
    }


def load(cls: type[Policy], find_class: Find, data: Any, seed: Seed) -> Policy:
    """The policy of saved data."""
    data = _checked(data)
    saved_class = _class_of(find_class, data)
    if not issubclass(saved_class, cls):
        raise IncompatibleState(f"a state of {data['policy']!r} is not one of {cls.name!r}")
    try:
        policy: Policy = _blank(saved_class, data)
        state = policy._state
        missing = [path for path, _ in arrays(state) if path not in data["state"]]
        optional = (*policy.derived, *data.get("optional", ()))
        if lost := [path for path in missing if not under(optional, path)]:
            raise KeyError(", ".join(lost))
        fill(state, data["state"])
        if missing:
            rebuild(policy.params, state)
            fill(state, data["state"])  # what was saved counts, also where it can be rebuilt
        policy._pending.update(_pending(data["pending"], policy.arms.count))
        policy._recount()
        if seed is None:
            policy._issued = int(data["issued"])
            policy._tag = str(data["tag"])
            policy._rng = _generator(data["rng"])
        else:  # a worker of its own from here on
            policy._rng = np.random.default_rng(seed)
    except (KeyError, AttributeError, TypeError, ValueError) as error:
        raise IncompatibleState(f"the state of {data['policy']!r} is damaged: {error!r}") from error
    return policy


def merge(find_class: Find, states: Sequence[Any], base: Any, seed: Seed) -> dict[str, Any]:
    """Saved states added up; ``base`` is where all of them started, and counts once."""
    if not states:
        raise InvalidArgument("states", "none", "at least one saved state")
    known = [_checked(data) for data in ([*states, base] if base is not None else states)]
    for data in known:
        for field in ("policy", "options", "features", "labels"):
            if data[field] != known[0][field]:
                raise IncompatibleState(f"the states differ in their {field} and cannot be added")
    tags = [data["tag"] for data in states]
    if len(set(tags)) < len(tags):
        raise IncompatibleState(
            "two of the states are of one and the same run and would count twice: start each "
            "worker on its own, or with from_state(state, seed=...)"
        )
    policy = _blank(_class_of(find_class, known[0]), {**known[0], "seed": seed})
    try:
        paths = (*policy.totals, *policy.common)
        saved = [{path: unpack(data["state"][path]) for path in paths} for data in known]
        parts = policy._aligned(saved)
        for path in policy.common:
            find(policy._state, path)[...] = parts[0][path]
        start = parts.pop() if base is not None else None
        for path in policy.totals:
            array = find(policy._state, path)
            zero = 0 if start is None else start[path].astype(array.dtype)
            array += sum(part[path].astype(array.dtype) - zero for part in parts) + zero
        rebuild(policy.params, policy._state)
        waiting = _still_waiting(known[: len(states)], None if base is None else known[-1])
        policy._pending.update(_pending(waiting, policy.arms.count))
        policy._recount()
    except (KeyError, TypeError, ValueError) as error:
        raise IncompatibleState(f"a state is damaged: {error!r}") from error
    return save(policy, known[0]["policy"])


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


def _class_of(find_class: Find, data: dict[str, Any]) -> type[Policy]:
    try:
        return find_class(data["policy"])
    except UnknownPolicy as error:
        raise IncompatibleState(f"no policy here is called {data['policy']!r} ({error})") from error


def _blank(cls: Any, data: dict[str, Any]) -> Any:
    """The policy as it was made, before it saw anything."""
    table = np.array(data["features"], dtype=np.float64, order="C")
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


def _pending(data: Mapping[str, Any], arms: int) -> dict[str, Pending]:
    out = {}
    for key, each in data.items():
        if not 0 <= each["arm"] < arms:
            raise ValueError(f"decision {key!r} is of arm {each['arm']!r}")
        chance = float("nan") if each["probability"] is None else each["probability"]
        choice = Choice(each["arm"], chance, each["greedy"], each["pseudo"], each["matched"])
        out[key] = Pending(choice, np.array(each["row"], dtype=np.float64))
    return out


def _freeze(value: Any) -> Any:
    """Numbers of a generator's state as text: they are too long for some JSON readers."""
    if isinstance(value, dict):
        return {key: _freeze(each) for key, each in value.items()}
    if isinstance(value, np.ndarray):
        return [str(int(each)) for each in value]
    return value if isinstance(value, str) else str(int(value))


def _thaw(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _thaw(each) for key, each in value.items()}
    if isinstance(value, list):
        return np.array([int(each) for each in value], dtype=np.uint64)
    return int(value) if value.isdecimal() else value


def _generator(data: Any) -> Generator:
    if data["bit_generator"] not in ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"):
        raise ValueError(f"unknown generator {data['bit_generator']!r}")
    bits = getattr(np.random, data["bit_generator"])()
    bits.state = _thaw(data)
    return np.random.Generator(bits)
