"""Logs from files: our own, the Open Bandit Dataset's, and ``rolf replay`` on them."""

from __future__ import annotations

import json
import lzma
from pathlib import Path

import numpy as np
import pandas
import pytest
from typer.testing import CliRunner

import rolf
from evaluation.test_replay import EVEN, FEATURES, WEIGHTED, logged, quiet
from rolf.arms.reading import read_arms
from rolf.cli import app, main
from rolf.logs.log import read_log

DATA = Path(__file__).parents[1] / "data" / "obd"

# --- files -------------------------------------------------------------------------------------

OWN = """id,number,arm,probability,asked_at,reward,told_at,is_default,x_a_size,x_07_size
e-2,2,07,0.25,2024-01-01T00:00:02,1.5,2024-01-01T00:00:09,false,0.1,0.2
e-1,1,a,0.75,2024-01-01T00:00:01,0,2024-01-01T00:00:08,true,0.3,0.4
e-3,3,a,0.5,2024-01-01T00:00:03,,,false,0.5,0.6
"""


def test_our_own_log(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text(OWN)
    pandas.read_csv(path, dtype={"arm": str}).to_parquet(tmp_path / "log.parquet")
    for name in ("log.csv", "log.parquet"):
        log = read_log(tmp_path / name)
        assert log.arms == ["a", "07"]
        assert log.probabilities.tolist() == [0.75, 0.25]
        assert log.rewards.tolist() == [0.0, 1.5]
        assert (log.defaults, log.unrewarded, log.contextual) == (1, 1, True)
        arms = read_arms_of(tmp_path, "arm,size,price\n07,0,2\na,0,3\n")
        table = log.contexts(arms)
        assert table.table(0).tolist() == [[2.0, 0.4], [3.0, 0.3]]
        assert table.rows(np.array([0, 1]), np.array([1, 0])).tolist() == [[3.0, 0.3], [2.0, 0.2]]


def read_arms_of(folder, text):
    path = folder / "arms.csv"
    path.write_text(text)
    return read_arms(path)


def test_arms_with_categories(tmp_path):
    arms = read_arms_of(tmp_path, "arm,size,kind\nx,1,red\ny,2,blue\nz,4,red\nw,8,green\n")
    assert arms.labels == ["x", "y", "z", "w"]
    assert arms.columns == ["size", "kind=blue", "kind=green", "kind=red"]
    assert arms.features.tolist()[1] == [2.0, 1.0, 0.0, 0.0]
    both = read_arms_of(tmp_path, "arm,kind,same\nx,red,r\ny,blue,b\nz,red,r\n")
    assert both.columns == ["kind=blue", "kind=red"]  # the rest follows from them


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("arm,probability\na,1\n", "reward too"),
        ("item_id,propensity_score\n1,1\n", "click too"),
        ("a,b\n1,2\n", "arm and reward"),
        ("arm,probability,reward\na,0.5,\n", "without rewards"),
        ("arm,probability,reward\na,,1\na,often,1\n", "probability: got \"'often' in row 3\""),
        ("arm,probability,reward\na,0.5,1\na,0.5,good\n", "reward: got"),
        ("arm,probability,reward\na,1.5,1\n", "probability: got '1.5 in row 2'"),
        ("arm,item_id,probability\na,1,0.5\n", "reward too"),
        ("", "neither CSV nor Parquet"),
    ],
)
def test_bad_columns_are_named(tmp_path, text, expected):
    path = tmp_path / "log.csv"
    path.write_text(text)
    with pytest.raises(rolf.RolfError, match=expected):
        read_log(path)


@pytest.mark.parametrize(
    ("text", "labels", "columns"),
    [
        ("item,size\n007,1\n08,2\n", ["007", "08"], ["size"]),  # as written
        ("size,item_id\n1,a\n2,b\n", ["a", "b"], ["size"]),
        ("id,size,arm\n1,1,a\n2,2,b\n", ["a", "b"], ["size"]),  # no feature
        (",size\nx,1\ny,2\n", ["x", "y"], ["size"]),  # an index of names
        (",item,size\n0,x,1\n1,y,2\n", ["x", "y"], ["size"]),  # and one that only counts
    ],
)
@pytest.mark.filterwarnings("ignore:.*id. left out")
def test_the_column_that_names_the_arms(tmp_path, text, labels, columns):
    arms = read_arms_of(tmp_path, text)
    assert arms.labels == labels
    assert arms.columns == columns


