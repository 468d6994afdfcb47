"""Tables of arms with text: warnings, and the same tables in Python as in the commands."""

from __future__ import annotations

import pandas
import pytest

import rolf
from evaluation.test_replay import logged
from rolf.arms.reading import read_arms, understand
from rolf.errors import DifferentExperiment, InvalidArgument, RolfWarning
from rolf.evaluation.replay import replay
from support.commands import invoke, run

ITEMS = """creative,price,colour,shape
01,1.5,red,round
02,2.0,blue,square
03,4.0,red,square
04,8.0,green,round
05,3.5,blue,round
"""
COLUMNS = ["price", "colour=blue", "colour=green", "colour=red", "shape=round"]


@pytest.fixture
def items(tmp_path):
    path = tmp_path / "items.csv"
    path.write_text(ITEMS)
    return path


# --- what looks wrong --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("arm,u\na,1\nb,oops\nc,3\n", r"arms.csv: u: 'oops' in row 3 \(arm b\) .*among numbers"),
        ("arm,u\na,x\nb,y\nc,3\nd,x\n", r"u: '3' in row 4 \(arm c\) stands among text"),
        ("arm,u,v\na,1,x\nb,2,y\nc,3,z\n", r"v: left out: different for every arm"),
    ],
)
def test_a_doubtful_column_gives_a_warning(tmp_path, text, words):
    path = tmp_path / "arms.csv"
    path.write_text(text)
    with pytest.warns(RolfWarning, match=words) as caught:
        read_arms(path)
    assert len(caught) == 1
    in_frame = words.replace("arms.csv", "features").replace("row 3", "row 1")
    with pytest.warns(RolfWarning, match=in_frame.replace("row 4", "row 2")):
        read_arms(pandas.read_csv(path))


@pytest.mark.parametrize(
    "text",
    [
        "arm,u,v\na,1,x\nb,2,y\n",  # two arms always differ
        "arm,u\na,300x250\nb,728x90\nc,728x90\n",
        'arm,u\na,"red, blue"\nb,green\nc,green\n',
        "arm,u\na,1e3\nb,-.5\nc,+2.\n",
    ],
)
def test_a_plain_column_gives_no_warning(tmp_path, text):
    path = tmp_path / "arms.csv"
    path.write_text(text)
    read_arms(path)  # warnings are errors here


def test_the_commands_print_warnings_as_notes(tmp_path):
    path = tmp_path / "arms.csv"
    path.write_text("arm,u,v\n0,1,1\n1,oops,2\n2,3,3\n")
    log = tmp_path / "log.csv"
    log.write_text("arm,probability,reward\n" + "0,0.5,1\n1,0.5,0\n2,0.5,2\n" * 40)
    for words in (
        ("new", f"sqlite:///{tmp_path}/x.db", "x", "--features", path),
        ("replay", log, path, "--policy", "ucb", "--estimator", "replay", "--json"),
        ("diagnose", log, path, "--json"),
    ):
        done = invoke(*words)
        assert done.exit_code == 0, done.output
        assert done.stderr.startswith(f"note: {path}: u: 'oops' in row 3 (arm 1)")
        assert "oops" not in done.stdout


def test_new_says_how_the_table_was_read(items, tmp_path):
    out = run("new", f"sqlite:///{tmp_path}/x.db", "x", "--features", items)
    assert out.splitlines()[1:] == [
        "arms named by creative; numbers: price; "
        "text, with the number of categories: colour (3), shape (2)",
        "left out, implied by other columns: shape=square",
    ]
    frame = pandas.DataFrame({"u": [1.0, 2.0], "v": [2.0, 1.0]}, index=["a", "b"])
    assert str(understand(frame)) == "arms named by the index; numbers: u, v"
    many = pandas.DataFrame([[float(i) for i in range(13)]] * 2)
    assert str(understand(many)).endswith("8, 9 and 3 more")


# --- files and DataFrames in Python ------------------------------------------------------------


def frames(path):
    """The same table in every form that Python may hold it in."""
    plain = pandas.read_csv(path, dtype={"creative": str})
    return {
        "path": path,
        "str": str(path),
        "index": plain.set_index("creative"),
        "column": plain.rename(columns={"creative": "item_id"}),
    }


@pytest.mark.parametrize("kind", ["path", "str", "index", "column"])
def test_open_takes_files_and_frames_with_text(items, tmp_path, kind):
    url = f"sqlite:///{tmp_path}/x.db"
    tables = frames(items)
    with rolf.open_experiment(url, "x", features=tables[kind], policy="ucb") as experiment:
        assert list(experiment.estimates().index) == ["01", "02", "03", "04", "05"]
        assert experiment.synced.replica.roster.arms.columns == COLUMNS
    for again in tables.values():
        rolf.open_experiment(url, "x", features=again).close()
    other = tmp_path / "other.csv"
    other.write_text(ITEMS.replace("04,8.0", "04,8.5"))
    with pytest.raises(DifferentExperiment, match=r"arm '04', column price: 8.0 there, 8.5 here"):
        rolf.open_experiment(url, "x", features=other)
    with pytest.raises(rolf.RolfError, match=r"none\.csv: cannot be read"):
        rolf.open_experiment(url, "x", features="none.csv")


