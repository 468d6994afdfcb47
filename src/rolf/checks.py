"""Checks of single arguments, for every public boundary."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rolf.errors import InvalidArgument
from rolf.types import Generator


def between(
    argument: str, value: Any, low: float, high: float, *, inclusive: bool = False
) -> float:
    """A number that lies between two others."""
    ok = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not (ok and (low <= value <= high if inclusive else low < value < high)):
        edge = "included" if inclusive else "excluded"
        limits = f"between {low:g} and {high:g}, both {edge}"
        if high == math.inf:
            limits = f"at least {low:g}" if inclusive else f"above {low:g}"
        raise InvalidArgument(argument, value, f"a number {limits}")
    return float(value)


def whole(argument: str, value: Any, least: int, most: int | None = None) -> int:
    """A whole number, at least ``least`` and at most ``most``."""
    ok = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not ok or value < least or (most is not None and value > most):
        limits = f"at least {least}" if most is None else f"from {least} to {most}"
        raise InvalidArgument(argument, value, f"a whole number, {limits}")
    return int(value)


def generator(seed: Any) -> Generator:
    """The generator of a seed: a number, a SeedSequence, a generator, or None for any."""
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError):
        raise InvalidArgument(
            "seed", seed, "a whole number, at least 0, a SeedSequence, a Generator or None"
        ) from None


def as_number(reward: Any) -> float:
    """A finite reward."""
    try:
        value = math.nan if isinstance(reward, str) else float(reward)
    except (TypeError, ValueError, OverflowError):
        raise InvalidArgument("reward", reward, "a number") from None
    if not math.isfinite(value):
        raise InvalidArgument("reward", reward, "a finite number")
    return value


def one_of(argument: str, value: Any, *choices: str) -> str:
    """One of a few words."""
    if value not in choices:
        quoted = [f'"{each}"' for each in choices]
        raise InvalidArgument(argument, value, f"{', '.join(quoted[:-1])} or {quoted[-1]}")
    return str(value)
