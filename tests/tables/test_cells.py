"""Tables as they come, cell by cell: separators, encodings, numbers, dates, ids, text, frames."""

from __future__ import annotations

import gzip
import time

import pandas
import polars
import pytest

import rolf
from rolf.arms.reading import read_arms, read_rows, understand
from rolf.errors import InvalidArgument, RolfWarning
from rolf.experiments.roster import Roster
from rolf.logs.log import read_log
from rolf.tables import csv as reading
from tables.test_messy_tables import quietly, table_of

# --- files ---------------------------------------------------------------------------------------

PLAIN = "arm,größe,kind\na,1.5,rot\nb,2,grün\nc,4.25,rot\n"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "latin-1", "utf-16"])
@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_separators_and_encodings(tmp_path, encoding, separator, ending):
    text = PLAIN.replace(",", separator).replace("\n", ending)
    arms = quietly(table_of(tmp_path, text.encode(encoding)))
    assert (arms.labels, arms.columns) == (["a", "b", "c"], ["größe", "kind=grün", "kind=rot"])
    assert arms.features.tolist() == [[1.5, 0, 1], [2, 1, 0], [4.25, 0, 1]]


def test_excel_may_state_its_separator(tmp_path):
    arms = read_arms(
        table_of(tmp_path, "sep=;\r\narm;u,v\r\na;1\r\nb;oops\r\n".replace("oops", "2"))
    )
    assert (arms.columns, arms.features.tolist()) == (["u,v"], [[1], [2]])


def test_separators_within_cells_do_not_mislead(tmp_path):
    commas = 'arm,tags,u\na,"x; y; z",1\nb,"x; y",2\nc,"x; y",3\n'
    assert read_arms(table_of(tmp_path, commas)).columns == ["tags=x; y", "tags=x; y; z", "u"]
    semicolons = "name, lang;u;v\nx, y;1,5;2\nz;2;1,5\n"
    arms = read_arms(table_of(tmp_path, semicolons))
    assert (arms.labels, arms.columns) == (["x, y", "z"], ["u", "v"])


def test_bytes_that_windows_does_not_know(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "BLOCK", 8)  # they need not stand where the file stops being UTF-8
    path = table_of(tmp_path, b"arm,u\n\x81a,1\nb,2\n\xfc,3\n")
    assert quietly(path).labels == ["\x81a", "b", "ü"]


def test_packed_files_are_read(tmp_path):
    path = tmp_path / "arms.csv.gz"
    path.write_bytes(gzip.compress(PLAIN.encode()))
    assert read_arms(path).labels == ["a", "b", "c"]


@pytest.mark.parametrize("data", [b"", b"\n\n", b"PAR1\0\0", b"arm,u\na,\x00\n"])
def test_what_is_no_table_is_refused(tmp_path, data):
    with pytest.raises(rolf.RolfError, match=r"neither CSV nor Parquet|no rows"):
        read_arms(table_of(tmp_path, data))


def test_logs_come_like_that_too(tmp_path):
    rows = "Größe 1;0,5;1,25\nGröße 2;0,25;0\nGröße 2;0,25;\n"
    path = table_of(tmp_path, f"arm;probability;reward\n{rows}".encode("cp1252"))
    log = read_log(path)
    assert (log.arms, log.rewards.tolist()) == (["Größe 1", "Größe 2"], [1.25, 0])
    assert (log.probabilities.tolist(), log.unrewarded) == ([0.5, 0.25], 1)


# --- numbers and dates ---------------------------------------------------------------------------


def columns_of(folder, cells, *, separator=","):
    """The numbers in a column of cells, and the notes on it."""
    quoted = [f'"{cell}"' for cell in cells]
    rows = [f"arm{i}{separator}{cell}" for i, cell in enumerate(quoted)]
    reading = understand(table_of(folder, "\n".join([f"arm{separator}u", *rows])))
    return reading.arms.features[:, 0].tolist(), [
        note.partition(": u: ")[2] for note in reading.notes
    ]


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["1,5", "2", "1.234,5"], [1.5, 2, 1234.5]),
        (["1.5", "2", "1,234.5"], [1.5, 2, 1234.5]),
        (["1 234,5", "1\u202f000 000", "-3"], [1234.5, 1_000_000, -3]),
        (["1'234.50", "2\u2019000", "1"], [1234.5, 2000, 1]),
        (["0.123", "1.234", "2.345"], [0.123, 1.234, 2.345]),  # nobody writes 0.123 for 123
        (["45%", "7,5 %", "0"], [0.45, 0.075, 0]),
        (["$1,200.50", "-$3", "$7"], [1200.5, -3, 7]),
        (["12,99 €", "1", "7 €"], [12.99, 1, 7]),
        (["1e3", "-.5", "+2."], [1000, -0.5, 2]),
        (["\u22125", "- 2 €", "3"], [-5, -2, 3]),
        (["True", "false", "TRUE"], [1, 0, 1]),
    ],
)
def test_numbers_as_people_write_them(tmp_path, cells, values):
    assert columns_of(tmp_path, cells) == (values, [])


