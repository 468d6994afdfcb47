"""Tables as plain text."""

from __future__ import annotations

from collections.abc import Sequence


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