@pytest.mark.parametrize("name", ["creative", None])
def test_arms_of_a_data_frame_with_an_index(tmp_path, name):
    table = pandas.DataFrame(
        {"size": [1.0, 2.0], "kind": ["u", "v"]}, index=pandas.Index(["x", "y"], name=name)
    )
    table.to_parquet(tmp_path / "arms.parquet")
    table.to_csv(tmp_path / "arms.csv")
    for file in ("arms.parquet", "arms.csv"):
        arms = read_arms(tmp_path / file)
        assert arms.labels == ["x", "y"]
        assert arms.columns == ["size", "kind=u"]
        assert arms.recipe.columns[1].categories == ("u", "v")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("arm\na\nb\n", "at least one feature"),
        ("arm,size\na,1\na,2\n", "arm: got 'a twice, in rows 2, 3'"),
        ("arm,size\na,1\n,2\n", "arm: got 'nothing in row 3'"),
        ("arm,size,kind\na,inf,x\nb,2,y\n", "size: got \"'inf' in row 2\""),
        ("arm,size,size\na,1,2\nb,2,3\n", "columns: got 'size twice'"),
        ("arm,size\n", "no rows"),
        ("arm,size\na,1\n", "two arms"),
    ],
)
def test_bad_arms_are_named(tmp_path, text, expected):
    with pytest.raises(rolf.RolfError, match=expected):
        read_arms_of(tmp_path, text)


def test_rows_without_an_arm_are_named(tmp_path):
    table = pandas.DataFrame({"arm": ["a", None], "probability": [0.5, 0.5], "reward": [1.0, 2.0]})
    table.to_parquet(tmp_path / "log.parquet")
    with pytest.raises(rolf.RolfError, match="arm: got 'nothing in row 2'"):
        read_log(tmp_path / "log.parquet")


def test_a_feature_that_some_arms_lack_is_not_used(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("arm,probability,reward,x_a_size,x_b_size,x_a_age\na,0.5,1,2,3,4\n")
    arms = read_arms_of(tmp_path, "arm,age\na,5\nb,6\n")
    assert read_log(path).contexts(arms).table(0).tolist() == [[5.0, 2.0], [6.0, 3.0]]
    path.write_text("arm,probability,reward,x_a_size\na,0.5,1,2\n")
    assert read_log(path).contexts(arms) is None


def test_defaults_and_missing_rewards_are_told(tmp_path):
    lines = [f"{i % 2},0.5,{i % 3 if i % 7 else ''},{i % 5 == 0}" for i in range(300)]
    path = tmp_path / "log.csv"
    path.write_text("arm,probability,reward,is_default\n" + "\n".join(lines))
    out = quiet(path, np.eye(2), ["ucb"])
    assert any("43 decisions without a reward" in note for note in out.notes)
    assert any("rewards are defaults" in note for note in out.notes)


# --- the Open Bandit Dataset ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    folder = tmp_path_factory.mktemp("obd")
    for name in ("random", "bts"):
        packed = (DATA / f"{name}-men.csv.xz").read_bytes()
        (folder / f"{name}.csv").write_bytes(lzma.decompress(packed))
    return folder


def test_the_open_bandit_dataset_is_read(sample):
    random, bts = read_log(sample / "random.csv"), read_log(sample / "bts.csv")
    with pytest.warns(rolf.RolfWarning, match="item_feature_2: 16 categories for 34 arms; the 7"):
        arms = read_arms(DATA / "random-items.csv")
    assert (len(random), len(bts), arms.count) == (10_000, 10_000, 34)
    assert (random.rewards.sum(), bts.rewards.sum()) == (46.0, 69.0)
    assert set(random.arms) == set(bts.arms) == set(arms.labels) == {str(i) for i in range(34)}
    assert (random.probabilities == 1 / 34).all()
    assert (bts.probabilities.min(), bts.probabilities.max()) == (0.000165, 0.72529)
    # one number and 21 categories in three columns, of which two follow from the others
    assert arms.features.shape == (34, 20)
    assert np.linalg.matrix_rank(arms.features) == 20
    assert random.contexts(arms).moving.shape == (10_000, 34, 1)


def test_the_open_bandit_dataset_is_sorted_by_time(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text(
        "timestamp,item_id,position,propensity_score,click,user-item_affinity_0\n"
        "2019-11-24 00:00:02,1,1,0.5,0,0.25\n2019-11-24 00:00:01,0,2,0.25,1,0.75\n"
    )
    log = read_log(path)
    assert (log.arms, log.rewards.tolist(), log.contextual) == (["0", "1"], [1.0, 0.0], True)
    assert log.columns["x_0_affinity"].tolist() == [0.75, 0.25]
    path.write_text("item_id,propensity_score,click\n1,0.5,0\n")
    assert read_log(path).contextual  # chances may depend on the position


def test_the_open_bandit_dataset_is_evaluated(sample):
    """What a uniform draw earns is known from one log and estimated from the other."""
    policies = {"uniform": EVEN, "rolf-varying": "rolf-varying"}
    random = quiet(sample / "random.csv", DATA / "random-items.csv", policies)
    logged = random.find("as logged", "mean")
    assert random.find("uniform", "ips").value == pytest.approx(logged.value)
    assert 200 < random.find("uniform", "replay").effective < 400  # 10,000/34 = 294
    bts = quiet(sample / "bts.csv", DATA / "bts-items.csv", {"uniform": EVEN}, split=0.01)
    for name in WEIGHTED:
        row = bts.find("uniform", name)
        assert row.low < 46 / 10_000 < row.high
        assert row.effective < 1000


# --- the command line ------------------------------------------------------------------------


def files(folder):
    log = logged(0, size=1500)
    table = {"arm": log.arms, "probability": log.probabilities, "reward": log.rewards}
    pandas.DataFrame(table).to_csv(folder / "log.csv", index=False)
    pandas.DataFrame(FEATURES, columns=["u", "v"]).to_csv(folder / "arms.csv", index_label="arm")
    return str(folder / "log.csv"), str(folder / "arms.csv")


def run(*args):
    return CliRunner().invoke(app, ["replay", *args], env={"COLUMNS": "200"})


def test_the_command(tmp_path):
    arguments = (*files(tmp_path), "--policy", "ucb", "--policy", "rolf-bayes")
    tuned = ("--options", '{"ucb": {"setting": "tuned"}}')
    done = run(*arguments, *tuned, "--plot", str(tmp_path / "x.png"))
    assert done.exit_code == 0, done.output
    assert "rolf-bayes" in done.output
    assert "learned from the first 750" in done.output
    assert (tmp_path / "x.png").stat().st_size > 1000
    machine = run(*arguments, *tuned, "--json", "--estimator", "dr", "--estimator", "ips")
    rows = json.loads(machine.stdout)["rows"]
    assert [(row["policy"], row["estimator"]) for row in rows] == [
        ("as logged", "mean"),
        ("ucb", "ips"),
        ("ucb", "dr"),
        ("rolf-bayes", "ips"),
        ("rolf-bayes", "dr"),
    ]


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        (["--policy", "ucbb"], "ucbb"),
        (["--policy", "ucb", "--options", "{"], "JSON"),
        (["--policy", "ucb", "--options", '{"ucb": 3}'], "--options"),
        (["--policy", "ucb", "--options", '{"lints": {}}'], "lints"),
        (["--policy", "ucb", "--estimator", "dm"], "dm"),
        (["--policy", "ucb", "--plot", "x.xyz"], "--plot"),
    ],
)
def test_errors_of_the_command_are_one_line(tmp_path, extra, expected, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["rolf", "replay", *files(tmp_path), *extra])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 1
    shown = capsys.readouterr().err
    assert shown.startswith("rolf: ")
    assert expected in shown


