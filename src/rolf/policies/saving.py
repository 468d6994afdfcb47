"""A policy as JSON-compatible data, and back; states of several workers added up."""

from __future__ import annotations

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


def tag(rng: Generator) -> str:
    """Eight digits that tell the decisions of differently seeded policies apart."""
    words = rng.bit_generator.seed_seq.generate_state(1)
    return f"{int(words[0]):08x}"


def save(policy: Any) -> dict[str, Any]:
    state = policy._state
    kept = {
        path: array.tolist()
        for path, array in arrays(state)
        if not any(path == each or path.startswith(each + ".") for each in policy.derived)
    }
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
        "state": kept,
        "pending": {
            key: {**_choice_data(each.choice), "row": each.row.tolist()}
            for key, each in policy._pending.items()
        },
        "issued": policy._issued,
        "tag": policy._tag,
        "rng": _freeze(policy._rng.bit_generator.state),
    }


def load(cls: Any, by_name: Mapping[str, Any], data: Any) -> Any:
    _check(data)
    found = _class_of(by_name, data)
    if not issubclass(found, cls):
        raise IncompatibleState(f"a state of {data['policy']!r} is not one of {cls.name!r}")
    try:
        policy = _blank(found, data)
        state = policy._state
        for path, value in data["state"].items():
            array = find(state, path)
            array[...] = np.array(value, dtype=array.dtype).reshape(array.shape)
        if any(path not in data["state"] for path, _ in arrays(state)):
            rebuild(policy.params, policy._state)
        policy._pending.update(_pending(data["pending"]))
        policy._issued = int(data["issued"])
        policy._tag = str(data["tag"])
        policy._rng = _generator(data["rng"])
    except (KeyError, AttributeError, TypeError, ValueError) as error:
        raise IncompatibleState(f"the state of {data['policy']!r} is damaged: {error!r}") from error
    return policy


def merge(by_name: Mapping[str, Any], states: Sequence[Any], seed: Seed) -> dict[str, Any]:
    if not states:
        raise InvalidArgument("states", "none", "at least one saved state")
    for data in states:
        _check(data)
    first = states[0]
    for data in states[1:]:
        for field in ("policy", "options", "features", "labels"):
            if data[field] != first[field]:
                raise IncompatibleState(f"the states differ in their {field} and cannot be added")
    policy = _blank(_class_of(by_name, first), {**first, "seed": seed})
    waiting: dict[str, Any] = {}
    for data in states:
        for key in data["pending"]:
            if key in waiting:
                raise IncompatibleState(
                    f"decision {key!r} waits in two states: give each worker its own seed"
                )
        waiting.update(data["pending"])
        for path in policy.totals:
            array = find(policy._state, path)
            array += np.array(data["state"][path], dtype=array.dtype)
    rebuild(policy.params, policy._state)
    policy._pending.update(_pending(waiting))
    return save(policy)


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
    policy.arms = Arms(table, data["labels"])
    return policy


def _choice_data(choice: Choice) -> dict[str, Any]:
    return {
        "arm": int(choice.arm),
        "probability": None if np.isnan(choice.probability) else float(choice.probability),
        "greedy": int(choice.greedy),
        "pseudo": int(choice.pseudo),
        "matched": bool(choice.matched),
    }


def _pending(data: dict[str, Any]) -> dict[str, Any]:
    out = {}
    for key, each in data.items():
        chance = float("nan") if each["probability"] is None else each["probability"]
        choice = Choice(each["arm"], chance, each["greedy"], each["pseudo"], each["matched"])
        out[key] = Pending(choice, np.array(each["row"], dtype=np.float64))
    return out


def _freeze(value: Any) -> Any:
    """Numbers of a generator's state as text: they are too long for some JSON readers."""
    if isinstance(value, dict):
        return {key: _freeze(each) for key, each in value.items()}
    return value if isinstance(value, str) else str(int(value))


def _thaw(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _thaw(each) for key, each in value.items()}
    return int(value) if value.isdecimal() else value


def _generator(data: Any) -> Generator:
    made = getattr(np.random, data["bit_generator"])()
    made.state = _thaw(data)
    return np.random.Generator(made)
