"""The state of a random number generator as JSON-compatible data, and back.

NumPy does not validate a state: with a position outside the generator's buffer it reads memory that
is not its own. So every number is checked here first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rolf.types import Generator

WORD, LONG, WIDE = 2**32, 2**64, 2**128
#: the numbers of each generator by dotted name: how many (0 for a single number rather than an
#: array), and their exclusive upper limit
SPARE = {"has_uint32": (0, 2), "uinteger": (0, WORD)}
PERMUTED = {"state.state": (0, WIDE), "state.inc": (0, WIDE), **SPARE}
LAYOUTS: dict[str, dict[str, tuple[int, int]]] = {
    "PCG64": PERMUTED,
    "PCG64DXSM": PERMUTED,
    "MT19937": {"state.key": (624, WORD), "state.pos": (0, 625)},
    "Philox": {
        "state.counter": (4, LONG),
        "state.key": (2, LONG),
        "buffer": (4, LONG),
        "buffer_pos": (0, 5),
        **SPARE,
    },
    "SFC64": {"state.state": (4, LONG), **SPARE},
}


def generator_data(rng: Generator) -> dict[str, Any]:
    """A generator's state, with numbers as text: some JSON readers cannot hold such long ones."""
    return _as_text(rng.bit_generator.state)  # type: ignore[no-any-return]


def generator_of(data: Any) -> Generator:
    """The generator of a saved state; raises ValueError for states that NumPy never writes."""
    kind = data["bit_generator"]
    if kind not in LAYOUTS:
        raise ValueError(f"unknown generator {kind!r}")
    state: dict[str, Any] = {"bit_generator": kind, "state": {}}
    for name, (count, limit) in LAYOUTS[kind].items():
        outer, _, inner = name.rpartition(".")
        source: Mapping[str, Any] = data[outer] if outer else data
        target = state[outer] if outer else state
        target[inner] = _numbers(name, source[inner], count, limit)
    _check_not_stuck(kind, state["state"])
    bits = getattr(np.random, kind)()
    bits.state = state
    return np.random.Generator(bits)


def _as_text(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _as_text(each) for key, each in value.items()}
    if isinstance(value, np.ndarray):
        return [str(int(each)) for each in value]
    return value if isinstance(value, str) else str(int(value))


def _numbers(name: str, value: Any, count: int, limit: int) -> Any:
    if count == 0:
        return _number(name, value, limit)
    if not isinstance(value, list) or len(value) != count:
        raise ValueError(f"{name} of a generator is not a list of {count} numbers")
    kind = np.uint32 if limit == WORD else np.uint64
    return np.array([_number(name, each, limit) for each in value], dtype=kind)


def _number(name: str, value: Any, limit: int) -> int:
    if not isinstance(value, str) or not value.isdecimal() or not int(value) < limit:
        raise ValueError(f"{name} of a generator is {str(value)[:50]!r}")
    return int(value)


def _check_not_stuck(kind: str, state: Mapping[str, Any]) -> None:
    """Refuse unreachable states that repeat one number forever: some of NumPy's distributions would
    never return."""
    if kind in ("PCG64", "PCG64DXSM") and state["inc"] % 2 == 0:
        raise ValueError("state.inc of a generator is even")
    if kind == "MT19937" and not (state["key"][1:].any() or state["key"][0] >= WORD // 2):
        raise ValueError("state.key of a generator is zero")
