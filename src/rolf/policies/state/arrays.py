"""States as named arrays: found, copied, restored, and as JSON-compatible data.

A state is nested NamedTuples of arrays; an array's name is its dotted path.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import reduce
from typing import Any

import numpy as np


def find(state: Any, path: str) -> Any:
    """The array at a dotted path."""
    return reduce(getattr, path.split("."), state)


def arrays(state: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """All arrays, by dotted path."""
    for name in state._fields:
        value = getattr(state, name)
        path = f"{prefix}{name}"
        if isinstance(value, np.ndarray):
            yield path, value
        else:
            yield from arrays(value, path + ".")


#: bytes from which an array may be mostly memory that was never touched, and at a time then
LARGE = 2**24
PIECE = 2**20


def copy_of(array: Any) -> Any:
    """A copy; one of a large array takes no memory where there are only zeros, as the array itself
    may not."""
    if array.nbytes < LARGE:
        return array.copy()
    out = np.zeros(array.shape, array.dtype)
    source, target = array.reshape(-1).view(np.int64), out.reshape(-1).view(np.int64)
    for start in range(0, source.size, PIECE // 8):
        piece = slice(start, start + PIECE // 8)
        if source[piece].any():
            target[piece] = source[piece]
    return out


def copied(state: Any, paths: Iterable[str] | None = None, prefix: str = "") -> Any:
    """The same nested NamedTuples with arrays of their own; if there are ``paths``, only those."""
    out = []
    for name, each in zip(state._fields, state, strict=True):
        path = f"{prefix}{name}"
        if not isinstance(each, np.ndarray):
            out.append(copied(each, paths, path + "."))
        else:
            out.append(copy_of(each) if paths is None or path in paths else each)
    return type(state)(*out)


def remember(state: Any) -> Callable[[], None]:
    """A function that gives every array the values that it has now."""
    before = [(array, copy_of(array)) for _, array in arrays(state)]

    def restore() -> None:
        for array, values in before:
            array[...] = values

    return restore


def under(paths: Iterable[str], path: str) -> bool:
    """Whether a path is one of these, or below one of them."""
    return any(path == each or path.startswith(each + ".") for each in paths)


def pack(array: Any) -> list[Any]:
    """An array to the last bit: its type, its shape, and its bytes as text."""
    return [array.dtype.str, list(array.shape), base64.b64encode(array.tobytes()).decode()]


def unpack(data: Any) -> Any:
    """An array that was packed; nested lists of numbers, as older versions wrote, are read too."""
    if isinstance(data, list) and len(data) == 3 and isinstance(data[0], str):
        kind, shape, text = data
        if kind not in ("<f8", "<i8", ">f8", ">i8"):
            raise ValueError(f"an array of type {kind!r}")
        return np.frombuffer(base64.b64decode(text), dtype=kind).reshape(shape)
    return np.array(data)


def like(path: str, array: Any, data: Any) -> Any:
    """A packed array of the shape and type of another; raises ValueError if it has others."""
    values = unpack(data)
    if values.shape != array.shape or not np.can_cast(values.dtype, array.dtype, "same_kind"):
        raise ValueError(f"{path} has shape {values.shape} and type {values.dtype}")
    return values.astype(array.dtype)


def fill(state: Any, packed: Mapping[str, Any]) -> None:
    """Write packed arrays into a state; what does not fit raises ValueError."""
    known = dict(arrays(state))
    for path, data in packed.items():
        if path not in known:
            raise ValueError(f"the state has no {path}")
        known[path][...] = like(path, known[path], data)
