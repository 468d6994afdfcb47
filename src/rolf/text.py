"""Tables as plain text and as HTML, text in CSV files, and tags that start ids."""

from __future__ import annotations

import csv
import html
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any


def format_table(rows: Sequence[Sequence[str]], *, left: int = 1) -> str:
    """One line per row; the first ``left`` columns are flush left, the others flush right.

    >>> print(format_table([["arm", "mean"], ["a", "0.25"], ["long", "12"]]))
    arm   mean
    a     0.25
    long    12
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if column < left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells))
    return "\n".join(lines)


def html_table(rows: Sequence[Sequence[str]], *, left: int = 1) -> str:
    """A small table for a notebook, every cell escaped, aligned as in ``format_table``.

    >>> html_table([["<a>"]])
    '<table><tr><th style="text-align:left">&lt;a&gt;</th></tr></table>'
    """
    lines = []
    for number, row in enumerate(rows):
        tag = "td" if number else "th"
        cells = []
        for column, cell in enumerate(row):
            aligned = "left" if column < left else "right"
            cells.append(f'<{tag} style="text-align:{aligned}">{html.escape(cell)}</{tag}>')
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return f"<table>{''.join(lines)}</table>"


def html_lines(*lines: str, bold: bool = True) -> str:
    """Lines of text as escaped HTML, the first in bold by default.

    >>> html_lines("3 < 4", "so it is")
    '<b>3 &lt; 4</b><br>so it is'
    """
    first, *rest = (html.escape(line) for line in lines)
    return "<br>".join([f"<b>{first}</b>" if bold else first, *rest])


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """A number with its noun.

    >>> counted(1, "run"), counted(1200, "run"), counted(2, "category", "categories")
    ('1 run', '1200 runs', '2 categories')
    """
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"


def listed(names: Sequence[str], most: int = 10) -> str:
    """Up to ``most`` names in a line, and how many more there are.

    >>> listed(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def first_few(names: Sequence[str], most: int = 5) -> str:
    """The first of some names, as examples.

    >>> first_few(["a", "b", "c"], 2)
    'a, b, ...'
    """
    return ", ".join([*names[:most], *["..."] * (len(names) > most)])


#: characters that start a formula in a spreadsheet
FORMULA = ("=", "+", "-", "@", "\t", "\r")
#: text escaped by ``harmless``; the group is the character after the apostrophe
HARMLESS = r"^'([-=+@\t\r'])"


def harmless(value: Any) -> Any:
    """A value for a CSV file, where an apostrophe keeps spreadsheets from evaluating text.

    Text that starts with an apostrophe gets another one, so that ``as_written`` can undo it.
    """
    if isinstance(value, str) and value.startswith((*FORMULA, "'")):
        return f"'{value}"
    return value


def write_csv(path: str | Path, names: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> Path:
    """Write rows to a CSV file, creating its folder if needed."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows({name: harmless(value) for name, value in row.items()} for row in rows)
    return target


def as_written(text: str) -> str:
    """Text as it was before ``harmless``."""
    return re.sub(HARMLESS, r"\1", text)


def new_tag() -> str:
    """Random text that ids start with.

    It has no "e": pandas and spreadsheets would read ``1234567e-1`` as a number.
    """
    return os.urandom(4).hex().replace("e", "g")
