"""Tables of arms, read from files and from DataFrames with text in them."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rolf.arms.files import numbers, read_table
from rolf.arms.table import Arms, index_labels
from rolf.errors import InvalidArgument, RolfWarning
from rolf.types import FloatArray

NAMES = ("arm", "item_id", "id")  # of the column that names the arms
INDEX = ("", "Unnamed: 0", "__index_level_0__")  # what pandas calls an index without a name
SHOWN = 10  # names in a line
FRAME = "features"  # what a DataFrame is called in messages
NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*")
COMMA = re.compile(r"\s*[-+]?\d*,\d+\s*")


@dataclass(frozen=True)
class Rows:
    """A table of arms as it was given."""

    source: str  # the file, for messages
    table: Any
    key: str  # what names the arms, in words
    labels: list[Any]
    names: list[str]  # columns of features

    def numbers(self, name: str) -> FloatArray:
        return numbers(self.source, self.table, name)

    def values(self, name: str) -> list[Any]:
        return self.table.column(name).to_pylist()  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Reading:
    """A table of arms, and how it was understood."""

    arms: Arms
    key: str
    numeric: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        texts = [f"{name} ({len(each)})" for name, each in self.arms.categories.items()]
        parts = [f"arms named by {self.key}"]
        if self.numeric:
            parts.append(f"numbers: {_some(self.numeric)}")
        if texts:
            parts.append(f"text, with how many categories: {_some(texts)}")
        out = "; ".join(parts)
        if self.left_out:
            out += f"\nleft out, as it follows from other columns: {_some(self.left_out)}"
        return out


def _some(names: list[str]) -> str:
    more = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {more} more" if more > 0 else "")


def read_arms(source: Any) -> Arms:
    """Read a table of arms, one row an arm: a CSV or Parquet file, or a DataFrame.

    The arms are named by the column ``arm``, ``item_id`` or ``id``, else by the index of a
    DataFrame, else by the first column. The index of a DataFrame that is not in a file comes
    first, unless it only counts. A column of text becomes one column of zeros and ones a
    category, without those that follow from the columns before.
    """
    return understand(source).arms


def understand(source: Any) -> Reading:
    """Read a table of arms, and say how; a column that looks like a mistake gives a warning."""
    rows = _rows(source)
    columns: dict[str, FloatArray] = {}
    categories: dict[str, list[str]] = {}
    numeric, left_out = [], []
    for name in rows.names:
        values = rows.values(name)
        if not any(isinstance(each, str) for each in values):
            columns[name] = rows.numbers(name)
            numeric.append(name)
            continue
        if doubt := _doubt(values, rows.labels):
            warnings.warn(f"{rows.source}: {name}: {doubt}", RolfWarning, stacklevel=3)
        categories[name] = sorted({str(each) for each in values})
        for category in categories[name]:
            dummy = _dummy(values, category)
            span = np.column_stack([*columns.values(), dummy])
            if np.linalg.matrix_rank(span) == span.shape[1]:
                columns[f"{name}={category}"] = dummy
            else:
                left_out.append(f"{name}={category}")
    checked = Arms.read(np.column_stack(list(columns.values())))
    arms = Arms(checked.features, rows.labels, list(columns), categories)
    return Reading(arms, rows.key, numeric, left_out)


def read_rows(source: Any, like: Arms) -> Arms:
    """Read rows for a table of arms that is there: its columns, in its order.

    Text becomes zeros and ones in the columns of that table. Columns without names go by
    their places.
    """
    texts = _texts(like)
    rows = _rows(source, [*texts])
    names = rows.names
    if not like.named:
        if len(names) != len(like.columns):
            wanted = f"{len(like.columns)} features"
            raise InvalidArgument(f"{rows.source}: columns", names, wanted)
        return Arms(np.column_stack([rows.numbers(name) for name in names]), rows.labels)
    found: dict[str, FloatArray] = {}
    for name in names:
        if name in like.columns:
            found[name] = rows.numbers(name)
        elif name in texts:
            values = rows.values(name)
            _check_categories(rows.source, name, values, texts[name])
            found |= {f"{name}={each}": _dummy(values, each) for each in texts[name]}
    if {*like.columns} - {*found} or {*names} - {*like.columns, *texts}:
        known = list(dict.fromkeys(_origin(name, texts) for name in like.columns))
        raise InvalidArgument(f"{rows.source}: columns", names, f"those of the experiment, {known}")
    features = np.column_stack([found[name] for name in like.columns])
    return Arms(features, rows.labels, like.columns)


def is_table(features: Any) -> bool:
    """Whether features are for ``read_arms``: a file, or a DataFrame with text or names in it."""
    if isinstance(features, str | Path):
        return True
    if not all(hasattr(features, each) for each in ("to_numpy", "index", "columns")):
        return False
    others = [i for i, each in enumerate(features.dtypes) if each.kind not in "biuf"]
    texts = (value for place in others for value in _list(features, place))
    return _named_by_column(features) or any(isinstance(each, str) for each in texts)


# --- files and DataFrames --------------------------------------------------------------------


def _rows(source: Any, text: Sequence[str] = ()) -> Rows:
    """The rows, the arms' names as written, and the columns of features."""
    rows = _file(source, text) if isinstance(source, str | Path) else _frame(source, text)
    if "" in rows.labels:
        got = f"nothing in row {rows.labels.index('')}"
        raise InvalidArgument(f"{rows.source}: {rows.key}", got, "a name")
    if twice := _repeated(rows.labels):
        raise InvalidArgument(f"{rows.source}: {rows.key}", f"{twice} twice", "each arm once")
    return rows