def test_a_long_cell_is_not_searched_for_numbers(tmp_path):
    cell = "1" + " " * 100_000 + "x"
    start = time.process_time()
    assert read_arms(table_of(tmp_path, f"arm,u,v\na,{cell},1\nb,{cell},2\n")).columns[-1] == "v"
    assert time.process_time() - start < 5.0


@pytest.mark.parametrize(
    ("cells", "separator", "values", "note"),
    [
        (["1.234", "2.500"], ",", [1.234, 2.5], "'1.234' is read as 1.234: .* decimal point"),
        (["1.234", "2.500"], ";", [1234, 2500], "'1.234' is read as 1234: .* decimal comma"),
        (["1,234", "2,500"], ",", [1234, 2500], "'1,234' is read as 1234: .* decimal point"),
        (["1,234", "2,500"], ";", [1.234, 2.5], "'1,234' is read as 1.234: .* decimal comma"),
    ],
)
def test_what_could_be_either_is_decided_by_the_file_and_said(
    tmp_path, cells, separator, values, note
):
    read, (said,) = columns_of(tmp_path, cells, separator=separator)
    assert read == values
    assert pandas.Series([said]).str.match(note).all()


def test_other_columns_decide_what_could_be_either(tmp_path):
    path = table_of(tmp_path, 'arm,u,v\na,"1,5","1.234"\nb,"2,5","5.678"\n')
    with pytest.warns(RolfWarning, match=r"v: '1\.234' is read as 1234"):
        assert read_arms(path).features.tolist() == [[1.5, 1234], [2.5, 5678]]


def test_a_later_table_may_use_the_other_decimal_mark(tmp_path):
    arms = read_arms(table_of(tmp_path, "arm;u\na;1,5\nb;2,5\n"))
    assert read_rows(table_of(tmp_path, "arm,u\nc,3.75\nd,4\n"), arms).features.tolist() == [
        [3.75],
        [4],
    ]
    assert read_rows(table_of(tmp_path, "arm;u\nc;1.500\n"), arms).features.tolist() == [[1500]]


@pytest.mark.parametrize(
    ("cells", "separator", "days", "note"),
    [
        (["2024-01-31", "2024-02-01", ""], ",", [0, 1, 0.5], "1 of 3"),
        (["2024-01-31T12:00", "2024-02-01 00:00:00+00:00", "2024-02-03"], ",", [0.5, 1, 3], ""),
        (["31.01.2024", "1.2.24", "2.2.2024 06:00"], ",", [0, 1, 2.25], ""),
        (["1/31/2024", "2/1/2024", "2/3/2024"], ",", [0, 1, 3], ""),
        (["31/1/2024", "1/2/2024", "3/2/2024"], ",", [0, 1, 3], ""),
        (["1/2/2024", "2/2/2024"], ",", [0, 31], "dates such as '1/2/2024' are .* month first"),
        (["1/2/2024", "2/2/2024"], ";", [0, 1], "dates such as '1/2/2024' are .* day first"),
        (["2024/01/31", "2024/02/01"], ",", [0, 1], ""),
    ],
)
def test_dates_are_days_since_the_first(tmp_path, cells, separator, days, note):
    read, notes = columns_of(tmp_path, cells, separator=separator)
    assert read == days
    assert len(notes) == bool(note)
    assert all(pandas.Series(notes, dtype=str).str.match(note))


