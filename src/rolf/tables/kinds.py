"""The kinds of columns that a table of arms may have.

Each kind is a class: experiments store its fields, ``apply`` turns cells into columns of numbers,
and ``words`` describes the result in a line.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, ClassVar

import numpy as np

from rolf.checks import MAX_FEATURE
from rolf.tables import cells as parsing
from rolf.tables.cells import PERCENT, ColumnCells, typed_number
from rolf.tables.raw import Report
from rolf.text import counted, listed
from rolf.types import FloatArray

#: the categories of missing cells, and of values without a column of their own
MISSING, OTHER = "missing", "other"

Columns = dict[str, FloatArray]


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    kind: ClassVar[str] = ""
    name: str

    def apply(self, column: ColumnCells, report: Report, known: Collection[str] | None) -> Columns:
        """The columns of numbers; ``known`` are the experiment's columns, None for a new one."""
        raise NotImplementedError

    def words(self, known: Collection[str]) -> str:
        """What the column holds and how it was read."""
        raise NotImplementedError


# --- numbers, dates, true and false --------------------------------------------------------------


@dataclass(frozen=True)
class Quantity(Column):
    """A column of numbers.

    Args:
        fill: replaces missing numbers, the median of the first table; None if missing numbers are
            refused.
        missing: how many numbers are missing from the first table. If any, a column marks them.
    """

    wanted: ClassVar[str] = "a number in every row"
    fill: float | None = None
    missing: int = 0

    def values(self, column: ColumnCells) -> Sequence[float]:
        """The numbers in the cells that are present; NaN where a cell is not a number."""
        raise NotImplementedError

    def fitted(self, column: ColumnCells, refuse: bool) -> Quantity:
        """This column with a replacement for its missing cells."""
        values = np.array(self.values(column))
        good = values[np.isfinite(values)]
        fill = None if refuse or not good.size else float(np.median(good))
        return replace(self, fill=fill, missing=len(column.missing))

    def apply(self, column: ColumnCells, report: Report, known: Collection[str] | None) -> Columns:
        blank, cells = column.missing, column.cells
        read = np.full(len(cells), math.nan if self.fill is None else self.fill)
        read[np.delete(np.arange(len(cells)), blank)] = self.values(column)
        wrong = {i: cells[i] for i in np.flatnonzero(~(np.abs(read) <= MAX_FEATURE)).tolist()}
        if wrong:
            report.wrong_cells(self.name, wrong, self.wanted)
        marker = f"{self.name}={MISSING}"
        marked = self.fill is not None and self.missing > 0
        if blank and self.fill is not None:
            text = f"{report.empty(blank)}; read as {self._shown(self.fill)}, the median"
            if known is not None:
                text += " when the experiment began"
            if marked and (known is None or marker in known):
                text += f", and marked by the column {marker}"
            report.note(self.name, text)
        columns = {self.name: read}
        if marked:
            columns[marker] = np.isin(np.arange(len(cells)), blank).astype(np.float64)
        return columns

    def _shown(self, value: float) -> str:
        return f"{value:.6g}"

    def _what(self) -> str:
        return "numbers"

    def words(self, known: Collection[str]) -> str:
        text = self._what()
        if self.fill is not None and self.missing:
            text += f"; {self.missing} missing, read as {self._shown(self.fill)}"
            if f"{self.name}={MISSING}" in known:
                text += f" and marked by {self.name}={MISSING}"
        return text


@dataclass(frozen=True)
class Number(Quantity):
    """Numbers, perhaps with a unit. Percentages become shares: 45% is 0.45.

    Args:
        mark: the decimal mark, where a table's cells do not decide it.
        unit: of the numbers.
    """

    kind: ClassVar[str] = "number"
    mark: str = "."
    unit: str = ""

    @property
    def wanted(self) -> str:  # type: ignore[override]
        if self.unit == PERCENT:
            return "a number with % in every row"
        mark = " with a decimal comma" if self.mark == "," else ""
        return f"a number{mark}{f' in {self.unit}' if self.unit else ''} in every row"

    def values(self, column: ColumnCells) -> Sequence[float]:
        if isinstance(column.present, np.ndarray):
            return column.present
        values = column.values[column.mark or self.mark]
        return [
            value if amount is None else self._value(value, amount[1])
            for value, amount in zip(values, column.amounts, strict=True)
        ]

    def _value(self, value: float, unit: str) -> float:
        if unit not in ("", self.unit) or (self.unit == PERCENT and not unit and value):
            return math.nan
        return value / 100 if self.unit == PERCENT else value

    def _shown(self, value: float) -> str:
        if self.unit == PERCENT:
            return f"{100 * value:.6g}%"
        return f"{value:.6g}{f' {self.unit}' if self.unit else ''}"

    def _what(self) -> str:
        if self.unit == PERCENT:
            return "percentages, 45% is 0.45"
        text = f"numbers in {self.unit}" if self.unit else "numbers"
        return text + (" with a decimal comma" if self.mark == "," else "")