def _file(path: str | Path, text: Sequence[str]) -> Rows:
    table = read_table(path)
    _check_shape(str(path), table.column_names, table.num_rows)
    key = _key(table)
    names = [name for name in table.column_names if name not in (key, *INDEX)]
    if key is None or not names:
        wanted = "the arms' names and at least one feature"
        raise InvalidArgument(f"{path}: columns", table.column_names, wanted)
    table = read_table(path, (key, *NAMES, *text))
    labels = [each or "" for each in table.column(key).to_pylist()]
    return Rows(str(path), table, key or "the index", labels, names)


def _key(table: Any) -> str | None:
    """The column that names the arms."""
    names: list[str] = table.column_names
    if known := [name for name in NAMES if name in names]:
        return known[0]
    index = (table.schema.pandas_metadata or {}).get("index_columns", [])
    for name in [*(name for name in index if name in names), *names]:
        # an index without a name that is a number counts the rows, and names nothing
        if name not in INDEX or isinstance(table.column(name)[0].as_py(), str):
            return str(name)
    return None


def _frame(frame: Any, text: Sequence[str]) -> Rows:
    import pyarrow as pa

    columns = [str(each) for each in frame.columns]
    _check_shape(FRAME, columns, len(frame))
    listed = {name: _list(frame, place) for place, name in enumerate(columns)}
    key = next(name for name in NAMES if name in columns) if _named_by_column(frame) else None
    if key is None:
        labels = index_labels(frame) or []
    else:
        labels = ["" if each is None else str(each) for each in listed[key]]
    names = [name for name in columns if name != key]
    if not names:
        raise InvalidArgument(f"{FRAME}: columns", columns, "at least one feature")
    for name, values in listed.items():
        if name in text or any(isinstance(each, str) for each in values):
            listed[name] = [None if each is None else str(each) for each in values]
    try:
        table = pa.table({name: listed[name] for name in names})
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InvalidArgument(FRAME, columns, f"columns of numbers or text ({error})") from None
    return Rows(FRAME, table, key or "the index", labels, names)


def _list(frame: Any, place: int) -> list[Any]:
    """A column of a DataFrame; None where it has nothing."""
    column = frame.iloc[:, place]
    pairs = zip(column.tolist(), column.isna().tolist(), strict=True)
    return [None if missing else value for value, missing in pairs]


def _named_by_column(frame: Any) -> bool:
    """Whether a column names the arms: there is one for it, and the index only counts."""
    if not any(str(each) in NAMES for each in frame.columns):
        return False
    return bool(list(frame.index) == list(range(len(frame))))


def _check_shape(source: str, columns: list[str], count: int) -> None:
    if twice := _repeated(columns):
        raise InvalidArgument(f"{source}: columns", f"{twice} twice", "each column once")
    if not count:
        raise InvalidArgument(source, "no rows", "one row an arm")


def _repeated(names: list[Any]) -> Any:
    return next((name for name, count in Counter(names).items() if count > 1), None)


# --- text --------------------------------------------------------------------------------------


def _doubt(values: list[Any], labels: list[Any]) -> str:
    """Why a column of text may not be meant as one; empty if it looks right."""
    texts = ["" if each is None else str(each) for each in values]
    commas = [row for row, each in enumerate(texts) if COMMA.fullmatch(each)]
    plain = [row for row, each in enumerate(texts) if NUMBER.fullmatch(each)]
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
    return np.array([float(str(each) == category) for each in values])


def _texts(like: Arms) -> dict[str, list[str]]:
    """The columns of text behind a table, with their categories as far as these are known."""
    out: dict[str, list[str]] = {}
    for column in like.columns:
        name, mark, category = column.partition("=")
        if mark and name not in like.columns:
            out.setdefault(name, []).append(category)
    return {**out, **like.categories}


def _origin(column: str, texts: Mapping[str, list[str]]) -> str:
    """The column of a file that a column of features comes from."""
    return next((name for name in texts if column.startswith(f"{name}=")), column)


def _check_categories(source: str, name: str, values: list[Any], known: list[str]) -> None:
    for row, value in enumerate(values):
        if str(value) not in known:
            wanted = f"one of {', '.join(known)}: the experiment has no column for others"
            raise InvalidArgument(f"{source}: {name}", f"{value} in row {row}", wanted)
