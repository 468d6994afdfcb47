"""``rolf arms``: show, add, correct and retire arms."""

from __future__ import annotations

import json

import numpy as np
import pandas
import pytest

import rolf
from rolf.errors import InvalidArgument
from support.commands import one_line_error, run
from support.stores import quick_folder

# shape=square is implied by the columns before it, so it gets no column
ITEMS = """item,size,kind,shape
01,1,red,round
02,2,07,square
03,4,red,square
04,8,green,round
05,3,07,round
"""
COLUMNS = ["size", "kind=07", "kind=green", "kind=red", "shape=round"]


@pytest.fixture
def url():
    return f"sqlite:///{quick_folder('rolf-arms')}/x.db"


@pytest.fixture
def stored(tmp_path, url):
    items = tmp_path / "items.csv"
    items.write_text(ITEMS)
    run("new", url, "x", "--features", items, "--policy", "rolf-ridge", "--seed", 1)
    return url


def table(folder, text, name="rows.csv"):
    path = folder / name
    path.write_text(text)
    return path


def arms_of(url, name="x"):
    return {each["arm"]: each for each in json.loads(run("arms", url, name, "--json"))}


def features_of(url, arm, name="x"):
    return list(arms_of(url, name)[arm]["features"].values())


def test_the_arms_are_shown(stored):
    run("ask", stored, "x", "--available", "03", "-n", 2)
    run("arms", stored, "x", "--retire", "02")
    lines = [line.strip().split(maxsplit=3) for line in run("arms", stored, "x").splitlines()]
    assert lines[0] == ["arm", "plays", "state", "features"]
    assert [line[:3] for line in lines[1:4]] == [
        ["01", "0", "active"],
        ["02", "0", "retired"],
        ["03", "2", "active"],
    ]
    assert lines[1][3] == "size 1, kind=red, shape=round"
    data = arms_of(stored)
    assert list(data) == ["01", "02", "03", "04", "05"]
    assert (data["03"]["plays"], data["02"]["active"]) == (2, False)
    assert data["01"]["features"] == dict(zip(COLUMNS, [1, 0, 0, 1, 1], strict=True))


def test_add_update_and_retire_in_this_order(stored, tmp_path):
    """A step may name arms added by an earlier step; text becomes the same columns as before."""
    more = table(tmp_path, "item,shape,kind,size\n06,square,07,5\n07,round,red,6\n", "more.csv")
    rows = "item,size,kind,shape\n06,5.5,green,square\n01,9,07,round\n"
    right = table(tmp_path, rows, "right.csv")
    words = ("--retire", "07", "--retire", "02", "--update", right, "--add", more)
    lines = run("arms", stored, "x", *words).splitlines()
    assert lines == ["added: 06, 07", "updated: 06, 01", "retired: 07, 02"]
    assert features_of(stored, "06") == [5.5, 0, 1, 0, 0]
    assert features_of(stored, "07") == [6, 0, 0, 1, 1]
    assert features_of(stored, "01") == [9, 1, 0, 0, 1]
    assert features_of(stored, "03") == [4, 0, 0, 1, 0]
    left = {arm for arm, each in arms_of(stored).items() if each["active"]}
    assert left == {"01", "03", "04", "05", "06"}
    with rolf.open_experiment(stored, "x") as experiment:
        assert {each.arm for each in experiment.ask_many(200)} <= left


def test_json_after_a_change_is_the_table(stored, tmp_path):
    more = table(tmp_path, "item,size,kind,shape\n06,5,red,round\n")
    data = json.loads(run("arms", stored, "x", "--add", more, "--json"))
    assert [each["arm"] for each in data] == ["01", "02", "03", "04", "05", "06"]


@pytest.mark.parametrize(
    ("option", "text", "expected"),
    [
        ("--add", "item,size,kind\n06,5,red\n", r"columns: .*'size', 'kind', 'shape'"),
        ("--add", "item,size,kind,shape,age\n06,5,red,round,3\n", "columns: got .*'age'"),
        ("--add", "item,size,kind,shape\n06,big,red,round\n", "size: got \"'big' in row 2\""),
        ("--add", "item,size,kind,shape\n06,5,red,round\n01,5,red,round\n", "--add: .*'01'.* new"),
        ("--add", "item,size,kind,shape\n06,5,red,round\n06,5,red,round\n", "06 twice"),
        ("--add", "item,size,kind,shape\n", "no rows"),
        (
            "--update",
            "item,size,kind,shape\n01,9,red,round\n99,5,red,round\n",
            "--update: got '99'",
        ),
        ("--update", "item,size,kind,shape\n01,9,red,round\n,1,red,round\n", "nothing in row 3"),
        ("--retire", "99", "--retire: got '99'"),
    ],
)
def test_bad_input_changes_nothing(stored, tmp_path, option, text, expected):
    before = arms_of(stored)
    words = [option, text if option == "--retire" else table(tmp_path, text)]
    words += ["--retire", "01"]  # the last step, which must not happen
    with pytest.raises(InvalidArgument, match=expected):
        run("arms", stored, "x", *words, ok=False)
    assert arms_of(stored) == before


