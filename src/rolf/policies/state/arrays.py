"""States as named arrays: find, copy and restore them, and convert them to JSON-compatible data.

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


#: arrays of this many bytes may be mostly untouched memory; they are copied in such pieces
LARGE = 2**24
PIECE = 2**20


def copy_of(array: Any) -> Any:
    """A copy. For a large array, pieces that are all zero take no memory, as in the original."""
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
    """The same nested NamedTuples with copies of their arrays, or only of those in ``paths``."""
    out = []
    for name, each in zip(state._fields, state, strict=True):
        path = f"{prefix}{name}"
        if not isinstance(each, np.ndarray):
            out.append(copied(each, paths, path + "."))
        else:
            out.append(copy_of(each) if paths is None or path in paths else each)
    return type(state)(*out)


def remember(state: Any) -> Callable[[], None]:
    """A function that restores the present values of all arrays."""
    before = [(array, copy_of(array)) for _, array in arrays(state)]

    def restore() -> None:
        for array, values in before:
            array[...] = values

    return restore


def under(paths: Iterable[str], path: str) -> bool:
    """Whether a path is among these or below one of them."""
    return any(path == each or path.startswith(each + ".") for each in paths)


def pack(array: Any) -> list[Any]:
    """An array, exact to the last bit: its type, its shape, and its bytes as text."""
    return [array.dtype.str, list(array.shape), base64.b64encode(array.tobytes()).decode()]


def unpack(data: Any) -> Any:
    """A packed array; nested lists of numbers are also read."""
    if isinstance(data, list) and len(data) == 3 and isinstance(data[0], str):
        kind, shape, text = data
        if kind not in ("<f8", "<i8", ">f8", ">i8"):
            raise ValueError(f"an array of type {kind!r}")
        return np.frombuffer(base64.b64decode(text), dtype=kind).reshape(shape)
    return np.array(data)


def like(path: str, array: Any, data: Any) -> Any:
    """A packed array; raises ValueError unless it has the shape and type of ``array``."""
    values = unpack(data)
    if values.shape != array.shape or not np.can_cast(values.dtype, array.dtype, "same_kind"):
        raise ValueError(f"{path} has shape {values.shape} and type {values.dtype}")
    return values.astype(array.dtype)


def fill(state: Any, packed: Mapping[str, Any]) -> None:
    """Write packed arrays into a state; raises ValueError if one does not fit."""
    known = dict(arrays(state))
    for path, data in packed.items():
        if path not in known:
            raise ValueError(f"the state has no {path}")
        known[path][...] = like(path, known[path], data)
