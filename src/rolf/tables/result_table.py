"""The table of a result: one row per policy, arm or cell, for people and programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from rolf.errors import InvalidArgument
from rolf.extras import require
from rolf.text import format_table, html_lines, html_table, write_csv

if TYPE_CHECKING:
    import pandas

Row = TypeVar("Row")


class ResultTable(Sequence[Row]):
    """The rows of a result; prints readably.

    Args:
        rows: dicts or dataclasses.
        left: how many columns are flush left, from the first.
        note: a line below the table.
        columns: names of the columns; needed if there may be no rows.
    """

    def __init__(
        self,
        rows: Iterable[Row],
        *,
        left: int = 1,
        note: str = "",
        columns: Sequence[str] | None = None,
    ) -> None:
        self.rows = list(rows)
        self.note = note
        self._left = left
        self.columns = list(columns or (_as_dict(self.rows[0]) if self.rows else ()))

    def __getitem__(self, index: Any) -> Any:
        return self.rows[index]

    def __len__(self) -> int:
        return len(self.rows)

    def to_dicts(self) -> list[dict[str, Any]]:
        """The rows as plain dicts by column."""
        return [_as_dict(row) for row in self.rows]

    def to_pandas(self) -> pandas.DataFrame:
        """The table as a DataFrame."""
        require("pandas", "a DataFrame of a result")
        import pandas

        return pandas.DataFrame(self.to_dicts(), columns=self.columns)

    def to_csv(self, path: str | Path) -> Path:
        """Write the table as CSV."""
        return write_csv(path, self.columns, self.to_dicts())

    def lines(self) -> list[list[str]]:
        """Header and rows as text."""
        rows = ([_shown(value) for value in row.values()] for row in self.to_dicts())
        return [self.columns, *rows]

    def __str__(self) -> str:
        table = format_table(self.lines(), left=self._left)
        return f"{table}\n{self.note}" if self.note else table

    __repr__ = __str__

    def _repr_html_(self) -> str:
        table = html_table(self.lines(), left=self._left)
        return f"{table}{html_lines(self.note, bold=False)}" if self.note else table


def _as_dict(row: Any) -> dict[str, Any]:
    if is_dataclass(row):
        return {field.name: getattr(row, field.name) for field in fields(row)}
    assert isinstance(row, Mapping)
    return dict(row)


def _shown(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


class Tabular(Protocol):
    """A result that has a table."""

    def to_dict(self) -> dict[str, Any]: ...

    def table(self) -> ResultTable[Any]: ...


def save_result(result: Tabular, path: str | Path) -> Path:
    """Write a result: everything as JSON (.json), or its table as CSV (.csv)."""
    target = Path(path)
    kind = target.suffix.lower()
    if kind not in (".json", ".csv"):
        wanted = "a file that ends in .json, for everything, or .csv, for the table"
        raise InvalidArgument("path", str(path), wanted)
    if kind == ".csv":
        return result.table().to_csv(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(result.to_dict(), indent=2) + "\n", encoding="utf-8")
    return target
