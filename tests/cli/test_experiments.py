"""Experiments on the command line."""

from __future__ import annotations

import csv
import json
import math
import subprocess
import sys

import numpy as np
import pytest

import rolf
from rolf.errors import (
    AlreadyTold,
    DifferentExperiment,
    ExperimentPaused,
    InvalidArgument,
    MissingExtra,
    UnknownDecision,
    UnknownExperiment,
    UnknownPolicy,
)
from rolf.experiments.database import Database
from support.commands import invoke, run
from support.stores import quick_folder

ITEMS = "item,width,length\na,1.0,0.5\nb,0.2,1.5\nc,2.0,1.0\nd,0.4,0.3\n"


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
    assert "5 asked, 3 told, 2 pending" in shown
    assert "90% interval" in shown
    status = json.loads(run("status", url, "ads", "--json"))
    assert (status["asked"], status["told"], status["policy"]) == (5, 3, policy)
    for kind in ("csv", "parquet"):
        log = tmp_path / f"log.{kind}"
        assert "5 decisions" in run("export", url, "ads", log)
        words = ("--features", items, "--policy", policy, "--seed", 3)
        assert "5 rows, 3 learned; 3 rounds of history" in run("import", url, kind, log, *words)
        again = json.loads(run("status", url, kind, "--json"))
        for one, other in zip(again["arms"], status["arms"], strict=True):
            assert (one["arm"], one["history"]) == (other["arm"], other["told"])
            assert one["estimate"] == pytest.approx(other["estimate"])
    assert Database(url).names() == ["ads", "csv", "parquet"]


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
def test_wrong_arguments(files, words, error, match):
    items, url = files
    run("new", url, "x", "--features", items, "--policy", "ucb")
    actual = [{"URL": url, "ITEMS": items}.get(word, word) for word in words]
    with pytest.raises(error, match=match):
        run(*actual, ok=False)


def rewards_file(folder, text):
    path = folder / "rewards.csv"
    path.write_text(text)
    return path


def test_repeated_rewards_are_counted_as_not_new(files, tmp_path):
    items, url = files
    run("new", url, "x", "--features", items, "--policy", "ucb")
    ids = [each["id"] for each in json.loads(run("ask", url, "x", "-n", 3, "--json"))]
    run("tell", url, "x", ids[0], 1)
    assert run("tell", url, "x", ids[0], 1) == "told: 1 reward, 0 new\n"
    rows = "".join(f" {id} , {i + 1}\n" for i, id in enumerate(ids))  # blanks do not matter
    path = rewards_file(tmp_path, f"id, reward\n{rows}")
    assert run("tell", url, "x", "--csv", path) == "told: 3 rewards, 2 new\n"
    german = rewards_file(tmp_path, f"id;reward\n{ids[0]};1,0\n{ids[1]};2,0\n")
    assert run("tell", url, "x", "--csv", german) == "told: 2 rewards, 0 new\n"


@pytest.mark.parametrize("reward", ["-1", "-0.5", "-1e-3"])
def test_a_reward_may_be_negative(files, reward):
    items, url = files
    run("new", url, "x", "--features", items, "--policy", "ucb")
    asked = json.loads(run("ask", url, "x", "--json"))[0]
    run("tell", url, "x", asked["id"], reward)
    estimates = {
        each["arm"]: each for each in json.loads(run("status", url, "x", "--json"))["arms"]
    }
    assert estimates[asked["arm"]]["estimate"] == float(reward)
    assert invoke("tell", url, "x", "--cvs", "rewards.csv").exit_code == 2


