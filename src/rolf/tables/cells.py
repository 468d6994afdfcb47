"""Numbers and dates as people write them: "1.234,50 €", "45%", "15.03.2024".

A single cell is often ambiguous, so the column decides: it gets the decimal mark, or the order of
day and month, that fits most of its cells.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any

import numpy as np

from rolf.types import FloatArray

#: how people write a missing number or date, in lower case
BLANKS = {
    *("", "-", "--", "\u2013", "\u2014", "?", ".", "na", "n/a", "nan", "nat", "null", "none"),
    *("#n/a", "#na", "#nv", "#null!", "#div/0!", "#value!", "#wert!", "#ref!", "#bezug!"),
    *("k.a.", "k. a.", "n.v.", "n. v.", "n.a.", "n. a.", "<na>"),
}
#: the same for a missing category; any other text may be a category
BLANK_TEXTS = {"", "#n/a", "#nv", "<na>"}
TRUTHS = {"true": 1.0, "false": 0.0, "wahr": 1.0, "falsch": 0.0}
PERCENT = "%"
#: the longest text that is tried as a number: patterns may take very long to fail on longer ones
LONGEST = 100

#: typographic blanks, minus signs and apostrophes, to what a keyboard has
_PLAIN = str.maketrans("\u00a0\u2009\u202f\u2212\u2019", "   -'")
_UNIT = r"%|[€$£¥]|EUR|USD|GBP|CHF|JPY"
_AMOUNT = re.compile(rf"([-+]?)\s*({_UNIT})?\s*([-+]?[\d.,].*?|inf|infinity)\s*({_UNIT})?", re.I)
#: numbers by decimal mark; the other mark, blanks or apostrophes may separate thousands
_NUMBER = {
    mark: re.compile(
        rf"[-+]?(?=\{mark}?\d)(\d+|[1-9]\d{{0,2}}([{other}' ]\d{{3}})+)?(\{mark}\d*)?"
        r"(e[-+]?\d+)?",
        re.I,
    )
    for mark, other in ((".", ","), (",", "."))
}
_WITHOUT_THOUSANDS = {".": str.maketrans("", "", ",' "), ",": str.maketrans("", "", ".' ")}
_ISO = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:?\d\d.*)?")
_DATE = re.compile(r"(\d{1,4})([./-])(\d{1,2})\2(\d{1,4})\.?(?:[T ,]+(\d\d?):(\d\d)(?::(\d\d))?)?")


def is_blank(value: Any, blanks: Iterable[str] = ("",)) -> bool:
    """Whether a cell is missing."""
    if isinstance(value, str):
        return value.strip().lower() in blanks
    return value is None or (isinstance(value, float | np.floating) and math.isnan(value))


def as_text(value: Any) -> str:
    """A cell as a category. Pandas turns 10 into 10.0 where cells are missing; this undoes it."""
    whole = isinstance(value, float) and value.is_integer()
    return str(int(value)) if whole else str(value).strip()


# --- numbers -----------------------------------------------------------------------------------


def amount(value: Any) -> tuple[str, str] | None:
    """The digits of a number and its unit, "" if it has none; None for anything else.

    >>> amount("1.234,50 €"), amount("45%"), amount("red")
    (('1.234,50', '€'), ('45', '%'), None)
    """
    return _amount(str(value))


@lru_cache(1 << 17)  # every cell is looked at several times
def _amount(text: str) -> tuple[str, str] | None:
    text = text.strip().translate(_PLAIN)
    match = _AMOUNT.fullmatch(text) if len(text) <= LONGEST else None
    if match is None:
        return None
    sign, before, digits, after = match.groups(default="")
    digits = sign + digits
    if digits.lstrip("+-").lower() in ("inf", "infinity"):
        return digits, before or after
    if (before and after) or not any(each.fullmatch(digits) for each in _NUMBER.values()):
        return None
    return digits, before or after


def decimal_mark(texts: Sequence[str], usual: str) -> str:
    """The decimal mark that fits most of these digits; the usual one on a tie."""
    point, comma = (
        sum(_NUMBER[mark].fullmatch(each) is not None for each in texts) for mark in ".,"
    )
    if point == comma:
        return usual
    return "." if point > comma else ","


def ambiguous(digits: str) -> bool:
    """Whether these digits are a number under either decimal mark."""
    marks = re.search(r"[.,]", digits) is not None
    return marks and all(each.fullmatch(digits) for each in _NUMBER.values())


def number(digits: str, mark: str) -> float:
    """The number that digits stand for; NaN if they do not fit the decimal mark."""
    if digits.lstrip("+-").lower() in ("inf", "infinity"):
        return math.inf
    if _NUMBER[mark].fullmatch(digits) is None:
        return math.nan
    plain = digits.translate(_WITHOUT_THOUSANDS[mark])
    return float(plain.replace(mark, "."))


def typed_number(value: Any) -> float | None:
    """A cell that is a number already, as a float; None for text and everything else."""
    if isinstance(value, bool | int | float | np.number | np.bool | Decimal):
        try:
            return float(value)
        except OverflowError:
            return math.inf
    return None


def written_numbers(values: Sequence[Any]) -> FloatArray:
    """Numbers from text, with a decimal point or, if that fits more of them, a decimal comma."""
    amounts = [None if value is None else amount(value) for value in values]
    digits = [each[0] for each in amounts if each is not None]
    mark = decimal_mark(digits, ".")
    plain = [math.nan if each is None or each[1] else number(each[0], mark) for each in amounts]
    return np.array(plain, dtype=np.float64)


# --- dates -------------------------------------------------------------------------------------

ORDERS = {"dmy": "day first", "mdy": "month first"}


def looks_like_date(value: Any) -> bool:
    if isinstance(value, str):
        text = value.strip()
        return _ISO.fullmatch(text) is not None or _parts(text) is not None
    return isinstance(value, date)


def _parts(text: str) -> tuple[int, int, int] | None:
    """Day, month and year of a date, if the first or the last number can be the year."""
    match = _DATE.fullmatch(text)
    if match is None:
        return None
    first, second, third = match[1], match[3], match[4]
    if len(first) == 4 and len(third) <= 2:
        return int(third), int(second), int(first)  # year first, so month and day follow
    if len(first) > 2 or len(third) not in (2, 4):
        return None
    year = int(third) + (0 if len(third) == 4 else 2000 if int(third) < 69 else 1900)
    return int(first), int(second), year


def day_order(values: Sequence[Any], usual: str) -> tuple[str, bool]:
    """Whether day or month comes first in a column, and whether that is only a guess."""
    day_first = month_first = undecided = 0
    for value in values:
        match = _DATE.fullmatch(value.strip()) if isinstance(value, str) else None
        parts = None if match is None else _parts(value.strip())
        if match is None or parts is None or len(match[1]) == 4:
            continue
        if match[2] == "." or parts[0] > 12:
            day_first += 1
        elif parts[1] > 12:
            month_first += 1
        elif parts[0] != parts[1]:
            undecided += 1
    if day_first == month_first:
        return usual, undecided > 0
    return ("dmy" if day_first > month_first else "mdy"), False


def moment(value: Any, order: str) -> datetime | None:
    """The date and time in a cell, without a time zone (converted to UTC if it has one)."""
    try:
        if isinstance(value, str):
            value = _written_moment(value.strip(), order)
        elif isinstance(value, date) and not isinstance(value, datetime):
            value = datetime(value.year, value.month, value.day)
        if not isinstance(value, datetime):
            return None
        return value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):
        return None


def _written_moment(text: str, order: str) -> datetime | None:
    if _ISO.fullmatch(text):
        return datetime.fromisoformat(text)
    match, parts = _DATE.fullmatch(text), _parts(text)
    if match is None or parts is None:
        return None
    day, month, year = parts
    if order == "mdy" and match[2] != "." and len(match[1]) < 4:
        day, month = month, day
    hour, minute, second = (int(each or 0) for each in match.group(5, 6, 7))
    return datetime(year, month, day, hour, minute, second)


def days_between(start: datetime, end: datetime) -> float:
    return (end - start) / timedelta(days=1)


# --- columns -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class ColumnCells:
    """The cells of a column, and what each may be; every cell is examined once.

    A column of floats stays an array, NaN where a number is missing; only ``cells``, ``missing``
    and ``present`` are filled in then.

    Attributes:
        cells: as they came.
        missing: positions of the cells without a number or date.
        present: the other cells.
        texts: every cell as a category; None where missing.
        empty: whether any cell cannot even be a name.
        distinct: number of different texts.
        unique: whether all cells differ as text, ignoring surrounding blanks.
        truths, dates, numbers: how many present cells can be read as one.
        decimals: how many cells are numbers with decimals.
        amounts: digits and unit of each present cell that is a number as text; None otherwise.
        values: the number of each present cell by the decimal mark; NaN where it is not a number.
        mark: the decimal mark that fits more of the digits; None on a tie.
        ambiguous: the first digits that are a number under either decimal mark.
    """

    cells: Sequence[Any]
    missing: list[int]
    present: Sequence[Any]
    texts: list[str | None] = field(default_factory=list)
    empty: bool = False
    distinct: int = 0
    unique: bool = False
    truths: int = 0
    dates: int = 0
    numbers: int = 0
    decimals: int = 0
    amounts: list[tuple[str, str] | None] = field(default_factory=list)
    values: dict[str, list[float]] = field(default_factory=dict)
    mark: str | None = None
    ambiguous: str | None = None


def columns_of(columns: Mapping[str, Sequence[Any]]) -> dict[str, ColumnCells]:
    """The columns of a table, with what their cells may be."""
    return {name: column_cells(cells) for name, cells in columns.items()}


def column_cells(cells: Sequence[Any]) -> ColumnCells:
    """A column, with what its cells may be."""
    if isinstance(cells, np.ndarray):
        gaps = np.isnan(cells)
        return ColumnCells(cells, np.flatnonzero(gaps).tolist(), cells[~gaps])
    missing = [i for i, cell in enumerate(cells) if is_blank(cell, BLANKS)]
    present = cells
    if missing:
        gone = {*missing}
        present = [cell for i, cell in enumerate(cells) if i not in gone]
    amounts = [_amount(cell) if isinstance(cell, str) else None for cell in present]
    typed = [None if isinstance(cell, str) else typed_number(cell) for cell in present]
    digits = [each[0] for each in amounts if each is not None]
    point, comma = (
        sum(_NUMBER[mark].fullmatch(each) is not None for each in digits) for mark in ".,"
    )
    return ColumnCells(
        cells,
        missing,
        present,
        texts=category_texts(cells),
        empty=any(is_blank(cell) for cell in cells),
        distinct=len({str(cell) for cell in cells}),
        unique=len({str(cell).strip() for cell in cells}) == len(cells),
        truths=sum(map(_is_truth, present)),
        dates=sum(map(looks_like_date, present)),
        numbers=sum(each is not None for each in (*amounts, *typed)),
        decimals=sum(_is_decimal(cell) for cell in cells),
        amounts=amounts,
        values={
            mark: [
                (math.nan if other is None else other) if each is None else number(each[0], mark)
                for each, other in zip(amounts, typed, strict=True)
            ]
            for mark in ".,"
        },
        mark=None if point == comma else "." if point > comma else ",",
        ambiguous=next((each for each in digits if ambiguous(each)), None),
    )


def category_texts(cells: Sequence[Any]) -> list[str | None]:
    """Cells as categories; None where missing."""
    return [None if is_blank(cell, BLANK_TEXTS) else as_text(cell) for cell in cells]


def _is_truth(cell: Any) -> bool:
    """Whether a cell is true or false."""
    return isinstance(cell, bool) or str(cell).strip().lower() in TRUTHS


def _is_decimal(cell: Any) -> bool:
    """Whether a cell is a floating-point number."""
    if isinstance(cell, str):
        return _amount(cell) is not None and re.search(r"\d[.,]\d", cell) is not None
    return isinstance(cell, float)