@dataclass(frozen=True)
class Date(Quantity):
    """Dates, as days since the earliest one.

    Args:
        order: whether day or month comes first, where a table's cells do not decide it.
        origin: the day that counts as 0.
    """

    kind: ClassVar[str] = "date"
    wanted: ClassVar[str] = "a date in every row"
    order: str = "dmy"
    origin: str = "1970-01-01"

    def values(self, column: ColumnCells) -> list[float]:
        cells = column.present
        order, _ = parsing.day_order(cells, self.order)
        moments = [parsing.moment(cell, order) for cell in cells]
        start = datetime.fromisoformat(self.origin)
        return [
            _typed(cell) if each is None else parsing.days_between(start, each)  # days already
            for cell, each in zip(cells, moments, strict=True)
        ]

    def _shown(self, value: float) -> str:
        return f"day {value:.6g}"

    def _what(self) -> str:
        return f"dates, as days since {self.origin}"


@dataclass(frozen=True)
class Flag(Quantity):
    """True and false, as 1 and 0."""

    kind: ClassVar[str] = "flag"
    wanted: ClassVar[str] = "true or false in every row"

    def values(self, column: ColumnCells) -> list[float]:
        return [
            parsing.TRUTHS.get(cell.strip().lower(), math.nan)
            if isinstance(cell, str)
            else _typed(cell)
            for cell in column.present
        ]

    def _what(self) -> str:
        return "true and false, as 1 and 0"


def _typed(cell: Any) -> float:
    value = typed_number(cell)
    return math.nan if value is None else value


# --- text --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Category(Column):
    """Text: one column of zeros and ones per category, without those that follow from others.

    Args:
        categories: those with a column of their own, and those implied by the others.
        rare: those grouped as "other".
        missing: how many cells of the first table are empty; they form a category.
        refuse: whether empty cells are refused.
    """

    kind: ClassVar[str] = "category"
    categories: tuple[str, ...] = ()
    rare: tuple[str, ...] = ()
    missing: int = 0
    refuse: bool = False

    @property
    def slots(self) -> list[str]:
        """All categories, including "other"."""
        more = [MISSING] * (self.missing > 0) + [OTHER] * bool(self.rare)
        return list(dict.fromkeys([*self.categories, *more]))

    def apply(self, column: ColumnCells, report: Report, known: Collection[str] | None) -> Columns:
        written = column.texts
        if isinstance(column.cells, np.ndarray):  # 10.0 may stand for the category 10
            written = parsing.category_texts(column.cells)
        blank = [i for i, text in enumerate(written) if text is None]
        if self.refuse and blank:
            wanted = "a category in every row"
            report.wrong_cells(self.name, {i: column.cells[i] for i in blank}, wanted)
        texts = [MISSING if text is None else text for text in written]
        own = {*self.slots}
        known_texts = own | {*self.rare}
        unseen = [i for i, text in enumerate(texts) if text not in known_texts]
        if known is None and blank and not self.refuse:
            report.note(self.name, f"{report.empty(blank)}; read as a category, {MISSING}")
        if known is not None and unseen:
            self._note_unseen([(i, texts[i]) for i in unseen], report, known)
        read = np.array([text if text in own else OTHER for text in texts])
        return {f"{self.name}={slot}": (read == slot).astype(np.float64) for slot in self.slots}

    def _note_unseen(
        self, unseen: list[tuple[int, str]], report: Report, known: Collection[str]
    ) -> None:
        cells = listed([f"{text!r} in {report.where(i)}" for i, text in unseen])
        own = [slot for slot in self.slots if f"{self.name}={slot}" in known]
        base = [slot for slot in self.slots if slot not in own]
        if OTHER in self.slots:
            read = f"read as {OTHER}"
        elif len(base) == 1:
            read = f"read like {base[0]}, which has no column of its own"
        else:
            read = f"read as none of {listed(own or base)}"
        report.note(self.name, f"{cells} is new here; {read}")

    def words(self, known: Collection[str]) -> str:
        text = f"text, {counted(len(self.slots), 'category', 'categories')}: {listed(self.slots)}"
        if self.rare:
            text += f"; {OTHER}: {listed(self.rare)}"
        if self.missing:
            text += f"; {self.missing} missing"
        base = [slot for slot in self.slots if f"{self.name}={slot}" not in known]
        if base:
            text += f"; implied by the others: {listed(base)}"
        return text


@dataclass(frozen=True)
class LeftOut(Column):
    """A column that is not used as a feature."""

    kind: ClassVar[str] = "left out"
    reason: str = ""

    def apply(self, column: ColumnCells, report: Report, known: Collection[str] | None) -> Columns:
        return {}

    def words(self, known: Collection[str]) -> str:
        return f"left out: {self.reason}"


# --- all columns ---------------------------------------------------------------------------------


def fit_columns(
    columns: Sequence[Column], table: Mapping[str, ColumnCells], refuse: bool
) -> list[Column]:
    """The columns of a first table, each with a replacement for its missing cells."""
    return [
        each.fitted(table[each.name], refuse) if isinstance(each, Quantity) else each
        for each in columns
    ]


def apply_columns(
    columns: Sequence[Column],
    table: Mapping[str, ColumnCells],
    report: Report,
    known: Collection[str] | None,
) -> Columns:
    """The columns of numbers of a table."""
    applied: Columns = {}
    for column in columns:
        if column.name in table:
            new = column.apply(table[column.name], report, known)
            for name in new.keys() & applied.keys():
                report.problem("columns", f"{name} twice", "each column once")
            applied |= new
    return applied