@pytest.mark.parametrize(
    ("text", "error", "match"),
    [
        ("id,reward\n", InvalidArgument, "no rows"),
        ("", InvalidArgument, "no rows"),
        ("id,reward\nID,1\n\nnone-7,1\n", UnknownDecision, "line 4: decision 'none-7'"),
        ("id,reward\nTOLD,3\n", AlreadyTold, r"rewards\.csv, line 2: decision"),
        ("id,reward\nID,1\nID\n", InvalidArgument, "line 3"),
    ],
)
def test_errors_in_a_file_of_rewards_name_the_line(files, tmp_path, text, error, match):
    items, url = files
    run("new", url, "x", "--features", items, "--policy", "ucb")
    told, open_ = (each["id"] for each in json.loads(run("ask", url, "x", "-n", 2, "--json")))
    run("tell", url, "x", told, 1)
    path = rewards_file(tmp_path, text.replace("ID", open_).replace("TOLD", told))
    with pytest.raises(error, match=match):
        run("tell", url, "x", "--csv", path, ok=False)
    assert "1 told" in run("status", url, "x")


def test_what_an_experiment_earned(files, tmp_path):
    items, url = files
    run("new", url, "ads", "--features", items, "--policy", "rolf-lasso", "--seed", 3)
    asked = json.loads(run("ask", url, "ads", "-n", 40, "--json"))
    rewards = tmp_path / "rewards.csv"
    lines = [f"{each['id']},{'abcd'.index(each['arm'])}" for each in asked]
    rewards.write_text("\n".join(["id,reward", *lines]))
    run("tell", url, "ads", "--csv", rewards)
    picture = tmp_path / "deep" / "status.png"
    shown = run("status", url, "ads", "--top", 2, "--control", "b", "--plot", picture, "--timeline")
    assert picture.stat().st_size > 10_000
    total = sum("abcd".index(each["arm"]) for each in asked)
    assert f"total reward: {total}, " in shown
    assert "per decision against b (90% interval" in shown
    assert "rolf-lasso has no intervals" in shown
    assert "and 2 more arms" in shown
    assert "rewards over time" in shown
    assert "31 to 40" in shown
    assert f"written: {picture}" in shown
    now = json.loads(run("status", url, "ads", "--control", "b", "--timeline", "--json"))
    assert now["uplift"]["control"] == "b"
    assert now["posterior_of"] == "rolf-bayes"
    assert sum(period["rewards"] for period in now["timeline"]) == 40
    assert json.loads(run("status", url, "ads", "--json"))["timeline"] is None
    assert "against a uniform share" in run("status", url, "ads")
    with pytest.raises(InvalidArgument, match=r"--control.*'z'.*'a', 'b', 'c', 'd'"):
        run("status", url, "ads", "--control", "z", ok=False)
    with pytest.raises(InvalidArgument, match=r"\.png, \.svg or \.pdf"):
        run("status", url, "ads", "--plot", tmp_path / "x.txt", ok=False)


@pytest.mark.parametrize("command", ["ask", "status", "arms"])
def test_an_unknown_name_lists_the_known_names(files, command):
    items, url = files
    with pytest.raises(UnknownExperiment, match="'spring'; this database has none"):
        run(command, url, "spring", ok=False)
    for name in ("summer", "autumn"):
        run("new", url, name, "--features", items, "--policy", "ucb")
    with pytest.raises(UnknownExperiment, match=r"'spring'; there are .*autumn"):
        run(command, url, "spring", ok=False)


def test_unknown_policies_and_options_list_the_known_ones(files, tmp_path):
    items, url = files
    new = ("new", url, "x", "--features", items)
    with pytest.raises(UnknownPolicy, match="did you mean 'rolf-lasso'"):
        run(*new, "--policy", "rolf-laso", ok=False)
    words = ("--policy", "rolf-ridge", "--options", '{"explorations": 3}')
    match = "options: got 'explorations', wanted an option of rolf-ridge, one of .*'exploration'"
    with pytest.raises(InvalidArgument, match=match):
        run(*new, *words, ok=False)
    log = tmp_path / "log.csv"
    log.write_text("arm,reward\na,1\n")
    words = ("--features", items, "--policy", "ucb", "--options", '{"none": 3}')
    with pytest.raises(InvalidArgument, match=r"^--options: .*one of .*setting"):
        run("import", url, "y", log, *words, ok=False)


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
    with rolf.open_experiment(url, "m") as experiment:
        for batch in range(30):
            asked = experiment.ask_many(4)
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
    diagnosis = json.loads(run("diagnose", log, items, "--json"))
    assert (diagnosis["rewards"], diagnosis["without_reward"]) == (119, 1)
    assert {each["arm"] for each in diagnosis["arms"]} == set(means)


