"""Experiments on the command line."""

from __future__ import annotations

import csv
import json

import pytest
from typer.testing import CliRunner

import rolf
from rolf.cli import app
from rolf.errors import AlreadyTold, DifferentExperiment, InvalidArgument, UnknownExperiment
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