def test_a_bad_table_stops_all_steps(stored, tmp_path):
    more = table(tmp_path, "item,size,kind,shape\n06,5,red,round\n")
    bad = table(tmp_path, "item,size\n01,5\n", "bad.csv")
    before = arms_of(stored)
    with pytest.raises(InvalidArgument, match="columns"):
        run("arms", stored, "x", "--add", more, "--update", bad, ok=False)
    assert arms_of(stored) == before


def test_errors_are_one_line(stored, tmp_path, monkeypatch, capsys):
    words = ("arms", stored, "x", "--add", tmp_path / "none.csv")
    shown = one_line_error(monkeypatch, capsys, *words)
    assert shown.endswith("none.csv: cannot be read (No such file or directory)\n")
    assert shown.count("\n") == 1


def test_categories_outlive_backups_and_snapshots(stored, tmp_path):
    """A category without its own column is known in a copy, too."""
    with rolf.open_experiment(stored, "x") as experiment:
        experiment.ask()
        experiment.snapshot()
    run("backup", stored, tmp_path / "copy.db")
    more = table(tmp_path, "item,size,kind,shape\n06,5,07,square\n")
    for url in (stored, f"sqlite:///{tmp_path}/copy.db"):
        run("arms", url, "x", "--add", more)
        assert features_of(url, "06", "x") == [5, 1, 0, 0, 0]


def test_an_experiment_created_with_zeros_and_ones(url, tmp_path):
    """Created from Python: column names reveal the categories."""
    frame = pandas.DataFrame(
        {"size": [1.0, 2.0, 3.0], "kind=red": [1.0, 0.0, 0.0], "kind=blue": [0.0, 1.0, 0.0]},
        index=[10, 20, 30],
    )
    rolf.open_experiment(url, "x", features=frame, policy="ucb").close()
    run("arms", url, "x", "--add", table(tmp_path, "id,kind,size\n40,blue,4\n"))
    run("arms", url, "x", "--update", table(tmp_path, "id,kind=blue,kind=red,size\n10,0,0,5\n"))
    run("arms", url, "x", "--retire", "20")
    assert features_of(url, 40) == [4, 0, 1]  # a number, like the other labels
    assert features_of(url, 10) == [5, 0, 0]
    assert not arms_of(url)[20]["active"]
    run("arms", url, "x", "--add", table(tmp_path, "id,kind,size\n50,green,4\n"))
    assert features_of(url, 50) == [4, 0, 0]
    with pytest.raises(InvalidArgument, match="size: got 'nothing in row 2'"):
        run("arms", url, "x", "--add", table(tmp_path, "id,kind,size\n60,red,\n"), ok=False)


def test_arms_without_names(url, tmp_path):
    rolf.open_experiment(url, "x", features=np.eye(3), policy="ucb").close()
    run("arms", url, "x", "--add", table(tmp_path, "arm,u,v,w\n3,1,2,3\n4,4,5,6\n"))
    run("arms", url, "x", "--update", table(tmp_path, "arm,u,v,w\n0,7,8,9\n"), "--retire", 1)
    assert list(arms_of(url)) == [0, 1, 2, 3, 4]
    assert features_of(url, 4) == [4, 5, 6]
    assert features_of(url, 0) == [7, 8, 9]
    assert "7, 8, 9" in run("arms", url, "x")
    with pytest.raises(InvalidArgument, match="have no names"):
        run("arms", url, "x", "--add", table(tmp_path, "arm,u,v,w\nb,1,2,3\n"), ok=False)
    with pytest.raises(InvalidArgument, match="3 features"):
        run("arms", url, "x", "--add", table(tmp_path, "arm,u,v\n5,1,2\n"), ok=False)


def test_features_of_the_round_are_matched_by_name(stored, tmp_path):
    """A round's table lists arms and columns in any order, and may lack a category."""
    url = stored
    items = table(tmp_path, ITEMS, "items.csv")
    run("new", url, "v", "--features", items, "--policy", "rolf-varying")
    rows = "item,kind,shape,size\n" + "".join(f"0{i},red,square,{i}\n" for i in (5, 4, 3, 2, 1))
    run("ask", url, "v", "--features", table(tmp_path, rows))
    run("export", url, "v", tmp_path / "log.csv")
    row = pandas.read_csv(tmp_path / "log.csv").iloc[0]
    for i in (1, 2, 3, 4, 5):
        assert [row[f"x_0{i}_{column}"] for column in COLUMNS] == [i, 0, 0, 1, 0]
    with pytest.raises(InvalidArgument, match="every ask"):
        run("arms", url, "v", "--update", items, ok=False)