@pytest.mark.parametrize("policy", ["ucb", "rolf-bayes"])
def test_the_log_of_a_deterministic_policy_can_only_be_replayed(files, tmp_path, policy):
    items, url = files
    run("new", url, "x", "--features", items, "--policy", policy, "--seed", 1)
    rng = np.random.default_rng(0)
    with rolf.open_experiment(url, "x") as experiment:
        for _ in range(80):
            asked = experiment.ask()
            experiment.tell(asked, "abcd".index(asked.arm) + 0.1 * rng.standard_normal())
    log = tmp_path / "log.parquet"
    run("export", url, "x", log)
    words = ("replay", log, items, "--policy", "ucb", "--policy", "rolf-ridge")
    shown = run(*words)
    assert "rolf-ridge: ips, snips, dr left out" in shown
    assert 'only the estimator "replay" can be used' in shown
    assert [line.split()[1] for line in shown.splitlines() if line.startswith("rolf-ridge ")] == [
        "replay"
    ]
    with pytest.raises(InvalidArgument, match='only the estimator "replay" can be used'):
        run("replay", log, items, "--policy", "rolf-ridge", "--estimator", "ips", ok=False)


def test_a_missing_driver_is_reported(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    for name in [each for each in sys.modules if each.startswith("rolf.experiments.storage.post")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(MissingExtra) as error:
        rolf.open_experiment("postgresql://nobody@localhost/none", "x", features=[[1.0], [2.0]])
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


def test_every_command_prints_json(files, tmp_path):
    items, url = files
    created = json.loads(run("new", url, "ads", "--features", items, "--policy", "ucb", "--json"))
    assert created == {"created": "ads", "policy": "ucb", "arms": list("abcd"), "features": 2}
    (asked,) = json.loads(run("ask", url, "ads", "--json"))
    assert json.loads(run("tell", url, "ads", asked["id"], 1, "--json")) == {"told": 1, "new": 1}
    assert json.loads(run("tell", url, "ads", asked["id"], 1, "--json")) == {"told": 1, "new": 0}
    log = tmp_path / "log.parquet"
    written = json.loads(run("export", url, "ads", log, "--json"))
    assert written == {"written": str(log), "decisions": 1}
    done = json.loads(run("import", url, "copy", log, "--features", items, "--json"))
    counts = {"rows": 1, "learned": 1, "pending": 0, "unknown": {}, "history": 1}
    assert done == {"imported": "copy", **counts}


def test_names_are_printed_verbatim(files):
    items, url = files
    items.write_text("item,width\n[/b]b,1.0\n[red]c,2.0\n")
    run("new", url, "ads", "--features", items, "--policy", "ucb")
    for command in ("ask", "status", "arms"):
        words = run(command, url, "ads", *(["-n", "20"] if command == "ask" else []))
        assert "[/b]b" in words
        assert "[red]c" in words


def test_pauses_and_keys(files):
    items, url = files
    run("new", url, "ads", "--features", items)
    first = run("ask", url, "ads", "--key", "a")
    assert run("ask", url, "ads", "--key", "a") == first
    assert run("pause", url, "ads") == "paused: ads\n"
    assert "; paused" in run("status", url, "ads")
    with pytest.raises(ExperimentPaused):
        run("ask", url, "ads", ok=False)
    assert run("resume", url, "ads") == "resumed: ads\n"
    assert run("ask", url, "ads") != first
    with pytest.raises(InvalidArgument, match="--key: got ''"):
        run("ask", url, "ads", "--key", "", ok=False)
