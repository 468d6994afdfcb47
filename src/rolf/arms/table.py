"""The table of arms: features (K, d), and the user's names for arms and columns."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rolf.checks import MAX_FEATURE, is_text
from rolf.errors import InvalidArgument
from rolf.extras import require
from rolf.tables.raw import index_labels
from rolf.text import first_few
from rolf.types import FloatArray, IntArray

if TYPE_CHECKING:
    from rolf.tables.recipe import Recipe


def number_table(
    values: Any,
    argument: str = "features",
    *,
    rows: int | None = None,
    columns: int | None = None,
) -> FloatArray:
    """A copy of a (K, d) table of finite numbers, optionally with a required number of rows or
    columns.

    All features are checked here: of policies, augmentations and problems, of rounds and histories,
    and of arms added later.
    """
    try:
        table = np.array(values, dtype=np.float64, order="C")
    except (TypeError, ValueError, OverflowError):
        raise InvalidArgument(argument, values, "a (K, d) table of numbers") from None
    if table.ndim != 2:
        raise InvalidArgument(argument, f"shape {table.shape}", "a (K, d) table, one row per arm")
    shape = (
        table.shape[0] if rows is None else rows,
        table.shape[1] if columns is None else columns,
    )
    if table.shape != shape:
        raise InvalidArgument(argument, f"shape {table.shape}", f"shape {shape}")
    if not np.isfinite(table).all():
        row, column = np.argwhere(~np.isfinite(table))[0]
        raise InvalidArgument(
            argument, f"{table[row, column]} in row {row}, column {column}", "finite numbers"
        )
    if (np.abs(table) > MAX_FEATURE).any():
        row, column = np.argwhere(np.abs(table) > MAX_FEATURE)[0]
        got = f"{table[row, column]} in row {row}, column {column}"
        raise InvalidArgument(argument, got, f"numbers of size up to {MAX_FEATURE:g}")
    return table


def arm_features(values: Any) -> FloatArray:
    """The features (K, d) of at least two arms, with at least one column."""
    table = number_table(values)
    if table.shape[0] == 0 or table.shape[1] == 0:
        raise InvalidArgument("features", f"shape {table.shape}", "at least one row and one column")
    if table.shape[0] < 2:
        raise InvalidArgument("features", "one arm", "at least two arms to choose from")
    return table


class Arms:
    """The arms of a policy: features (K, d), and the user's names for them.

    ``recipe`` says how they were read, if their table holds more than numbers.
    """

    def __init__(
        self,
        features: FloatArray,
        labels: Sequence[Any] | None,
        columns: Sequence[Any] | None = None,
        recipe: Recipe | None = None,
    ) -> None:
        self.features = features
        self.recipe = recipe
        names = range(features.shape[1]) if columns is None else columns
        self.columns = [str(name) for name in names]
        if len(self.columns) != features.shape[1]:
            expected = f"{features.shape[1]} names of columns"
            raise InvalidArgument("features", f"{len(self.columns)}", expected)
        self.count: int = features.shape[0]
        self.named = labels is not None
        self.labels: list[Any] = list(range(self.count)) if labels is None else list(labels)
        self._positions: dict[Any, int] = {label: i for i, label in enumerate(self.labels)}
        if len(self.labels) != self.count or len(self._positions) != self.count:
            raise InvalidArgument("features", labels, "an index that names each arm once")

    @classmethod
    def read(cls, features: Any) -> Arms:
        """At least two arms, from an array, a nested list, a DataFrame whose index names them, or
        anything that ``read_arms`` reads."""
        from rolf.arms.reading import is_table, read_arms

        if isinstance(features, Arms):
            return features
        if is_table(features):
            if isinstance(features, str | Path) and not Path(features).exists():
                raise InvalidArgument("features", str(features), "a (K, d) table, or its file")
            return read_arms(features)
        labels = index_labels(features)
        table = arm_features(features)
        return cls(table, labels, getattr(features, "columns", None) if labels else None)

    def with_rows(self, features: FloatArray, labels: Sequence[Any]) -> Arms:
        """A table of other arms with these columns."""
        names, columns = (labels, self.columns) if self.named else (None, None)
        return Arms(features, names, columns, self.recipe)

    def position(self, label: Any, argument: str = "arm") -> int:
        """The position of the arm with this label."""
        try:
            if not isinstance(label, bool):
                return self._positions[label]
            raise KeyError(label)
        except (KeyError, TypeError):
            known = first_few([repr(each) for each in self.labels[:6]])
            raise InvalidArgument(argument, label, f"one of {known}") from None

    def positions(self, labels: Sequence[Any], argument: str = "arms") -> IntArray:
        """The positions of these arms, in this order, with repetitions."""
        listed = labels.tolist() if hasattr(labels, "tolist") else list(labels)
        return np.array([self.position(label, argument) for label in listed], dtype=np.int64)

    def subset(self, available: Iterable[Any]) -> IntArray:
        """The positions, ascending, of some arms, given as a list of arms or as K booleans."""
        if isinstance(available, str) or not isinstance(available, Iterable):
            raise InvalidArgument("available", available, "a list of arms")
        listed = available.tolist() if hasattr(available, "tolist") else list(available)
        if any(isinstance(each, bool) for each in listed):
            if len(listed) != self.count or not all(isinstance(each, bool) for each in listed):
                raise InvalidArgument("available", listed, f"arms, or {self.count} booleans")
            positions = [i for i, each in enumerate(listed) if each]
        else:
            positions = sorted({self.position(label, "available") for label in listed})
        if not positions:
            raise InvalidArgument("available", [], "at least one arm")
        return np.array(positions, dtype=np.int64)

    def round_features(self, features: Any) -> FloatArray:
        """The checked features of one round, in the order of these arms and columns."""
        if features is None:
            raise InvalidArgument("features", None, f"the round's features, {self.features.shape}")
        if self.recipe is not None:
            from rolf.arms.reading import needs_recipe, read_rows

            if needs_recipe(features, self):
                features = self._in_order(read_rows(features, self))
        if self.named and hasattr(features, "reindex"):  # rows and columns by name, in any order
            if len(features.index) != self.count or set(features.index) != set(self.labels):
                raise InvalidArgument(
                    "features", list(features.index), "an index that names all arms"
                )
            features = self.ordered_columns(features).loc[self.labels]
        return number_table(features, rows=self.count, columns=len(self.columns))

    def _in_order(self, rows: Arms) -> FloatArray:
        """The features of all arms, read from a table that may contain text."""
        places = {str(label): place for place, label in enumerate(rows.labels)}
        if places.keys() != {str(label) for label in self.labels}:
            raise InvalidArgument("features", rows.labels, "rows that name all arms")
        return rows.features[[places[str(label)] for label in self.labels]]

    def ordered_columns(self, frame: Any) -> Any:
        """A DataFrame with this table's columns, in this table's order."""
        columns = {str(each): each for each in frame.columns}
        if sorted(columns) != sorted(self.columns):
            raise InvalidArgument("features", list(columns), f"the columns {self.columns}")
        return frame[[columns[each] for each in self.columns]]

    def labelled(self, values: FloatArray, columns: Sequence[str] | None = None) -> Any:
        """Values per arm as the user sees them: an array; for named arms a Series, or a DataFrame
        if there are columns."""
        if not self.named:
            return values
        require("pandas", "a table of named arms")
        import pandas

        if columns is not None:
            return pandas.DataFrame(values, index=self.labels, columns=list(columns))
        return pandas.Series(values, index=self.labels)


def check_names(labels: Iterable[Any], argument: str = "features") -> None:
    """Raise if an arm's name cannot be stored, being neither text nor a finite number."""
    for label in labels:
        good = isinstance(label, str | int | float) and not isinstance(label, bool)
        good = good and is_text(str(label))
        if not good or (isinstance(label, float) and not math.isfinite(label)):
            raise InvalidArgument(argument, label, "arms named by text or numbers")
