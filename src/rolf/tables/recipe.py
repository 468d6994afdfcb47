"""How each column of a table was read, so that later rows are read the same way.

A recipe is fitted to the first table and stored with the experiment.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any

import numpy as np

from rolf.errors import InvalidArgument
from rolf.tables import cells as parsing
from rolf.tables.cells import PERCENT, ColumnCells, is_blank, typed_number
from rolf.tables.kinds import (
    OTHER,
    Category,
    Column,
    Columns,
    Date,
    Flag,
    LeftOut,
    Number,
    apply_columns,
    fit_columns,
)
from rolf.tables.raw import RawTable, Report

#: beyond this many categories, those of a single arm are grouped: they say no more than its name
MANY_CATEGORIES = 12
#: the share of cells that must look like numbers, or dates, for the column to hold them
MOST = 0.8


@dataclass(frozen=True)
class Recipe:
    """How a table of arms is read: which column names the arms, and the kind of every other."""

    key: str | None  # the column that names the arms; None for the index of a DataFrame
    columns: tuple[Column, ...]

    @classmethod
    def fit(cls, raw: RawTable, *, refuse: bool) -> Recipe:
        """The recipe for a first table; missing cells are refused or filled in."""
        usual = _usual_mark(raw)
        fit = _Fit(raw.report, refuse, usual, "dmy" if usual == "," else "mdy")
        columns = [
            fit.column(name, column, name in raw.ids, name in raw.categorical)
            for name, column in raw.columns.items()
        ]
        return cls(raw.key, tuple(fit_columns(columns, raw.columns, refuse)))

    @classmethod
    def of_columns(cls, columns: Sequence[str]) -> Recipe:
        """The recipe of a table that already consists of numbers, among them zeros and ones.

        Columns ``kind=red`` and ``kind=blue`` are read as the text in a column ``kind``.
        """
        texts: dict[str, list[str]] = {}
        for column in columns:
            name, equals, category = column.partition("=")
            if equals and name not in columns:
                texts.setdefault(name, []).append(category)
        dummies = {f"{name}={each}" for name, categories in texts.items() for each in categories}
        numbers = [Number(name) for name in columns if name not in dummies]
        return cls(None, (*numbers, *(Category(name, tuple(texts[name])) for name in texts)))

    @property
    def names(self) -> list[str]:
        """The user's columns."""
        return [column.name for column in self.columns]

    def apply(self, raw: RawTable, known: Sequence[str] | None = None) -> Columns:
        """The columns of numbers of a table, which may also contain these columns themselves.

        Args:
            raw: the table; its report gets problems and notes.
            known: the columns of an existing table, all of which are needed; None for a new one.
        """
        out = apply_columns(self.columns, raw.columns, raw.report, known)
        if known is None:
            return out
        own = [name for name in raw.columns if name in known and name not in self.names]
        out |= apply_columns([*map(Number, own)], raw.columns, raw.report, known)
        if {*known} - {*out} or {*raw.columns} - {*known, *self.names}:
            needed = [each.name for each in self.columns if not isinstance(each, LeftOut)]
            wanted = f"those of the experiment, {needed}"
            raw.report.problem("columns", list(raw.columns), wanted)
        return out

    def describe(self, known: Collection[str]) -> dict[str, str]:
        """How each of the user's columns was read, in words."""
        words = {} if self.key is None else {self.key: "names of the arms"}
        return words | {column.name: column.words(known) for column in self.columns}

    # --- as plain data ---

    def to_dict(self) -> dict[str, Any]:
        columns = [{"kind": each.kind, **asdict(each)} for each in self.columns]
        return {"key": self.key, "columns": columns}

    @classmethod
    def from_dict(cls, data: Any, source: str = "recipe") -> Recipe:
        """A stored recipe; raises if the data are not one."""
        good = isinstance(data, dict) and isinstance(data.get("columns"), list)
        if not good or not isinstance(data.get("key"), str | None):
            raise InvalidArgument(source, data, "what was done to each column")
        return cls(data.get("key"), tuple(_column(each, source) for each in data["columns"]))


KINDS: dict[str, type[Column]] = {cls.kind: cls for cls in (Number, Date, Flag, Category, LeftOut)}


