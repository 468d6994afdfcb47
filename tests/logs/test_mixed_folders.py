"""Logs in folders whose files differ: in types, in columns, and in what puts rows in order."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from rolf.errors import InvalidArgument
from rolf.logs.log import open_log, read_log

SIZE = 60
ARMS = ["ad-0", "ad-1", "ad-2"]


def every_second(first, size=SIZE, **columns):
    """Every second decision of a log, with other columns in the place of some."""
    number = np.arange(first, size, 2)
    plain = {
        "number": number,
        "arm": [ARMS[each % 3] for each in number],
        "probability": np.full(number.size, 1 / 3),
        "reward": number % 5 / 2,
    }
    return pa.table({**plain, **columns})


def write(folder, *tables):
    folder.mkdir()
    for place, each in enumerate(tables):
        parquet.write_table(each, folder / f"part-{place}.parquet")
    return folder


ODD = np.arange(1, SIZE, 2)
NUMBERS = pa.array(ODD % 3, pa.int8())


@pytest.mark.parametrize(
    "columns",
    [
        {"number": ODD.astype(np.int32)},
        {"number": ODD.astype(np.float64)},
        {"arm": pa.DictionaryArray.from_arrays(NUMBERS, pa.array(ARMS))},
        {"arm": pa.array([ARMS[each % 3] for each in ODD], pa.large_string())},
        {"reward": pa.array(ODD % 5 / 2).cast(pa.decimal128(5, 1))},
        {"probability": pa.array(np.full(ODD.size, 1 / 3, np.float32))},
        {"extra": ODD},
    ],
)
def test_rows_of_files_with_other_types_are_sorted_together(tmp_path, columns):
    log = read_log(write(tmp_path / "log", every_second(0), every_second(1, **columns)))
    assert log.rewards.tolist() == [each % 5 / 2 for each in range(SIZE)]
    assert log.arms == [ARMS[each % 3] for each in range(SIZE)]


def test_files_may_require_values_or_have_none(tmp_path):
    """One file has no empty cells, another no rewards."""
    strict = every_second(1)
    strict = strict.cast(pa.schema([each.with_nullable(False) for each in strict.schema]))
    empty = every_second(0, reward=pa.nulls(SIZE // 2))
    log = read_log(write(tmp_path / "log", empty, strict))
    assert log.rewards.tolist() == [each % 5 / 2 for each in ODD]
    assert log.unrewarded == SIZE // 2


def test_types_that_cannot_be_brought_together_are_named(tmp_path):
    folder = write(tmp_path / "log", every_second(0), every_second(1, arm=ODD % 3))
    with pytest.raises(InvalidArgument, match=r"part-1.parquet: columns: got 'other types .*arm"):
        read_log(folder)


TIMES = pa.array(ODD, pa.timestamp("us"))


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (ODD.astype(str), "part-1.parquet: number: got 'string', wanted numbers or times"),
        (TIMES, "log: number: got 'values that cannot be compared', wanted numbers, or times"),
    ],
)
def test_an_order_that_is_none_is_refused(tmp_path, number, expected):
    folder = write(tmp_path / "log", every_second(0), every_second(1, number=number))
    with pytest.raises(InvalidArgument, match=expected):
        open_log(folder)


def test_times_with_and_without_a_zone_are_not_compared(tmp_path):
    zoned = every_second(1, number=TIMES.cast(pa.timestamp("us", "UTC")))
    folder = write(tmp_path / "log", every_second(1, number=TIMES), zoned)
    with pytest.raises(InvalidArgument, match="values that cannot be compared"):
        open_log(folder)


def test_text_does_not_order_a_file(tmp_path):
    """Ten would come before nine."""
    written = every_second(1, number=ODD.astype(str))
    with pytest.raises(InvalidArgument, match="wanted numbers or times"):
        open_log(write(tmp_path / "log", written))
    path = tmp_path / "log.csv"
    path.write_text("number,arm,reward\nround 10,ad-0,0.5\nround 9,ad-1,1.5\n")
    with pytest.raises(InvalidArgument, match=r"log.csv: number: got 'string', wanted numbers"):
        open_log(path)


def test_an_empty_file_puts_nothing_in_order(tmp_path):
    nothing = every_second(1, number=ODD.astype(str)).slice(0, 0)
    assert len(open_log(write(tmp_path / "log", nothing, every_second(1)))) == SIZE // 2


@pytest.mark.parametrize("column", ["number", "probability"])
@pytest.mark.parametrize("place", [0, 1])
def test_a_column_that_some_files_lack_is_not_passed_over(tmp_path, column, place):
    """Whichever of the files comes first: without ``number`` the order would be another one."""
    tables = [every_second(0), every_second(1)]
    tables[place] = tables[place].drop_columns([column])
    expected = f"part-{place}.parquet: columns: .*{column} too, as in other files"
    with pytest.raises(InvalidArgument, match=expected):
        open_log(write(tmp_path / "log", *tables))


def test_a_column_that_is_there_twice_is_named_with_its_file(tmp_path):
    twice = every_second(1).append_column("reward", [ODD])
    with pytest.raises(InvalidArgument, match=r"part-1.parquet: columns: got 'reward twice'"):
        open_log(write(tmp_path / "log", every_second(0), twice))