@pytest.mark.parametrize("kind", ["path", "index", "column"])
def test_arms_are_added_and_corrected_from_files_and_frames(items, tmp_path, kind):
    more = tmp_path / "more.csv"
    more.write_text("creative,shape,colour,price\n06,square,blue,5\n07,round,red,6\n")
    corrections = tmp_path / "right.csv"
    corrections.write_text("creative,price,colour,shape\n06,5.5,green,square\n01,9,blue,round\n")
    url = f"sqlite:///{tmp_path}/x.db"
    with rolf.open_experiment(url, "x", features=items, policy="ucb") as experiment:
        assert experiment.add_arms(frames(more)[kind]) == ["06", "07"]
        experiment.update_features(frames(corrections)[kind])
        arms = experiment.synced.replica.roster.arms
        rows = dict(zip(arms.labels, arms.features.tolist(), strict=True))
        assert rows["06"] == [5.5, 0, 1, 0, 0]
        assert rows["07"] == [6, 0, 0, 1, 1]
        assert rows["01"] == [9, 1, 0, 0, 1]
        experiment.retire_arms(["01"])
        with pytest.raises(InvalidArgument, match="new"):
            experiment.add_arms(frames(more)[kind])
        bad = frames(corrections)["index"].assign(colour=7, price="dear")
        with pytest.raises(InvalidArgument, match=r"price: got \"'dear' in rows 0, 1\""):
            experiment.update_features(bad)
    now = ITEMS.replace("01,1.5,red,round\n", "") + "06,5.5,green,square\n07,6,red,round\n"
    items.write_text(now)  # the arms that are left, in a table of their own
    rolf.open_experiment(url, "x", features=items).close()


def test_a_table_of_the_active_arms_is_read_like_the_first_one(items, tmp_path):
    """Read on its own it would have other columns: nothing in it is green."""
    url = f"sqlite:///{tmp_path}/x.db"
    with rolf.open_experiment(url, "x", features=items, policy="ucb") as experiment:
        experiment.retire_arms("04")
    items.write_text(ITEMS.replace("04,8.0,green,round\n", ""))
    assert read_arms(items).columns != COLUMNS
    rolf.open_experiment(url, "x", features=items).close()


def test_a_column_names_the_arms_if_the_index_only_counts(tmp_path):
    numbers = pandas.DataFrame({"u": [1.0, 2.0, 3.0], "id": [7, 8, 9]})
    with rolf.open_experiment("memory://", "column", features=numbers, policy="ucb") as experiment:
        assert list(experiment.estimates().index) == ["7", "8", "9"]
    with rolf.open_experiment(
        "memory://", "index", features=numbers.set_axis(list("abc")), policy="ucb"
    ) as experiment:
        assert list(experiment.estimates().index) == ["a", "b", "c"]
    counted = numbers[["u"]].assign(kind=["x", "y", "x"])
    with rolf.open_experiment("memory://", "counted", features=counted, policy="ucb") as experiment:
        assert experiment.add_arms(counted.set_axis([3, 4, 5])) == [3, 4, 5]


def test_files_name_arms_by_their_numbers(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("arm,u\n0,5\n")
    more = tmp_path / "more.csv"
    more.write_text("arm,u\n3,7\n")
    for name, table in {
        "numbers": pandas.DataFrame({"u": [1.0, 2.0, 3.0]}),
        "none": [[1.0], [2.0], [3.0]],
    }.items():
        with rolf.open_experiment("memory://", name, features=table, policy="ucb") as experiment:
            experiment.update_features(path)
            assert experiment.add_arms(more) == [3]
            assert experiment.synced.replica.roster.arms.features.tolist() == [[5], [2], [3], [7]]


def test_missing_values_of_a_frame_are_named():
    frame = pandas.DataFrame(
        {"u": pandas.array([1, None, 3], dtype="Int64"), "kind": ["x", "y", "x"]}
    )
    with pytest.raises(InvalidArgument, match="features: u: got 'nothing in row 1'"):
        read_arms(frame, missing="error")


def test_a_series_is_not_a_table():
    with pytest.raises(InvalidArgument, match="one row per arm"):
        rolf.open_experiment("memory://", "series", features=pandas.Series([1.0, 2.0]))


def test_replay_takes_a_frame_with_text(tmp_path):
    log = logged(0, size=600)
    count = len(set(log.arms))
    frame = pandas.DataFrame(
        {"u": range(count), "kind": ["x", "y"] * (count // 2) + ["x"] * (count % 2)},
        index=sorted(set(log.arms)),
    )
    assert replay(log, frame, ["ucb"], estimators=["replay"]).find("ucb", "replay").effective > 0
