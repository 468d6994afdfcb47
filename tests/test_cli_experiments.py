"""Experiments on the command line."""

from __future__ import annotations

import csv
import json
import math
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import rolf
from rolf.cli import app
from rolf.errors import (
    AlreadyTold,
    DifferentExperiment,
    InvalidArgument,
    MissingExtra,
    UnknownExperiment,
)
from stores import quick_folder

ITEMS = "item,width,length\na,1.0,0.5\nb,0.2,1.5\nc,2.0,1.0\nd,0.4,0.3\n"


def run(*words, ok=True):
    result = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "200"})
    if not ok:
        assert result.exception is not None
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def files(tmp_path):
    items = tmp_path / "items.csv"
    items.write_text(ITEMS)
    return items, f"sqlite:///{quick_folder('rolf-cli')}/x.db"


@pytest.mark.parametrize("policy", ["rolf-bayes", "ucb"])
def test_a_whole_experiment(files, tmp_path, policy):
    items, url = files
    out = run("new", url, "ads", "--features", items, "--policy", policy, "--seed", 3)
    assert "4 arms with 2 features" in out
    with pytest.raises(DifferentExperiment, match="already"):
        run("new", url, "ads", "--features", items, ok=False)
    asked = json.loads(run("ask", url, "ads", "-n", 3, "--json"))
    assert {each["arm"] for each in asked} <= set("abcd")
    assert asked[0]["id"] in run("ask", url, "ads").replace("-4", "-1")
    only = json.loads(run("ask", url, "ads", "--available", "b, c", "--json"))
    assert only[0]["arm"] in "bc"
    assert "told: 1 reward\n" in run("tell", url, "ads", asked[0]["id"], 1.5)
    with pytest.raises(AlreadyTold):
        run("tell", url, "ads", asked[0]["id"], 2, ok=False)
    rewards = tmp_path / "rewards.csv"
    with rewards.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "reward"])
        writer.writerows([[asked[1]["id"], 0.5], [asked[2]["id"], -1]])
    assert "told: 2 rewards" in run("tell", url, "ads", "--csv", rewards)
    shown = run("status", url, "ads")
    assert "5 asked, 3 told, 2 waiting" in shown
    assert ("90% interval" in shown) == (policy == "rolf-bayes")
    status = json.loads(run("status", url, "ads", "--json"))
    assert (status["asked"], status["told"], status["policy"]) == (5, 3, policy)
    for kind in ("csv", "parquet"):
        log = tmp_path / f"log.{kind}"
        assert "5 decisions" in run("export", url, "ads", log)
        more = [] if kind == "parquet" else ["--features", items, "--policy", policy, "--seed", 3]
        assert "5 asked, 3 told" in run("import", url, kind, log, *more)
        again = json.loads(run("status", url, kind, "--json"))
        assert again["arms"] == status["arms"]
    assert rolf.list_experiments(url) == ["ads", "csv", "parquet"]


def test_features_of_the_round(files, tmp_path):
    items, url = files
    run("new", url, "v", "--features", items, "--policy", "rolf-varying", "--options", '{"p": 0.7}')
    asked = json.loads(run("ask", url, "v", "--features", items, "--json"))
    run("tell", url, "v", asked[0]["id"], 1)
    assert json.loads(run("status", url, "v", "--json"))["options"]["p"] == 0.7
    assert "1 asked" in run("status", url, "v")


def test_default_rewards(files):
    items, url = files
    words = ("--default-reward", 0, "--reward-after", 0.0001, "--policy", "ucb")
    run("new", url, "d", "--features", items, *words)
    run("ask", url, "d", "-n", 2)
    assert "2 by default" in run("status", url, "d")


@pytest.mark.parametrize(
    ("words", "error", "match"),
    [
        (("ask", "URL", "none"), UnknownExperiment, "none"),
        (("tell", "URL", "x"), InvalidArgument, "--csv"),
        (("tell", "URL", "x", "id"), InvalidArgument, "reward"),
        (("ask", "URL", "x", "--available", "z"), InvalidArgument, "--available"),
        (("tell", "URL", "x", "--csv", "ITEMS"), InvalidArgument, "columns id and reward"),
        (("new", "URL", "y", "--features", "ITEMS", "--options", "p"), InvalidArgument, "JSON"),
        (("new", "URL", "y", "--features", "ITEMS", "--options", "[]"), InvalidArgument, "JSON"),
        (("export", "URL", "x", "log.txt"), InvalidArgument, "ends in"),
    ],
)
def test_wrong_words(files, words, error, match):
    items, url = files
    run("new", url, "x", "--features", items, "--policy", "ucb")
    given = [{"URL": url, "ITEMS": items}.get(word, word) for word in words]
    with pytest.raises(error, match=match):
        run(*given, ok=False)


MIXED = "size,colour,id\n1.0,red,01\n0.2,blue,02\n2.0,green,03\n0.4,red,04\n1.1,blue,05\n"


@pytest.mark.parametrize("kind", ["parquet", "csv"])
@pytest.mark.parametrize("policy", ["rolf-ridge", "lints"])
def test_an_exported_log_is_replayed_and_diagnosed_with_the_same_table(
    files, tmp_path, kind, policy
):
    items, url = files
    items.write_text(MIXED)
    run("new", url, "m", "--features", items, "--policy", policy, "--seed", 3)
    means = {"01": 0.3, "02": 0.5, "03": 0.1, "04": 0.9, "05": 0.4}
    rng = np.random.default_rng(0)
    with rolf.open(url, "m") as experiment:
        for batch in range(30):
            asked = experiment.ask(4)
            told = [(each, rng.normal(means[each.arm], 2.0)) for each in asked]
            experiment.tell_many(told[: 4 - (batch == 29)])  # one reward never comes
    log = tmp_path / f"log.{kind}"
    assert "120 decisions" in run("export", url, "m", log)
    words = ("--policy", "ucb", "--policy", "rolf-ridge", "--json")
    data = json.loads(run("replay", log, items, *words))
    assert data["decisions"] == 119
    assert any("1 decisions without a reward" in note for note in data["notes"])
    rows = {(row["policy"], row["estimator"]): row["value"] for row in data["rows"]}
    names = ("replay", "ips", "snips", "dr")
    assert set(rows) == {("as logged", "mean")} | {
        (each, name) for each in ("ucb", "rolf-ridge") for name in names
    }
    assert all(value is not None and math.isfinite(value) for value in rows.values())
    found = json.loads(run("diagnose", log, items, "--json"))
    assert (found["rewards"], found["without_reward"]) == (119, 1)
    assert {each["arm"] for each in found["arms"]} == set(means)


def test_a_missing_driver_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtra) as error:
        rolf.open("postgresql://nobody@localhost/none", "x", features=[[1.0], [2.0]])
    assert "pip install 'rolf-bandits[postgres]'" in str(error.value)


def test_a_missing_driver_is_one_line_on_the_command_line():
    code = """
import sys
sys.modules["psycopg"] = None
sys.argv = ["rolf", "status", "postgresql://nobody@localhost/none", "x"]
from rolf.cli import main
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("rolf: ")
    assert "pip install 'rolf-bandits[postgres]'" in done.stderr
    assert "Traceback" not in done.stderr
