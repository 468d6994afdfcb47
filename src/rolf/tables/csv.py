"""CSV files as spreadsheets write them: separator, encoding and cells."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

from rolf.errors import RolfError
from rolf.extras import require
from rolf.tables.limits import check_table, table_errors, unreadable
from rolf.text import HARMLESS, as_written, harmless

if TYPE_CHECKING:
    import pyarrow as pa

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
#: compressed files, unpacked while they are read
PACKED = (".gz", ".bz2", ".zst", ".lz4")
#: bytes from which the separator is detected
SAMPLE = 1 << 16
#: bytes examined at a time
BLOCK = 1 << 22
#: bytes without a character in Windows-1252
NOT_WINDOWS = b"\x81\x8d\x8f\x90\x9d"
UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class Dialect(NamedTuple):
    """How the cells of a file are written."""

    encoding: str = "utf-8-sig"
    separator: str = ","
    mark: str = "."  # the decimal mark of most numbers
    first_line: int = 0  # 1 if Excel's "sep=;" comes first


class Cells(NamedTuple):
    """The cells of a file below its header, row by row."""

    dialect: Dialect
    header: list[str]
    rows: list[list[str]]
    numbers: list[int]  # row numbers as in a spreadsheet, where the header is row 1
    ragged: list[tuple[int, int]]  # rows with more or fewer cells than the header, and how many


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """The bytes of a file, unpacked if its name ends like a compressed file's."""
    if path.suffix.lower() not in PACKED:
        try:
            file = path.open("rb")
        except ValueError as error:  # a null byte, or characters that file names cannot have
            raise RolfError(f"{str(path)!r}: is not a path ({error})") from None
        with file:
            yield file
        return
    import pyarrow as pa

    with pa.input_stream(str(path), compression="detect") as stream:
        yield stream


def find_dialect(start: bytes, encoding: str) -> Dialect:
    """The dialect of a file from its first bytes.

    Of the separators in the header, it takes the one that gives most rows as many cells as the
    header; on a tie, the one that gives the most cells.
    """
    text = start[:SAMPLE].decode(encoding, "replace")
    if stated := re.match(r"sep=(.)\r?\n", text):
        return Dialect(encoding, stated[1], _mark(text, stated[1]), 1)
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
    return Dialect(encoding, best[2], _mark(text, best[2]))


def _mark(text: str, separator: str) -> str:
    """The decimal mark of most cells that are numbers."""
    cut = re.escape(separator)
    marks = Counter(re.findall(rf"(?:{cut}|^)[-+]?\d+([.,])\d+(?={cut}|\r?$)", text, re.MULTILINE))
    return "," if separator != "," and marks[","] > marks["."] else "."


def read_cells(path: Path) -> Cells:
    """The cells of a file as text, without empty rows."""
    rows, numbers, ragged = [], [], []
    try:
        dialect, data = _examine(path, keep=True)
        text = io.TextIOWrapper(io.BytesIO(data), dialect.encoding, newline="")
        for _ in range(dialect.first_line):
            text.readline()
        reader = csv.reader(text, delimiter=dialect.separator)
        header = [as_written(name) for name in next(reader, [])]
        for number, row in enumerate(reader, 2):
            if not any(cell.strip() for cell in row):
                continue
            if len(row) != len(header):
                ragged.append((number, len(row)))
                row = [*row, *[""] * len(header)][: len(header)]
            rows.append([as_written(cell) for cell in row])
            numbers.append(number)
    except OSError as error:
        raise unreadable(path, error) from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise RolfError(f"{path}: is neither CSV nor Parquet ({error})") from None
    return Cells(dialect, header, rows, numbers, ragged)


def dialect_of(path: Path) -> Dialect:
    """The dialect of a CSV file.

    A file that is too large, packed or unpacked, is refused.
    """
    return _examine(path, keep=False)[0]


def _examine(path: Path, *, keep: bool) -> tuple[Dialect, bytes]:
    """The dialect of a file, and its bytes if they are to be kept."""
    size = lines = columns = 0
    start, kept, decoder = b"", [], codecs.getincrementaldecoder("utf-8")()
    utf8 = windows = True
    with open_bytes(path) as stream:
        while block := stream.read(BLOCK):
            if not size:
                start = block
                header = re.split(rb"[\r\n]", block, maxsplit=1)[0]
                columns = max(header.count(mark.encode()) for mark in SEPARATORS)
            lines += max(block.count(b"\n"), block.count(b"\r"))
            size += len(block)
            check_table(path, lines - 1, columns + 1, size)
            utf8 = utf8 and _fits(decoder, block)
            windows = windows and block.translate(None, NOT_WINDOWS) == block
            if b"\0" in block and not start.startswith(UTF16):
                raise RolfError(f"{path}: is neither CSV nor Parquet (not a text file)")
            if keep:
                kept.append(block)
    if start.startswith(UTF16):
        encoding = "utf-16"
    elif utf8 and _fits(decoder, b"", final=True):
        encoding = "utf-8-sig"
    else:
        encoding = "cp1252" if windows else "latin-1"
    return find_dialect(start, encoding), b"".join(kept)


def _fits(decoder: codecs.IncrementalDecoder, block: bytes, final: bool = False) -> bool:
    try:
        decoder.decode(block, final)
    except UnicodeDecodeError:
        return False
    return True


def read_csv(path: str | Path, text: Sequence[str] = ()) -> pa.Table:
    """Read a table; the columns named in ``text`` are kept as text, as written."""
    require("pyarrow", "reading a table from a file")
    import pyarrow as pa
    from pyarrow import compute
    from pyarrow import csv as arrow

    source = Path(path)
    with table_errors(source):
        dialect = dialect_of(source)
        types = dict.fromkeys((*text, *map(harmless, text)), pa.string())
        table = arrow.read_csv(
            source,
            read_options=arrow.ReadOptions(
                encoding=dialect.encoding.replace("utf-8-sig", "utf8"), skip_rows=dialect.first_line
            ),
            parse_options=arrow.ParseOptions(delimiter=dialect.separator),
            convert_options=arrow.ConvertOptions(column_types=types, decimal_point=dialect.mark),
        )
        for i, field in enumerate(table.schema):
            if pa.types.is_string(field.type):
                values = compute.replace_substring_regex(table.column(i), HARMLESS, r"\1")
                table = table.set_column(i, field.name, values)
        return table.rename_columns([as_written(each) for each in table.column_names])