def test_replay_needs_no_probability(tmp_path):
    """A log from elsewhere, and one with only some probabilities."""
    log, arms = files(tmp_path)
    table = pandas.read_csv(log, dtype={"arm": str})
    with_chances = run(log, arms, "--policy", "ucb", "--estimator", "replay")
    table.drop(columns="probability").to_csv(log, index=False)
    without = run(log, arms, "--policy", "ucb", "--estimator", "replay")
    assert without.exit_code == 0, without.output
    assert without.stdout == with_chances.stdout
    exported = str(tmp_path / "exported.csv")
    table.head(401).assign(probability=[None] * 400 + [1.0]).to_csv(exported, index=False)
    done = run(exported, arms, "--policy", "ucb", "--estimator", "replay")
    assert done.exit_code == 0, done.output
    everything = run(exported, arms, "--policy", "ucb")
    assert "ips, snips, dr left out: log: got 'no probability for 400 of" in everything.output
    assert "replay" in everything.output
    refused = run(exported, arms, "--policy", "ucb", "--estimator", "ips").exception
    assert 'only the estimator "replay" works' in str(refused)


def test_a_contextual_log_needs_probabilities(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text(OWN.replace("0.25,2024", ",2024").replace(",,,", ",2,3,"))
    arms = read_arms_of(tmp_path, "arm,size\n07,0\na,0\n")
    with pytest.raises(rolf.RolfError, match="no probability for 1 of its decisions"):
        rolf.replay(path, arms, ["rolf-varying"], estimators=["replay"])


def test_a_missing_log_is_said(tmp_path, monkeypatch, capsys):
    arms = files(tmp_path)[1]
    monkeypatch.setattr("sys.argv", ["rolf", "replay", "none.csv", arms, "--policy", "ucb"])
    with pytest.raises(SystemExit):
        main()
    assert "none.csv: cannot be read (No such file" in capsys.readouterr().err
