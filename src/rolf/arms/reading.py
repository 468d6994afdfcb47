"""Read tables of arms from files, and from DataFrames that contain text."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rolf.arms.files import check_columns, numbers, read_table
from rolf.arms.table import Arms, index_labels
from rolf.errors import InvalidArgument, RolfWarning
from rolf.extras import require
from rolf.types import FloatArray

KEY_COLUMNS = ("arm", "item_id", "id")  # that name the arms
UNNAMED_INDEX = ("", "Unnamed: 0", "__index_level_0__")  # pandas' names for one in a file
MAX_LISTED = 10  # names in a line
FRAME = "features"  # the name of a DataFrame in messages
NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*")
DECIMAL_COMMA = re.compile(r"\s*[-+]?\d*,\d+\s*")


@dataclass(frozen=True)
class RawTable:
    """A table of arms before its text is encoded."""

    source: str  # the file, for messages
    table: Any
    key: str  # the column that names the arms, or "the index"
    labels: list[Any]
    names: list[str]  # columns of features

    def numbers(self, name: str) -> FloatArray:
        return numbers(self.source, self.table, name)

    def values(self, name: str) -> list[Any]:
        return self.table.column(name).to_pylist()  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Reading:
    """A table of arms, and how its columns were read."""

    arms: Arms
    key: str
    numeric: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        texts = [f"{name} ({len(each)})" for name, each in self.arms.categories.items()]
        parts = [f"arms named by {self.key}"]
        if self.numeric:
            parts.append(f"numbers: {_listed(self.numeric)}")
        if texts:
            parts.append(f"text, with how many categories: {_listed(texts)}")
        summary = "; ".join(parts)
        if self.left_out:
            summary += f"\nleft out, as it follows from other columns: {_listed(self.left_out)}"
        return summary


def _listed(names: list[str]) -> str:
    more = len(names) - MAX_LISTED
    return ", ".join(names[:MAX_LISTED]) + (f" and {more} more" if more > 0 else "")


def read_arms(source: Any) -> Arms:
    """Read a table of arms, one row per arm: a CSV or Parquet file, or a DataFrame.

    In a file the arms are named by the column ``arm``, ``item_id`` or ``id``, else by the index
    that pandas wrote, else by the first column. In a DataFrame they are named by its index, or by
    such a column if the index only counts the rows. A column of text becomes one column of zeros
    and ones per category, without those that follow from the columns before them.
    """
    return understand(source).arms


def understand(source: Any) -> Reading:
    """Read a table of arms and report how; warns about columns that look like mistakes."""
    raw = _raw_table(source)
    columns: dict[str, FloatArray] = {}
    categories: dict[str, list[str]] = {}
    numeric, left_out = [], []
    for name in raw.names:
        values = raw.values(name)
        if not any(isinstance(value, str) for value in values):
            columns[name] = raw.numbers(name)
            numeric.append(name)
            continue
        if doubt := _doubt(values, raw.labels):
            warnings.warn(f"{raw.source}: {name}: {doubt}", RolfWarning, stacklevel=3)
        categories[name] = sorted({str(value) for value in values})
        for category in categories[name]:
            dummy = _dummy(values, category)
            span = np.column_stack([*columns.values(), dummy])
            if np.linalg.matrix_rank(span) == span.shape[1]:
                columns[f"{name}={category}"] = dummy
            else:
                left_out.append(f"{name}={category}")
    checked = Arms.read(np.column_stack(list(columns.values())))
    arms = Arms(checked.features, raw.labels, list(columns), categories)
    return Reading(arms, raw.key, numeric, left_out)


def read_rows(source: Any, like: Arms) -> Arms:
    """Read rows for an existing table of arms: its columns, in its order.

    Text becomes zeros and ones in the columns of that table. If its columns have no names, the
    order of the columns counts.
    """
    texts = _text_columns(like)
    raw = _raw_table(source, [*texts])
    names = raw.names
    if not like.named:
        if len(names) != len(like.columns):
            expected = f"{len(like.columns)} features"
            raise InvalidArgument(f"{raw.source}: columns", names, expected)
        return Arms(np.column_stack([raw.numbers(name) for name in names]), raw.labels)
    columns: dict[str, FloatArray] = {}
    for name in names:
        if name in like.columns:
            columns[name] = raw.numbers(name)
        elif name in texts:
            values = raw.values(name)
            _check_categories(raw.source, name, values, texts[name])
            columns |= {f"{name}={each}": _dummy(values, each) for each in texts[name]}
    if {*like.columns} - {*columns} or {*names} - {*like.columns, *texts}:
        known = list(dict.fromkeys(_origin(name, texts) for name in like.columns))
        raise InvalidArgument(f"{raw.source}: columns", names, f"those of the experiment, {known}")
    features = np.column_stack([columns[name] for name in like.columns])
    return Arms(features, raw.labels, like.columns)


def is_table(features: Any) -> bool:
    """Whether ``read_arms`` must read it: a file, or a DataFrame with text or names in it."""
    if isinstance(features, str | Path):
        return True
    if not all(hasattr(features, name) for name in ("to_numpy", "index", "columns")):
        return False
    others = [i for i, dtype in enumerate(features.dtypes) if dtype.kind not in "biuf"]
    values = (value for i in others for value in _column_values(features, i))
    return _named_by_column(features) or any(isinstance(value, str) for value in values)


# --- files and DataFrames --------------------------------------------------------------------


def _raw_table(source: Any, text: Sequence[str] = ()) -> RawTable:
    """The table of a file or DataFrame; the columns named in ``text`` hold text."""
    is_file = isinstance(source, str | Path)
    raw = _file_table(source, text) if is_file else _frame_table(source, text)
    if "" in raw.labels:
        row = raw.labels.index("")
        raise InvalidArgument(f"{raw.source}: {raw.key}", f"nothing in row {row}", "a name")
    if twice := _repeated(raw.labels):
        raise InvalidArgument(f"{raw.source}: {raw.key}", f"{twice} twice", "each arm once")
    return raw


def _file_table(path: str | Path, text: Sequence[str]) -> RawTable:
    table = read_table(path)
    _check_columns(str(path), table.column_names, table.num_rows)
    key = _key_column(table)
    names = [name for name in table.column_names if name not in (key, *UNNAMED_INDEX)]
    if key is None or not names:
        expected = "the arms' names and at least one feature"
        raise InvalidArgument(f"{path}: columns", table.column_names, expected)
    table = read_table(path, (key, *KEY_COLUMNS, *text))
    labels = [label or "" for label in table.column(key).to_pylist()]
    return RawTable(str(path), table, key or "the index", labels, names)


def _key_column(table: Any) -> str | None:
    """The column that names the arms."""
    names: list[str] = table.column_names
    if keys := [name for name in KEY_COLUMNS if name in names]:
        return keys[0]
    index = (table.schema.pandas_metadata or {}).get("index_columns", [])
    for name in [*(name for name in index if name in names), *names]:
        # an unnamed index of numbers only counts the rows
        if name not in UNNAMED_INDEX or isinstance(table.column(name)[0].as_py(), str):
            return str(name)
    return None


def _frame_table(frame: Any, text: Sequence[str]) -> RawTable:
    require("pyarrow", "a DataFrame of arms")
    import pyarrow as pa

    columns = [str(column) for column in frame.columns]
    _check_columns(FRAME, columns, len(frame))
    values = {name: _column_values(frame, i) for i, name in enumerate(columns)}
    key = None
    labels = index_labels(frame) or []
    if _named_by_column(frame):
        key = next(name for name in KEY_COLUMNS if name in columns)
        labels = ["" if label is None else str(label) for label in values[key]]
    names = [name for name in columns if name != key]
    if not names:
        raise InvalidArgument(f"{FRAME}: columns", columns, "at least one feature")
    for name in names:
        if name in text or any(isinstance(value, str) for value in values[name]):
            values[name] = [None if value is None else str(value) for value in values[name]]
    try:
        table = pa.table({name: values[name] for name in names})
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InvalidArgument(FRAME, columns, f"columns of numbers or text ({error})") from None
    return RawTable(FRAME, table, key or "the index", labels, names)


def _column_values(frame: Any, i: int) -> list[Any]:
    """The values in a column of a DataFrame; None for those that are missing."""
    column = frame.iloc[:, i]
    pairs = zip(column.tolist(), column.isna().tolist(), strict=True)
    return [None if missing else value for value, missing in pairs]


def _named_by_column(frame: Any) -> bool:
    """Whether a column names the arms: one has the name of a key, and the index only counts."""
    if not any(str(column) in KEY_COLUMNS for column in frame.columns):
        return False
    return bool(list(frame.index) == list(range(len(frame))))


def _check_columns(source: str, columns: list[str], rows: int) -> None:
    check_columns(source, columns)
    if not rows:
        raise InvalidArgument(source, "no rows", "one row per arm")


def _repeated(names: list[Any]) -> Any:
    return next((name for name, count in Counter(names).items() if count > 1), None)


# --- text --------------------------------------------------------------------------------------


def _doubt(values: list[Any], labels: list[Any]) -> str:
    """Why a column may not be meant as text; empty if it looks right."""
    texts = ["" if value is None else str(value) for value in values]
    commas = [row for row, text in enumerate(texts) if DECIMAL_COMMA.fullmatch(text)]
    plain = [row for row, text in enumerate(texts) if NUMBER.fullmatch(text)]
    other = [row for row in range(len(texts)) if row not in {*commas, *plain}]
    if commas and len(commas) + len(plain) > len(other):
        row, why = commas[0], "looks like a number with a decimal comma, but is read as text"
        hint = "write numbers with a point"
    elif plain and other:
        row = other[0] if len(plain) >= len(other) else plain[0]
        why = "stands among text" if row == plain[0] else "stands among numbers"
        why, hint = f"{why}, so the whole column is read as text", "each value is a category"
    elif len(texts) > 2 and len({*texts}) == len(texts):
        row, why = 0, "and all others differ, so that every arm gets a feature of its own"
        hint = "leave the column out unless that is meant"
    else:
        return ""
    return f"{texts[row]!r} in row {row} (arm {labels[row]}) {why}; {hint}"


def _dummy(values: list[Any], category: str) -> FloatArray:
    return np.array([float(str(value) == category) for value in values])


def _text_columns(like: Arms) -> dict[str, list[str]]:
    """The columns of text behind a table, with those of their categories that are known."""
    categories: dict[str, list[str]] = {}
    for column in like.columns:
        name, equals, category = column.partition("=")
        if equals and name not in like.columns:
            categories.setdefault(name, []).append(category)
    return {**categories, **like.categories}


def _origin(column: str, texts: Mapping[str, list[str]]) -> str:
    """The column of a file that a column of features comes from."""
    return next((name for name in texts if column.startswith(f"{name}=")), column)


def _check_categories(source: str, name: str, values: list[Any], known: list[str]) -> None:
    for row, value in enumerate(values):
        if str(value) not in known:
            expected = f"one of {', '.join(known)}: the experiment has no column for others"
            raise InvalidArgument(f"{source}: {name}", f"{value} in row {row}", expected)
