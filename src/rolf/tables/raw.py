"""Tables before their columns are interpreted: from files, DataFrames and rows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rolf.checks import check_columns
from rolf.errors import InvalidArgument, InvalidTable, RolfError
from rolf.tables.cells import ColumnCells, amount, column_cells, columns_of, is_blank
from rolf.tables.csv import Cells, read_cells
from rolf.tables.parquet import PARQUET, read_parquet
from rolf.text import listed

KEY_COLUMNS = ("arm", "item_id", "id")  # these name the arms
UNNAMED_INDEX = ("", "Unnamed: 0", "__index_level_0__")  # what pandas calls it in a file
FRAME = "features"  # the name of a DataFrame in messages
#: names of columns that hold ids
ID = re.compile(r"(^|[\W_])(id|sku|ean|gtin|asin|isbn|upc|uuid|guid|nr|code)\W*$|nummer$", re.I)
CAMEL_ID = re.compile(r"[a-z](Id|ID|Nr)$")
#: a first column with fewer different cells than this does not name the arms
MOSTLY = 0.8
#: types that cannot be a cell
NESTED = (bytes, list, tuple, dict, set, np.ndarray)
#: the most cells a message shows
MAX_SHOWN = 50


@dataclass
class Report:
    """What is wrong with a table, and what the user should know about how it was read."""

    source: str
    rows: Sequence[int]  # row numbers as the user sees them
    labels: Sequence[Any]
    problems: list[InvalidArgument] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def problem(self, column: str, got: Any, wanted: str) -> None:
        self.problems.append(InvalidArgument(f"{self.source}: {column}", got, wanted))

    def wrong_cells(self, column: str, cells: Mapping[int, Any], wanted: str) -> None:
        """Report cells, by position, that a column must not have."""
        rows: dict[str, list[int]] = {}
        for i, cell in cells.items():
            value = cell.item() if isinstance(cell, np.generic) else cell
            rows.setdefault("nothing" if is_blank(value) else repr(value), []).append(i)
        if rows:
            shown = [f"{value} in {self._rows(places)}" for value, places in rows.items()]
            self.problem(column, listed(shown, MAX_SHOWN), wanted)

    def note(self, column: str, text: str) -> None:
        self.notes.append(f"{self.source}: {column}: {text}")

    def where(self, position: int) -> str:
        return f"row {self.rows[position]} (arm {self.labels[position]})"

    def empty(self, positions: Sequence[int]) -> str:
        """How many cells of a column are empty, and where."""
        count = f"{len(positions)} of {len(self.rows)} cells"
        if len(positions) == 1:
            return f"{count} is empty, in {self.where(positions[0])}"
        return f"{count} are empty, in {self._rows(positions)}"

    def _rows(self, positions: Sequence[int]) -> str:
        rows = [str(self.rows[i]) for i in positions]
        return f"row {rows[0]}" if len(rows) == 1 else f"rows {listed(rows, MAX_SHOWN)}"

    def check(self) -> None:
        """Raise one error for all problems, if there are any."""
        if len(self.problems) == 1:
            raise self.problems[0]
        if self.problems:
            raise InvalidTable(self.source, self.problems)


@dataclass(frozen=True)
class RawTable:
    """The columns of a table and the names of its rows, before the kind of each column is known."""

    columns: dict[str, ColumnCells]  # without the one that names the arms
    key: str | None  # the column that names the arms; None for the index
    labels: list[Any]
    report: Report
    ids: Collection[str] = ()  # columns with a different name per arm
    categorical: Collection[str] = ()  # columns of a categorical type
    separator: str = ""  # of the file


@dataclass(frozen=True)
class TableSource:
    """A table as it was read, before it is known which column names its rows."""

    name: str
    columns: dict[str, ColumnCells]
    rows: Sequence[int]
    index: list[Any] | None = None  # of a DataFrame
    index_column: str | None = None  # the index of a DataFrame in a file
    categorical: Collection[str] = ()
    cells: Cells | None = None
    notes: tuple[str, ...] = ()
    typed: bool = False  # whether numbers and text differ, as in JSON


def read_source(source: Any) -> TableSource:
    """The table of a file, a pandas or polars DataFrame, or a list of rows, each a dict by column.
    A table that was read before is returned unchanged."""
    if isinstance(source, TableSource):
        return source
    if isinstance(source, str | Path):
        table = _file(Path(source))
    else:
        table = _records(source) if isinstance(source, list) else _frame(source)
    if not table.rows:
        raise InvalidArgument(table.name, "no rows", "one row per arm")
    return table


def read_raw(
    source: Any, key: str | None = None, features: Collection[str] | None = None
) -> RawTable:
    """The table of a source, with its arms named.

    Args:
        source: anything that ``read_source`` takes.
        key: the column that named the arms before; used if the table has it.
        features: the columns of an existing table, none of which names the arms; None for a new
            table.
    """
    table = read_source(source)
    chosen = key if key in table.columns else _key(table, features)
    labels = table.index or list(range(len(table.rows)))
    if chosen is not None:
        labels = [_label(cell, table.typed) for cell in table.columns[chosen].cells]
    report = Report(table.name, table.rows, labels, notes=[*table.notes])
    columns = {
        name: column
        for name, column in table.columns.items()
        if name != chosen and (table.index is not None or name not in UNNAMED_INDEX)
    }
    _check_labels(report, chosen or "the index")
    for name, column in list(columns.items()):
        if isinstance(column.cells, np.ndarray):
            continue
        if nested := {i: cell for i, cell in enumerate(column.cells) if isinstance(cell, NESTED)}:
            report.wrong_cells(name, nested, "numbers, text or dates")
            columns[name] = column_cells([None] * len(column.cells))
    if table.cells is not None:
        for row, count in table.cells.ragged:
            wanted = f"{len(table.cells.header)}, as in the header; a cell that holds the separator"
            report.problem(f"row {row}", f"{count} cells", f"{wanted} needs quotes")
    if not columns:
        wanted = "the arms' names and at least one feature"
        report.problem("columns", list(table.columns), wanted)
        report.check()
    separator = table.cells.dialect.separator if table.cells else ""
    ids = {name for name, column in columns.items() if is_id(name, column)}
    return RawTable(columns, chosen, labels, report, ids, table.categorical, separator)


def _label(cell: Any, typed: bool) -> Any:
    """The name of an arm; a number stays a number where the source has types."""
    if isinstance(cell, str):
        return cell if cell.strip() else ""
    if cell is None or (isinstance(cell, float | np.floating) and np.isnan(cell)):
        return ""
    return cell if typed and type(cell) in (int, float) else str(cell)


def _check_labels(report: Report, key: str) -> None:
    labels = report.labels
    if unnamed := {i: "" for i, label in enumerate(labels) if label == ""}:
        report.wrong_cells(key, unnamed, "a name")
    counts = Counter(label for label in labels if label != "")
    for label in (label for label, count in counts.items() if count > 1):
        rows = [str(report.rows[i]) for i, each in enumerate(labels) if each == label]
        report.problem(key, f"{label} twice, in rows {listed(rows, MAX_SHOWN)}", "each arm once")


# --- files -------------------------------------------------------------------------------------


def _file(path: Path) -> TableSource:
    if path.suffix.lower() in PARQUET:
        table = read_parquet(path)
        if binary := [each.name for each in table.schema if "binary" in str(each.type)]:
            table = read_parquet(path, binary)  # binary columns as text, or refused
        index = (table.schema.pandas_metadata or {}).get("index_columns", [])
        named = [name for name in index if name in table.column_names]
        check_columns(str(path), table.column_names)
        columns = {name: _cells(table.column(name)) for name in table.column_names}
        rows = range(2, table.num_rows + 2)
        index_column = named[0] if named else None
        return TableSource(str(path), columns_of(columns), rows, index_column=index_column)
    cells = read_cells(path)
    if not cells.header:
        raise RolfError(f"{path}: is neither CSV nor Parquet (the file is empty)")
    encoding = {"cp1252": "Windows-1252", "latin-1": "Latin-1"}.get(cells.dialect.encoding)
    notes = (f"{path}: not UTF-8; read as {encoding}",) if encoding else ()
    by_column = list(zip(*cells.rows, strict=True)) or [()] * len(cells.header)
    kept = [
        (name, list(values))
        for name, values in zip(cells.header, by_column, strict=True)
        if name.strip() or any(cell.strip() for cell in values)
    ]
    check_columns(str(path), [name for name, _ in kept])
    looked_at = columns_of(dict(kept))
    return TableSource(str(path), looked_at, cells.numbers, cells=cells, notes=notes)


def _cells(column: Any) -> Sequence[Any]:
    """The cells of a Parquet column."""
    from pyarrow import types

    decimal = types.is_floating(column.type)
    cells: Sequence[Any] = column.to_numpy().astype(float) if decimal else column.to_pylist()
    return cells


# --- DataFrames --------------------------------------------------------------------------------


def is_frame(features: Any) -> bool:
    """Whether this is a pandas or polars DataFrame."""
    return all(hasattr(features, name) for name in ("to_numpy", "columns", "dtypes"))


def frame_columns(frame: Any, places: Iterable[int] | None = None) -> dict[str, Sequence[Any]]:
    """The cells of a DataFrame, or of some of its columns, as a ``RawTable`` holds them."""
    names = [str(name) for name in frame.columns]
    check_columns(FRAME, names)
    chosen = range(len(names)) if places is None else places
    if hasattr(frame, "index"):
        return {names[i]: _pandas_cells(frame.iloc[:, i]) for i in chosen}
    return {names[i]: _polars_cells(frame[names[i]]) for i in chosen}


def _pandas_cells(column: Any) -> Sequence[Any]:
    if getattr(column.dtype, "kind", "") == "f":
        numbers: Sequence[Any] = column.to_numpy(float, na_value=np.nan)
        return numbers
    pairs = zip(column.tolist(), column.isna().tolist(), strict=True)
    return [None if missing else value for value, missing in pairs]


def _polars_cells(column: Any) -> Sequence[Any]:
    decimal = column.dtype.is_float()
    cells: Sequence[Any] = column.to_numpy().astype(float) if decimal else column.to_list()
    return cells


def _frame(frame: Any) -> TableSource:
    columns = frame_columns(frame)
    categorical = [
        name
        for name, dtype in zip(columns, frame.dtypes, strict=True)
        if str(dtype).lower().startswith(("category", "categorical", "enum"))
    ]
    index = index_labels(frame) if hasattr(frame, "index") else list(range(len(frame)))
    rows = range(len(frame))
    return TableSource(FRAME, columns_of(columns), rows, index, categorical=categorical)


def _records(rows: list[dict[str, Any]]) -> TableSource:
    """Rows of dicts, as in JSON, by column; a cell is empty where a row lacks the column."""
    names = dict.fromkeys(name for row in rows for name in row)
    columns: dict[str, Sequence[Any]] = {name: [row.get(name) for row in rows] for name in names}
    numbers = range(len(rows))
    return TableSource(FRAME, columns_of(columns), numbers, [*numbers], typed=True)


# --- what names the arms -----------------------------------------------------------------------


def _key(table: TableSource, features: Collection[str] | None) -> str | None:
    """The column that names the arms, or None for the index."""
    known = features or ()
    names = [name for name in table.columns if name not in known]
    keys = [name for name in KEY_COLUMNS if name in names]
    if table.index is not None:
        counting = table.index == list(range(len(table.index)))
        return next(iter(keys or _ids(table, names, features)), None) if counting else None
    if keys:
        return keys[0]
    candidates = [name for name in (table.index_column, *names) if name in names]
    for name in candidates:
        # an unnamed index of numbers merely counts the rows
        if name not in UNNAMED_INDEX or amount(table.columns[name].cells[0]) is None:
            first = name
            break
    else:
        wanted = "the arms' names and at least one feature"
        raise InvalidArgument(f"{table.name}: columns", list(table.columns), wanted)
    if features is None and not _may_name(table.columns[first]):
        return next(iter(_ids(table, names, features)), first)
    return first


def named_by_column(columns: dict[str, Sequence[Any]]) -> bool:
    """Whether a column of a DataFrame names the arms if its index merely counts rows."""
    source = TableSource(FRAME, columns_of(columns), ())
    return any(name in KEY_COLUMNS for name in columns) or bool(_ids(source, columns, None))


def _ids(table: TableSource, names: Iterable[str], features: Collection[str] | None) -> list[str]:
    """Columns of ids; those whose name says so come first."""
    if features is not None:
        return []
    ids = [name for name in names if is_id(name, table.columns[name])]
    return sorted(ids, key=lambda name: not may_be_id(name))


def _may_name(column: ColumnCells) -> bool:
    """Whether cells can be names: mostly different, and not numbers with decimals."""
    if isinstance(column.cells, np.ndarray):
        return False
    return column.distinct >= MOSTLY * len(column.cells) and column.decimals < len(column.cells)


def may_be_id(name: str) -> bool:
    """Whether a column's name is typical of ids."""
    return ID.search(name) is not None or CAMEL_ID.search(name) is not None


def is_id(name: str, column: ColumnCells) -> bool:
    """Whether a column holds ids: a different text per arm, or different whole numbers under a name
    such as SKU."""
    if isinstance(column.cells, np.ndarray) or column.empty or not column.unique:
        return False
    if may_be_id(name):
        return column.decimals == 0
    return len(column.cells) > 2 and column.numbers == 0 and column.dates == 0


def index_labels(features: Any) -> list[Any] | None:
    """The arms' names in the index of a DataFrame; None for anything else."""
    if not (hasattr(features, "to_numpy") and hasattr(features, "index")):
        return None
    return [each.item() if isinstance(each, np.generic) else each for each in features.index]
