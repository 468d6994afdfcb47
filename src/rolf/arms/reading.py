"""Read tables of arms from files and DataFrames, in whatever form their columns come."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rolf.arms.table import Arms, arm_features
from rolf.checks import one_of
from rolf.errors import RolfWarning
from rolf.tables.cells import typed_number
from rolf.tables.kinds import Category, Columns, Number, Quantity
from rolf.tables.raw import (
    RawTable,
    frame_columns,
    index_labels,
    is_frame,
    may_be_id,
    named_by_column,
    read_raw,
)
from rolf.tables.recipe import Recipe
from rolf.text import listed

#: a column is implied by others if no more than this share of it is independent of them
TINY = 1e-9


@dataclass(frozen=True)
class Reading:
    """A table of arms, and how its columns were read."""

    arms: Arms
    recipe: Recipe
    left_out: list[str] = field(default_factory=list)  # zeros and ones implied by others
    notes: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        columns = self.recipe.columns
        numbers = [each.name for each in columns if isinstance(each, Quantity)]
        texts = [
            f"{each.name} ({len(each.slots)})" for each in columns if isinstance(each, Category)
        ]
        parts = [f"arms named by {self.recipe.key or 'the index'}"]
        if numbers:
            parts.append(f"numbers: {listed(numbers)}")
        if texts:
            parts.append(f"text, with the number of categories: {listed(texts)}")
        lines = ["; ".join(parts)]
        if self.left_out:
            lines.append(f"left out, implied by other columns: {listed(self.left_out)}")
        words = self.recipe.describe(self.arms.columns)
        lines += [f"{each.name}: {words[each.name]}" for each in columns if not _plain(each)]
        return "\n".join(lines)

    def warn(self, stacklevel: int = 3) -> None:
        """Issue the notes as warnings."""
        for note in self.notes:
            warnings.warn(note, RolfWarning, stacklevel=stacklevel)


def _plain(column: Any) -> bool:
    """Whether a column needs no explanation: plain numbers, or a few categories."""
    if isinstance(column, Category):
        return not column.rare and not column.missing
    return isinstance(column, Number) and column == Number(column.name, column.fill)


def read_arms(source: Any, *, missing: str = "impute") -> Arms:
    """Read a table of arms, one row per arm: a CSV or Parquet file, or a DataFrame.

    In a file, arms are named by the column ``arm``, ``item_id`` or ``id``, else by the index that
    pandas wrote, else by the first column. In a DataFrame they are named by its index or, if that
    merely counts the rows, by one of these columns or a column of ids.

    Numbers may have a decimal comma, a currency or a percent sign; dates become days. A column of
    text becomes one column of zeros and ones per category, without columns that are implied by
    earlier ones. ``recipe`` records how each column was read; warnings say what you should know.

    Args:
        source: the path of a file, a pandas or polars DataFrame, or a list of rows, each a dict by
            column.
        missing: "impute" reads a missing number as the median of its column and marks it in an
            extra column; missing text becomes a category. "error" refuses both.
    """
    reading = understand(source, missing=missing)
    reading.warn(stacklevel=3)
    return reading.arms


def understand(source: Any, *, missing: str = "impute") -> Reading:
    """Read a table of arms and report how it was read, without warnings."""
    refuse = one_of("missing", missing, "impute", "error") == "error"
    raw = read_raw(source)
    recipe = Recipe.fit(raw, refuse=refuse)
    columns = recipe.apply(raw)
    if not columns:
        wanted = "at least one column that is a feature"
        raw.report.problem("columns", recipe.describe(()), wanted)
    raw.report.check()
    own = {column.name for column in recipe.columns}
    columns, left_out = _independent(columns, own)
    features = arm_features(np.column_stack(list(columns.values())))
    arms = Arms(features, raw.labels, list(columns), recipe=recipe)
    return Reading(arms, recipe, left_out, raw.report.notes)


def _independent(columns: Columns, own: set[str]) -> tuple[Columns, list[str]]:
    """Split columns into those to keep, and the names of the others: columns of zeros and ones that
    earlier columns imply. The user's ``own`` columns are always kept."""
    kept: Columns = {}
    left_out = []
    basis = np.empty((next(iter(columns.values())).size, 0))
    for name, values in columns.items():
        rest = values - basis @ (basis.T @ values)
        rest -= basis @ (basis.T @ rest)
        size = np.linalg.norm(rest)
        new = size > TINY * np.linalg.norm(values)
        if new:
            basis = np.column_stack([basis, rest / size])
        if new or name in own:
            kept[name] = values
        else:
            left_out.append(name)
    return kept, left_out


def read_rows(source: Any, like: Arms) -> Arms:
    """Read rows for an existing table of arms: its columns, in its order.

    Columns are read by that table's recipe, or in order if its columns have no names.
    """
    rows, notes = rows_and_notes(source, like)
    for note in notes:
        warnings.warn(note, RolfWarning, stacklevel=2)
    return rows


def rows_and_notes(source: Any, like: Arms) -> tuple[Arms, list[str]]:
    """What ``read_rows`` reads, and its warnings as text."""
    if not like.named:
        raw = read_raw(source, features=())
        return Arms(_by_order(raw, like), raw.labels), raw.report.notes
    recipe = like.recipe or Recipe.of_columns(like.columns)
    raw = read_raw(source, recipe.key, {*recipe.names, *like.columns})
    columns = recipe.apply(raw, like.columns)
    raw.report.check()
    features = np.column_stack([columns[name] for name in like.columns])
    return Arms(features, raw.labels, like.columns), raw.report.notes


def _by_order(raw: RawTable, like: Arms) -> Any:
    if len(raw.columns) != len(like.columns):
        raw.report.problem("columns", [*raw.columns], f"{len(like.columns)} features")
        raw.report.check()
    numbers = [
        Number(name).apply(cells, raw.report, like.columns)[name]
        for name, cells in raw.columns.items()
    ]
    raw.report.check()
    return np.column_stack(numbers)


def is_table(features: Any) -> bool:
    """Whether this needs ``read_arms``: a file, a list of dicts, or a DataFrame that holds more
    than numbers or names its arms."""
    if isinstance(features, str | Path):
        return True
    if isinstance(features, list) and features and isinstance(features[0], dict):
        return True
    if not is_frame(features):
        return False
    odd = [not _numeric(dtype) for dtype in features.dtypes]
    if _lacks_numbers(features, odd):
        return True
    counting = index_labels(features) in (None, list(range(len(features))))
    names = [str(name) for name in features.columns]
    looked_at = [i for i, name in enumerate(names) if odd[i] or (counting and may_be_id(name))]
    cells = frame_columns(features, looked_at)
    plain = all(typed_number(cell) is not None for each in cells.values() for cell in each)
    return not plain or (counting and named_by_column(cells))


def needs_recipe(features: Any, like: Arms) -> bool:
    """Whether rows for an existing table of arms need ``read_rows``."""
    return is_table(features) or (like.recipe is not None and is_frame(features))


def _numeric(dtype: Any) -> bool:
    """Whether a pandas or polars type is numeric."""
    if hasattr(dtype, "kind"):
        return dtype.kind in "biuf"
    return dtype.is_numeric() or str(dtype) == "Boolean"


def _lacks_numbers(frame: Any, odd: Sequence[bool]) -> bool:
    """Whether a DataFrame has missing numbers."""
    if hasattr(frame, "isna"):
        return bool(frame.isna().to_numpy().any())
    columns = [frame[name] for name, other in zip(frame.columns, odd, strict=True) if not other]
    return any(np.isnan(column.cast(float).to_numpy()).any() for column in columns)
