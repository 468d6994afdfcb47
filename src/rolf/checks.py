"""Checks of single arguments, for all public functions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rolf.errors import InvalidArgument
from rolf.text import listed
from rolf.types import FloatArray, Generator

#: the largest reward, in absolute value: the squares of MAX_COUNT of them do not overflow
MAX_REWARD = 1e100
#: the largest feature, in absolute value: its fourth power does not overflow
MAX_FEATURE = 1e70
#: the most rounds, decisions or rewards: up to here floats represent every whole number
MAX_COUNT = 2**53
#: the most decisions of one ask
MAX_BATCH = 100_000
#: the most characters of an idempotency key
MAX_KEY = 255


def between(
    argument: str, value: Any, low: float, high: float, *, inclusive: bool = False
) -> float:
    """A number between two limits."""
    ok = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not (ok and (low <= value <= high if inclusive else low < value < high)):
        edge = "included" if inclusive else "excluded"
        limits = f"between {low:g} and {high:g}, both {edge}"
        if high == math.inf:
            limits = f"at least {low:g}" if inclusive else f"above {low:g}"
        raise InvalidArgument(argument, value, f"a number {limits}")
    try:
        return float(value)
    except OverflowError:
        raise InvalidArgument(argument, value, "a number that a float can hold") from None


def whole(argument: str, value: Any, least: int, most: int | None = None) -> int:
    """A whole number, at least ``least`` and at most ``most``."""
    ok = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not ok or value < least or (most is not None and value > most):
        limits = f"at least {least}" if most is None else f"from {least} to {most}"
        raise InvalidArgument(argument, value, f"a whole number, {limits}")
    return int(value)


def generator(seed: Any) -> Generator:
    """The generator for a seed: a number, a SeedSequence, a generator, or None for a random one."""
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError):
        raise InvalidArgument(
            "seed", seed, "a whole number, at least 0, a SeedSequence, a Generator or None"
        ) from None


def as_number(reward: Any) -> float:
    """A finite reward, small enough for arithmetic."""
    try:
        value = math.nan if isinstance(reward, str) else float(reward)
    except (TypeError, ValueError, OverflowError):
        raise InvalidArgument("reward", reward, "a number") from None
    if not math.isfinite(value):
        raise InvalidArgument("reward", reward, "a finite number")
    if abs(value) > MAX_REWARD:
        raise InvalidArgument("reward", reward, f"a number of size up to {MAX_REWARD:g}")
    return value + 0.0  # drop the sign of zero, as SQLite does


def vector(argument: str, values: Any, per: str, count: int | None = None) -> FloatArray:
    """A copy of a list of finite numbers, one per decision or arm, optionally of this length."""
    wanted = f"{'' if count is None else f'{count} '}finite numbers, one per {per}"
    try:
        out = np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InvalidArgument(argument, values, wanted) from None
    if out.ndim != 1 or (count is not None and out.size != count):
        raise InvalidArgument(argument, f"shape {out.shape}", wanted)
    if not np.isfinite(out).all():
        place = int(np.argmin(np.isfinite(out)))
        raise InvalidArgument(argument, f"{out[place]} for {per} {place}", wanted)
    return out


def one_of(argument: str, value: Any, *choices: str) -> str:
    """One of a few accepted words."""
    if value not in choices:
        quoted = [f'"{each}"' for each in choices]
        raise InvalidArgument(argument, value, f"{', '.join(quoted[:-1])} or {quoted[-1]}")
    return str(value)


def is_text(text: str) -> bool:
    """Whether text can be encoded; a lone surrogate cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_columns(source: str | Path, columns: Sequence[str]) -> None:
    """Raise if two columns of a table share a name."""
    if twice := [name for name, count in Counter(columns).items() if count > 1]:
        raise InvalidArgument(f"{source}: columns", f"{listed(twice)} twice", "each column once")
