"""The options a policy was created with, taken from the call of its constructor, as plain data."""

from __future__ import annotations

import functools
import inspect
from typing import Any

import numpy as np


def called_with(cls: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The options of a constructor call, in the form that JSON gives back; saved states record
    them."""
    try:
        bound = _signature(cls).bind(*args, **kwargs)
    except TypeError:
        return {}  # the constructor itself will say what is wrong
    bound.apply_defaults()
    options: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        if _signature(cls).parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
            options.update(value)
        else:
            options[name] = value
    return {name: _plain(v) for name, v in options.items() if name not in ("features", "seed")}


@functools.cache
def _signature(cls: type) -> inspect.Signature:
    return inspect.signature(functools.partial(cls.__init__, None))  # type: ignore[misc]


def _plain(value: Any) -> Any:
    """NumPy numbers, arrays and tuples as what JSON gives back."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    return list(value) if isinstance(value, tuple) else value