def _column(data: Any, source: str) -> Column:
    cls = KINDS.get(data.get("kind", "")) if isinstance(data, dict) else None
    if cls is None:
        raise InvalidArgument(source, data, f"a column of kind {', '.join(KINDS)}")
    values: dict[str, Any] = {}
    for field in fields(cls):
        value = data.get(field.name)
        if not FIELDS[field.name](value):
            raise InvalidArgument(f"{source}: {field.name}", value, "a value that rolf wrote")
        values[field.name] = tuple(value) if isinstance(value, list) else value
    return cls(**values)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_fill(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return value is None or (number and math.isfinite(value))


def _is_day(value: Any) -> bool:
    return isinstance(value, str) and parsing.moment(value, "dmy") is not None


#: checks of the fields of columns
FIELDS: dict[str, Callable[[Any], bool]] = {
    "name": _is_text,
    "fill": _is_fill,
    "missing": _is_count,
    "mark": lambda value: value in (".", ","),
    "unit": _is_text,
    "order": lambda value: value in ("dmy", "mdy"),
    "origin": _is_day,
    "categories": _is_texts,
    "rare": _is_texts,
    "refuse": lambda value: isinstance(value, bool),
    "reason": _is_text,
}


# --- the first table ---------------------------------------------------------------------------


def _usual_mark(raw: RawTable) -> str:
    """The decimal mark of most columns that show one, else the one that goes with the file's
    separator."""
    votes = Counter[str]()
    for column in raw.columns.values():
        written = sum(each is not None for each in column.amounts)
        if column.mark is not None and written >= MOST * len(column.present):
            votes[column.mark] += 1
    if votes["."] == votes[","]:
        return "," if raw.separator == ";" else "."
    return "." if votes["."] > votes[","] else ","


@dataclass(frozen=True)
class _Fit:
    """Decides the kind of each column of a first table."""

    report: Report
    refuse: bool  # missing cells
    usual_mark: str
    usual_order: str

    def column(self, name: str, column: ColumnCells, id: bool, categorical: bool) -> Column:
        count = len(column.present)
        if count == 0:
            return self._left_out(name, "all cells are empty")
        if isinstance(column.cells, np.ndarray):
            return self._number(name, column)
        if column.truths == count:
            return Flag(name)
        if id:
            return self._left_out(name, "different for every arm, like an id")
        if categorical:
            return self._category(name, column)
        if column.dates >= MOST * count:
            return self._date(name, column)
        if column.numbers >= MOST * count:
            return self._number(name, column)
        if column.numbers:
            self._doubt(name, column, column.numbers >= count - column.numbers)
        return self._category(name, column)

    def _left_out(self, name: str, reason: str) -> LeftOut:
        self.report.note(name, f"left out: {reason}")
        return LeftOut(name, reason)

    def _number(self, name: str, column: ColumnCells) -> Column:
        units = Counter(each[1] for each in column.amounts if each is not None)
        currencies = [unit for unit, _ in units.most_common() if unit not in ("", PERCENT)]
        unit = currencies[0] if currencies else ""
        if units[PERCENT] >= sum(units.values()) - units[PERCENT]:
            unit = PERCENT if units[PERCENT] else unit
        mark = column.mark or self.usual_mark
        if column.mark is None and column.ambiguous is not None:
            read = f"{parsing.number(column.ambiguous, mark):g}"
            because = f"the other columns and the separator suggest a decimal {_MARKS[mark]}"
            self.report.note(name, f"{column.ambiguous!r} is read as {read}: {because}")
        return Number(name, mark=mark, unit=unit)

    def _date(self, name: str, column: ColumnCells) -> Column:
        there = column.present
        order, guessed = parsing.day_order(there, self.usual_order)
        if guessed:
            example = next(each for each in there if parsing.looks_like_date(each))
            words = parsing.ORDERS[order]
            self.report.note(name, f"dates such as {example!r} are read with the {words}")
        moments = [each for cell in there if (each := parsing.moment(cell, order)) is not None]
        origin = min(moments, default=datetime(1970, 1, 1)).date().isoformat()
        return Date(name, order=order, origin=origin)

    def _category(self, name: str, column: ColumnCells) -> Column:
        texts = [text for text in column.texts if text is not None]
        missing = len(column.cells) - len(texts)
        counts = Counter(texts)
        rare = sorted(text for text, count in counts.items() if count == 1)
        if len(counts) <= MANY_CATEGORIES or len(rare) == 1:
            rare = []
        kept = sorted(counts.keys() - {*rare})
        if not kept:
            return self._left_out(name, f"each of its {len(counts)} categories has a single arm")
        if rare:
            count = f"{len(counts)} categories for {len(column.cells)} arms"
            text = f"{count}; the {len(rare)} of a single arm are grouped as {OTHER}"
            self.report.note(name, text)
        return Category(name, tuple(kept), tuple(rare), missing, self.refuse)

    def _doubt(self, name: str, column: ColumnCells, mostly_numbers: bool) -> None:
        """Note which cell makes a column with numbers be read as text."""
        cells = column.cells
        odd = next(
            i
            for i, cell in enumerate(cells)
            if not is_blank(cell, parsing.BLANKS) and _is_number(cell) != mostly_numbers
        )
        among = "numbers" if mostly_numbers else "text"
        why = f"stands among {among}, so the whole column is read as text"
        cell = f"{str(cells[odd])!r} in {self.report.where(odd)}"
        self.report.note(name, f"{cell} {why}; each value is a category")


_MARKS = {".": "point", ",": "comma"}


def _is_number(cell: Any) -> bool:
    if isinstance(cell, str):
        return parsing.amount(cell) is not None
    return typed_number(cell) is not None
