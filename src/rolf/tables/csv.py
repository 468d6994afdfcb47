"""CSV files as spreadsheets write them: their separator, their encoding, and their cells."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

from rolf.errors import RolfError
from rolf.text import as_written

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
#: files that are unpacked while they are read
PACKED = (".gz", ".bz2", ".zst", ".lz4")
#: how much of a file its separator is decided by, in bytes
SAMPLE = 1 << 16


class Layout(NamedTuple):
    """How the cells of a file are written."""

    encoding: str = "utf-8-sig"
    separator: str = ","
    mark: str = "."  # the decimal mark of most numbers
    first_line: int = 0  # one line says "sep=;" in files for Excel


class Cells(NamedTuple):
    """The cells of a file below its header, row by row."""

    layout: Layout
    header: list[str]
    rows: list[list[str]]
    numbers: list[int]  # of the rows, as a spreadsheet shows them: the header is row 1
    ragged: list[tuple[int, int]]  # rows with more or fewer cells than the header, and how many


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """The bytes of a file, unpacked if its name says that it is packed."""
    if path.suffix.lower() not in PACKED:
        with path.open("rb") as file:
            yield file
        return
    import pyarrow as pa

    with pa.input_stream(str(path), compression="detect") as stream:
        yield stream


def find_layout(start: bytes, encoding: str) -> Layout:
    """The layout of a file from its first bytes.

    The separator is one that the header has: the one that cuts most rows into as many cells as
    the header, and of several the one that cuts them into the most.
    """
    text = start[:SAMPLE].decode(encoding, "replace")
    if stated := re.match(r"sep=(.)\r?\n", text):
        return Layout(encoding, stated[1], _mark(text, stated[1]), 1)
    if len(start) > SAMPLE:
        text = text[: text.rfind("\n") + 1] or text
    best = (0.0, 0, ",")
    for separator in SEPARATORS:
        try:
            rows = [row for row in csv.reader(io.StringIO(text), delimiter=separator) if row]
        except csv.Error:
            continue
        width = len(rows[0]) if rows else 0
        if width > 1:
            fitting = Counter(map(len, rows))[width] / len(rows)
            best = max(best, (fitting, width, separator), key=lambda each: each[:2])
    return Layout(encoding, best[2], _mark(text, best[2]))


def _mark(text: str, separator: str) -> str:
    """The decimal mark of most numbers that are cells of their own."""
    cut = re.escape(separator)
    marks = Counter(re.findall(rf"(?:{cut}|^)[-+]?\d+([.,])\d+(?={cut}|\r?$)", text, re.MULTILINE))
    return "," if separator != "," and marks[","] > marks["."] else "."


def read_cells(path: Path, layout: Layout) -> Cells:
    """The cells of a file as text; rows in which nothing stands are left out."""
    rows, numbers, ragged = [], [], []
    try:
        with open_bytes(path) as stream:
            text = io.TextIOWrapper(io.BytesIO(stream.read()), layout.encoding, newline="")
            for _ in range(layout.first_line):
                text.readline()
            reader = csv.reader(text, delimiter=layout.separator)
            header = [as_written(name) for name in next(reader, [])]
            for number, row in enumerate(reader, 2):
                if not any(cell.strip() for cell in row):
                    continue
                if len(row) != len(header):
                    ragged.append((number, len(row)))
                    row = [*row, *[""] * len(header)][: len(header)]
                rows.append([as_written(cell) for cell in row])
                numbers.append(number)
    except (UnicodeDecodeError, csv.Error) as error:
        raise RolfError(f"{path}: is neither CSV nor Parquet ({error})") from None
    return Cells(layout, header, rows, numbers, ragged)