# --- ids -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "key", "columns"),
    [
        ("kind,sku,u\nx,7,1\nx,8,2\nx,9,5\ny,10,6\ny,11,7\n", "sku", ["kind=x", "kind=y", "u"]),
        ("price,name\n1.5,a\n2.5,b\n3.5,c\n", "name", ["price"]),
        ("name,productId,u\na,7,1\nb,8,2\nc,9,3\n", "name", ["u"]),
        ("name,Artikel-Nr.,u\na,7,1\nb,8,2\nc,9,3\n", "name", ["u"]),
        ("name,paid,u\na,7,1\nb,8,2\nc,9,3\n", "name", ["paid", "u"]),
        ("name,code,u\na,7,1\nb,7,2\nc,9,3\n", "name", ["code", "u"]),  # not different
        ("name,text,u\na,x1,1\nb,x2,2\nc,x3,3\n", "name", ["u"]),
    ],
)
def test_ids_name_arms_but_are_no_features(tmp_path, text, key, columns):
    path = table_of(tmp_path, text)
    arms = quietly(path)
    assert (arms.recipe.key, arms.columns) == (key, columns)
    frame = pandas.read_csv(path)
    assert quietly(frame).columns == columns
    if key == "sku":
        assert quietly(frame).labels == ["7", "8", "9", "10", "11"]


def test_a_table_of_ids_has_no_features(tmp_path):
    with pytest.raises(InvalidArgument, match="at least one column that is a feature"):
        read_arms(table_of(tmp_path, "name,sku\na,1\nb,2\nc,3\n"))


# --- text ----------------------------------------------------------------------------------------


def test_a_few_rare_categories_stay(tmp_path):
    arms = read_arms(table_of(tmp_path, "arm,kind,u\na,x,1\nb,x,2\nc,y,4\nd,z,5\n"))
    assert arms.columns == ["kind=x", "kind=y", "kind=z", "u"]


@pytest.mark.parametrize("kind", ["oval", ""])
def test_an_unseen_category_where_there_is_no_other(tmp_path, kind):
    text = "arm,kind,shape\na,x,round\nb,y,square\nc,x,square\nd,y,round\n"
    arms = read_arms(table_of(tmp_path, text))
    assert arms.columns == ["kind=x", "kind=y", "shape=round"]
    shown = kind or "missing"
    with pytest.warns(RolfWarning) as caught:
        rows = read_rows(table_of(tmp_path, f"arm,kind,shape\ne,z,{kind}\n"), arms)
    assert [str(each.message).partition("arms.csv: ")[2] for each in caught] == [
        "kind: 'z' in row 2 (arm e) is new here; read as none of x, y",
        f"shape: {shown!r} in row 2 (arm e) is new here; read like square, which has no column of "
        "its own",
    ]
    assert rows.features.tolist() == [[0, 0, 0]]


# --- DataFrames, and policies --------------------------------------------------------------------


@pytest.mark.parametrize("library", [pandas, polars])
def test_frames_are_read_like_files(tmp_path, library):
    data = {
        "sku": ["a1", "a2", "a3", "a4"],
        "price": [1.5, None, 2.5, 4.0],
        "share": ["45%", "5%", "7%", None],
        "kind": ["x", None, "x", "y"],
        "stock": [True, False, True, True],
    }
    frame = library.DataFrame(data)
    text = "sku,price,share,kind,stock\na1,1.5,45%,x,true\na2,,5%,,false\na3,2.5,7%,x,true\n"
    by_file = quietly(table_of(tmp_path, text + "a4,4,,y,true\n"))
    arms = quietly(frame)
    assert (arms.labels, arms.columns) == (by_file.labels, by_file.columns)
    assert arms.features.tolist() == by_file.features.tolist()
    assert arms.recipe.columns == by_file.recipe.columns
    with pytest.warns(RolfWarning) as caught:
        policy = rolf.UCB(frame, seed=0)
    words = "features: price: 1 of 4 cells is empty, in row 1 (arm a2); read as 2.5"
    assert str(caught[0].message).startswith(words)
    assert policy.ask().arm in data["sku"]
    with pytest.warns(RolfWarning) as caught:
        assert rolf.UCB(tmp_path / "arms.csv").arms.labels == data["sku"]
    assert len(caught) == 3


@pytest.mark.parametrize("library", [pandas, polars])
def test_frames_of_numbers_stay_as_they_are(library):
    numbers = library.DataFrame({"u": [1.0, 2.0], "v": [3, 4]})
    policy = rolf.UCB(numbers)
    assert (policy.arms.features.tolist(), policy.arms.recipe) == ([[1, 3], [2, 4]], None)


