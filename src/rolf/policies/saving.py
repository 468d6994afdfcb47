"""A policy as JSON-compatible data, and back; states of several workers added up."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np

from rolf.errors import IncompatibleState, InvalidArgument
from rolf.policies.inputs import Arms
from rolf.policies.operations import Pending, rebuild
from rolf.types import Choice, Generator, Seed

FORMAT = "rolf-policy"
VERSION = 1


def find(state: Any, path: str) -> Any:
    """The array at a dotted path of nested NamedTuples."""
    return reduce(getattr, path.split("."), state)


def arrays(state: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """All arrays of nested NamedTuples, by dotted path."""
    for name in state._fields:
        value = getattr(state, name)
        path = f"{prefix}{name}"
        if isinstance(value, np.ndarray):
            yield path, value
        else:
            yield from arrays(value, path + ".")


def _derived(policy: Any, path: str) -> bool:
    return any(path == each or path.startswith(each + ".") for each in policy.derived)


def tag() -> str:
    """Eight digits that tell the decisions of one policy from those of any other."""
    return os.urandom(4).hex()


def save(policy: Any) -> dict[str, Any]:
    state = policy._state
    kept = {path: array.tolist() for path, array in arrays(state) if not _derived(policy, path)}
    if not policy.name:
        raise InvalidArgument(
            "name", "", f"{type(policy).__name__}.name, so that it can be found again"
        )
    for label in policy.arms.labels:
        if not isinstance(label, str | int | float | bool):
            raise InvalidArgument("features", label, "arm names that JSON can hold, to be saved")
    return {
        "format": FORMAT,
        "version": VERSION,
        "policy": policy.name,
        "options": dict(policy.options),
        "features": policy.arms.features.tolist(),
        "labels": policy.arms.labels if policy.arms.named else None,
        "columns": policy.arms.columns if policy.arms.named else None,
        "state": kept,
        "pending": {
            key: {**_choice_data(each.choice), "row": each.row.tolist()}
            for key, each in policy._pending.items()
        },
        "issued": policy._issued,
        "tag": policy._tag,
        "rng": _freeze(policy._rng.bit_generator.state),
    }


def load(cls: Any, by_name: Mapping[str, Any], data: Any, seed: Seed) -> Any:
    _check(data)
    found = _class_of(by_name, data)
    if not issubclass(found, cls):
        raise IncompatibleState(f"a state of {data['policy']!r} is not one of {cls.name!r}")
    try:
        policy = _blank(found, data)
        state = policy._state
        missing = [path for path, _ in arrays(state) if path not in data["state"]]
        lost = [path for path in missing if not _derived(policy, path)]
        if lost:
            raise KeyError(", ".join(lost))
        _restore(state, data["state"])
        if missing:
            rebuild(policy.params, policy._state)
            _restore(state, data["state"])  # what was saved counts, also where it can be rebuilt
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


def _restore(state: Any, saved: Mapping[str, Any]) -> None:
    for path, value in saved.items():
        array = find(state, path)
        array[...] = np.array(value, dtype=array.dtype).reshape(array.shape)


def merge(by_name: Mapping[str, Any], states: Sequence[Any], base: Any, seed: Seed) -> Any:
    if not states:
        raise InvalidArgument("states", "none", "at least one saved state")
    known = [*states, base] if base is not None else list(states)
    for data in known:
        _check(data)
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
    policy = _blank(_class_of(by_name, known[0]), {**known[0], "seed": seed})
    try:
        known = policy._aligned(known)
        states, base = (known[:-1], known[-1]) if base is not None else (known, None)
        for path in policy.common:
            find(policy._state, path)[...] = known[0]["state"][path]
        for path in policy.totals:
            array = find(policy._state, path)
            parts = [np.array(data["state"][path], dtype=array.dtype) for data in states]
            start = 0 if base is None else np.array(base["state"][path], dtype=array.dtype)
            array += sum(part - start for part in parts) + start
        rebuild(policy.params, policy._state)
        waiting = _still_waiting(states, base)
        policy._pending.update(_pending(waiting, policy.arms.count))
        policy._recount()
    except (KeyError, TypeError, ValueError) as error:
        raise IncompatibleState(f"a state is damaged: {error!r}") from error
    return save(policy)


def _still_waiting(states: Sequence[Any], base: Any) -> dict[str, Any]:
    """Decisions that nobody has told yet: of the common start in no state, else in any."""
    shared = {} if base is None else base["pending"]
    out = {key: each for key, each in shared.items() if all(key in s["pending"] for s in states)}
    for data in states:
        out.update({key: each for key, each in data["pending"].items() if key not in shared})
    return out


def _check(data: Any) -> None:
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise IncompatibleState("this is not the saved state of a rolf policy")
    if data.get("version") != VERSION:
        raise IncompatibleState(
            f"the state has version {data.get('version')!r}, this rolf reads version {VERSION}"
        )


def _class_of(by_name: Mapping[str, Any], data: dict[str, Any]) -> Any:
    try:
        return by_name[data["policy"]]
    except KeyError:
        raise IncompatibleState(f"no policy here is called {data.get('policy')!r}") from None


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


def _pending(data: dict[str, Any], arms: int) -> dict[str, Any]:
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
    made = getattr(np.random, data["bit_generator"])()
    made.state = _thaw(data)
    return np.random.Generator(made)
