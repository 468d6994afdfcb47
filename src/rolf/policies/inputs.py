"""Checks at the public boundary: features, arms, rewards. Kernels assume valid input."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from rolf.errors import InvalidArgument
from rolf.types import FloatArray, IntArray


class Arms:
    """The arms of a policy: features (K, d), and how the user calls them."""

    def __init__(self, features: FloatArray, labels: Sequence[Any] | None) -> None:
        self.features = features
        self.count: int = features.shape[0]
        self.named = labels is not None
        self.labels: list[Any] = list(range(self.count)) if labels is None else list(labels)
        self._positions: dict[Any, int] = {label: i for i, label in enumerate(self.labels)}
        if len(self._positions) != self.count:
            raise InvalidArgument("features", labels, "an index that names each arm once")

    def position(self, label: Any, argument: str = "arm") -> int:
        """Position of an arm, by the user's name for it."""
        try:
            return self._positions[label]
        except (KeyError, TypeError):
            known = ", ".join(repr(each) for each in self.labels[:5])
            more = ", ..." if self.count > 5 else ""
            raise InvalidArgument(argument, label, f"one of {known}{more}") from None

    def subset(self, available: Iterable[Any]) -> IntArray:
        """Positions of some arms, ascending."""
        if isinstance(available, str):
            raise InvalidArgument("available", available, "a list of arms")
        positions = sorted({self.position(label, "available") for label in available})
        if not positions:
            raise InvalidArgument("available", [], "at least one arm")
        return np.array(positions, dtype=np.int64)

    def labelled(self, values: FloatArray) -> Any:
        """Values of all arms as the user sees them: an array, or a Series with names."""
        if not self.named:
            return values
        import pandas

        return pandas.Series(values, index=self.labels)


def read_features(features: Any) -> Arms:
    """Features of K >= 2 arms: an array, a nested list, or a DataFrame with names."""
    labels = None
    if hasattr(features, "to_numpy") and hasattr(features, "index"):
        labels = [each.item() if isinstance(each, np.generic) else each for each in features.index]
    table = _table(features, "features")
    if table.shape[0] == 0 or table.shape[1] == 0:
        raise InvalidArgument("features", f"shape {table.shape}", "at least one row and one column")
    if table.shape[0] < 2:
        raise InvalidArgument("features", "one arm", "at least two arms to choose from")
    return Arms(table, labels)


def as_round_features(features: Any, arms: Arms) -> FloatArray:
    """The features of one round, for the arms and columns known from the start."""
    if features is None:
        raise InvalidArgument("features", None, f"the round's features, {arms.features.shape}")
    table = _table(features, "features")
    if table.shape != arms.features.shape:
        raise InvalidArgument("features", f"shape {table.shape}", f"shape {arms.features.shape}")
    return table


def _table(features: Any, argument: str) -> FloatArray:
    try:
        table = np.array(features, dtype=np.float64, order="C")
    except (TypeError, ValueError):
        raise InvalidArgument(argument, features, "a (K, d) table of numbers") from None
    if table.ndim != 2:
        raise InvalidArgument(argument, f"shape {table.shape}", "a (K, d) table, one row an arm")
    if not np.isfinite(table).all():
        row, column = np.argwhere(~np.isfinite(table))[0]
        raise InvalidArgument(
            argument, f"{table[row, column]} in row {row}, column {column}", "finite numbers"
        )
    return table


def as_positions(arms: Arms, given: Sequence[Any]) -> IntArray:
    """Positions of the arms of a history."""
    listed = given.tolist() if hasattr(given, "tolist") else list(given)
    return np.array([arms.position(label, "arms") for label in listed], dtype=np.int64)


def as_number(reward: Any) -> float:
    """A finite reward."""
    try:
        value = float(reward)
    except (TypeError, ValueError):
        raise InvalidArgument("reward", reward, "a number") from None
    if not math.isfinite(value):
        raise InvalidArgument("reward", reward, "a finite number")
    return value


def given(local: dict[str, Any]) -> dict[str, Any]:
    """The options of a constructor, from its ``locals()``: what a saved state records."""
    return {k: v for k, v in local.items() if k not in ("self", "features", "seed", "__class__")}


def between(
    argument: str, value: Any, low: float, high: float, *, inclusive: bool = False
) -> float:
    """Check that a number lies between two others."""
    ok = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    inside = ok and (low <= value <= high if inclusive else low < value < high)
    if not inside:
        edge = "included" if inclusive else "excluded"
        limits = (
            f"above {low:g}" if high == math.inf else f"between {low:g} and {high:g}, both {edge}"
        )
        if high == math.inf and inclusive:
            limits = f"at least {low:g}"
        raise InvalidArgument(argument, value, f"a number {limits}")
    return float(value)


def tuned(setting: str) -> bool:
    """Whether a baseline is asked for in its tuned setting."""
    if setting not in ("paper", "tuned"):
        raise InvalidArgument("setting", setting, '"paper" or "tuned"')
    return setting == "tuned"


def as_history_rows(features: Any, count: int, arms: Arms) -> FloatArray:
    """The features that the arm played in each round of a history had, (n, d)."""
    if features is None:
        raise InvalidArgument("features", None, "the features that each past round had")
    table = _table(features, "features")
    wanted = (count, arms.features.shape[1])
    if table.shape != wanted:
        raise InvalidArgument("features", f"shape {table.shape}", f"shape {wanted}")
    return table