def test_dates_and_categories_of_a_frame():
    frame = pandas.DataFrame(
        {
            "day": pandas.to_datetime(["2024-01-01", "2024-01-03", None]),
            "store": pandas.Categorical([10, 20, 10]),  # numbers that are none
        },
        index=["a", "b", "c"],
    )
    arms = quietly(frame)
    assert arms.columns == ["day", "day=missing", "store=10"]
    assert arms.features.tolist() == [[0, 0, 1], [2, 0, 0], [1, 1, 1]]


def test_numbers_alone_are_read_by_the_recipe_too(tmp_path):
    """A frame of numbers may have the user's columns, or those of the experiment."""
    roster = Roster(
        quietly(table_of(tmp_path, "arm,sku,u,since\na,7,1,2024-01-01\nb,8,,2024-01-03\n"))
    )
    assert roster.arms.columns == ["u", "u=missing", "since"]
    raw = pandas.DataFrame({"sku": [9], "since": [5], "u": [3]}, index=["c"])
    assert roster.addition(raw)["add"] == {"labels": ["c"], "features": [[3, 0, 5]]}
    own = pandas.DataFrame([[1, 0.5, 6.5]], index=["c"], columns=["u=missing", "u", "since"])
    assert roster.addition(own)["add"]["features"] == [[0.5, 1, 6.5]]


def test_the_column_that_named_the_arms_names_later_ones(tmp_path):
    """Also in a part of a DataFrame, whose index does not count from 0."""
    arms = read_arms(table_of(tmp_path, "u,sku\n1,a\n1,b\n2,c\n2,d\n1,e\n"))
    assert arms.recipe.key == "sku"
    frame = pandas.DataFrame({"u": [5, 6, 7], "sku": ["f", "g", "h"]})
    assert read_rows(frame[frame["u"] > 5], arms).labels == ["g", "h"]


def test_whole_numbers_beside_missing_ones_are_the_same_categories():
    stores = pandas.DataFrame({"store": pandas.Categorical([10, 20, 10])}, index=["a", "b", "c"])
    arms = read_arms(stores)
    later = pandas.DataFrame({"store": [20.0]}, index=["d"])
    assert read_rows(later, arms).features.tolist() == [[0, 1]]


def test_a_column_of_lists_is_refused():
    frame = pandas.DataFrame({"u": [1.0, 2.0], "tags": [["x"], ["y", "z"]]}, index=["a", "b"])
    with pytest.raises(
        InvalidArgument, match=r"features: tags: got .* wanted numbers, text or dates"
    ):
        read_arms(frame)


def test_the_features_of_a_round_may_hold_text(tmp_path):
    arms = quietly(table_of(tmp_path, "arm,u,kind\na,1,x\nb,2,y\nc,,x\n"))
    frame = pandas.DataFrame({"kind": ["y", "x", "x"], "u": [5.0, 6.0, 7.0]}, index=["c", "b", "a"])
    assert arms.columns == ["u", "u=missing", "kind=x"]
    assert arms.round_features(frame).tolist() == [[7, 0, 1], [6, 0, 1], [5, 0, 0]]
    with pytest.raises(InvalidArgument, match="rows that name all arms"):
        arms.round_features(frame.iloc[:2])


@pytest.mark.parametrize("form", ["parquet", "pandas", "nullable", "polars"])
def test_numbers_that_come_as_numbers(form, tmp_path):
    """A median for those that are missing, and wrong ones as they are written."""
    values = [1.5, None, 2.5, 4.0]
    frame = pandas.DataFrame({"arm": list("abcd"), "width": values, "none": [None] * 4})
    frame = frame.astype({"width": "Float64" if form == "nullable" else float, "none": float})

    def table():
        if form == "parquet":
            frame.to_parquet(tmp_path / "arms.parquet", index=False)
            return tmp_path / "arms.parquet"
        return polars.from_pandas(frame) if form == "polars" else frame

    with pytest.warns(RolfWarning) as notes:
        arms = read_arms(table())
    assert arms.features.tolist() == [[1.5, 0.0], [2.5, 1.0], [2.5, 0.0], [4.0, 0.0]]
    assert arms.columns == ["width", "width=missing"]
    assert sorted("all cells are empty" in str(note.message) for note in notes) == [False, True]
    frame.loc[3, "width"] = 1e300
    with pytest.raises(InvalidArgument, match=r"width: got '1e\+300 in row \d', wanted"):
        read_arms(table())
