"""Checks at the public boundary: features, arms, rewards. Kernels assume valid input."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from rolf.errors import InvalidArgument, MissingExtra
from rolf.types import FloatArray, IntArray


class Arms:
    """The arms of a policy: features (K, d), and how the user calls them.

    ``categories`` are the values of columns of text, each of which may have become a column.
    """

    def __init__(
        self,
        features: FloatArray,
        labels: Sequence[Any] | None,
        columns: Sequence[Any] | None = None,
        categories: Mapping[str, list[str]] | None = None,
    ) -> None:
        self.features = features
        self.categories = dict(categories or {})
        named = range(features.shape[1]) if columns is None else columns
        self.columns = [str(each) for each in named]
        self.count: int = features.shape[0]
        self.named = labels is not None
        self.labels: list[Any] = list(range(self.count)) if labels is None else list(labels)
        self._positions: dict[Any, int] = {label: i for i, label in enumerate(self.labels)}
        if len(self._positions) != self.count:
            raise InvalidArgument("features", labels, "an index that names each arm once")

    def position(self, label: Any, argument: str = "arm") -> int:
        """Position of an arm, by the user's name for it."""
        try:
            if not isinstance(label, bool):
                return self._positions[label]
            raise KeyError(label)
        except (KeyError, TypeError):
            known = ", ".join(repr(each) for each in self.labels[:5])
            more = ", ..." if self.count > 5 else ""
            raise InvalidArgument(argument, label, f"one of {known}{more}") from None

    def subset(self, available: Iterable[Any]) -> IntArray:
        """Positions of some arms, ascending: a list of arms, or K booleans."""
        if isinstance(available, str) or not isinstance(available, Iterable):
            raise InvalidArgument("available", available, "a list of arms")
        given = available.tolist() if hasattr(available, "tolist") else list(available)
        if any(isinstance(each, bool) for each in given):
            if len(given) != self.count or not all(isinstance(each, bool) for each in given):
                raise InvalidArgument("available", given, f"arms, or {self.count} booleans")
            positions = [i for i, each in enumerate(given) if each]
        else:
            positions = sorted({self.position(label, "available") for label in given})
        if not positions:
            raise InvalidArgument("available", [], "at least one arm")
        return np.array(positions, dtype=np.int64)

    def labelled(self, values: FloatArray, columns: Sequence[str] | None = None) -> Any:
        """Values of all arms as the user sees them: an array, or a Series with names; with
        columns, a DataFrame."""
        if not self.named:
            return values
        try:
            import pandas
        except ImportError as error:
            hint = "arms with names need pandas: pip install 'rolf-bandits[all]'"
            raise MissingExtra(hint) from error
        if columns is not None:
            return pandas.DataFrame(values, index=self.labels, columns=list(columns))
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
    return Arms(table, labels, getattr(features, "columns", None) if labels else None)


def as_round_features(features: Any, arms: Arms) -> FloatArray:
    """The features of one round, for the arms and columns known from the start."""
    if features is None:
        raise InvalidArgument("features", None, f"the round's features, {arms.features.shape}")
    if arms.named and hasattr(features, "reindex"):  # rows and columns by name, in any order
        columns = {str(each): each for each in features.columns}
        if len(features.index) != arms.count or set(features.index) != set(arms.labels):
            raise InvalidArgument("features", list(features.index), "an index that names all arms")
        if sorted(columns) != sorted(arms.columns):
            raise InvalidArgument("features", list(columns), f"the columns {arms.columns}")
        features = features.loc[arms.labels, [columns[each] for each in arms.columns]]
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
        value = math.nan if isinstance(reward, str) else float(reward)
    except (TypeError, ValueError, OverflowError):
        raise InvalidArgument("reward", reward, "a number") from None
    if not math.isfinite(value):
        raise InvalidArgument("reward", reward, "a finite number")
    return value


def given(local: dict[str, Any]) -> dict[str, Any]:
    """The options of a constructor, from its ``locals()``: what a saved state records."""
    hidden = ("self", "features", "seed", "__class__")
    return {key: _as_data(value) for key, value in local.items() if key not in hidden}


def _as_data(value: Any) -> Any:
    """NumPy numbers, arrays and tuples as what JSON gives back."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    return list(value) if isinstance(value, tuple) else value


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
