"""Logs on the command line: learning from a table, corrections, and exports."""

from __future__ import annotations

import json

import numpy as np
import pandas
import pyarrow.parquet as pq
import pytest

import rolf
from cli.test_experiments import ITEMS
from rolf.errors import (
    DifferentExperiment,
    ExperimentError,
    InvalidArgument,
    RolfError,
    UnknownExperiment,
    UntoldDecision,
)
from rolf.experiments.database import Database
from rolf.logs.log import read_log
from rolf.testing.experiments import rows_of
from rolf.testing.storage import create_experiment, play
from support.commands import run
from support.stores import quick_folder

CLICKS = pandas.DataFrame(
    {
        "day": range(400),
        "product": np.random.default_rng(0).choice(list("abcd"), 400),
        "clicked": np.random.default_rng(1).integers(0, 2, 400),
    }
)


@pytest.fixture
def files(tmp_path):
    items, clicks = tmp_path / "items.csv", tmp_path / "clicks.csv"
    items.write_text(ITEMS)
    CLICKS.to_csv(clicks, index=False)
    return items, clicks, f"sqlite:///{quick_folder('rolf-cli')}/x.db"


COLUMNS = ("--arm", "product", "--reward", "clicked")


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_an_analyst_starts_from_a_log_of_clicks(files, tmp_path, kind):
    items, _, url = files
    log = tmp_path / f"log.{kind}"
    CLICKS.to_parquet(log) if kind == "parquet" else CLICKS.to_csv(log, index=False)
    words = ("--features", items, "--policy", "rolf-lasso")
    out = run("import", url, "shop", log, *COLUMNS, *words)
    assert "400 rows, 400 learned; 400 rounds of history in shop" in out
    assert "nothing new, already imported" in run("import", url, "shop", log, *COLUMNS)
    status = json.loads(run("status", url, "shop", "--json"))
    assert (status["asked"], status["told"], status["history"]) == (0, 0, 400)
    counts = CLICKS["product"].value_counts()
    assert {arm["arm"]: arm["history"] for arm in status["arms"]} == counts.to_dict()
    rates = CLICKS.groupby("product")["clicked"].mean()
    assert all(abs(arm["estimate"] - rates[arm["arm"]]) < 0.1 for arm in status["arms"])
    assert "400 rounds of history" in run("status", url, "shop")
    with rolf.open_experiment(url, "shop") as experiment:
        experiment.ask_many(30)
        assert (
            experiment.synced.replica.state.clock.tolist()[1] == 8
        )  # the two initial rounds per arm are done


def test_history_for_an_experiment_that_exists(files, tmp_path):
    items, clicks, url = files
    run("new", url, "shop", "--features", items)
    more = tmp_path / "more.csv"
    CLICKS.head(100).replace({"product": {"a": "old", "b": "=gone"}}).to_csv(more, index=False)
    with pytest.raises(InvalidArgument, match=r"with 2 unknown arms.*'old' \(\d+\).*nothing was"):
        run("import", url, "shop", more, *COLUMNS, ok=False)
    assert json.loads(run("status", url, "shop", "--json"))["history"] == 0
    known = int(CLICKS.head(100)["product"].isin(["c", "d"]).sum())
    out = run("import", url, "shop", more, *COLUMNS, "--skip-unknown")
    assert f"100 rows, {known} learned" in out
    assert f"left out: {100 - known} rows of unknown arms: " in out
    assert "=gone (" in out
    done = json.loads(run("import", url, "shop", clicks, *COLUMNS, "--json"))
    assert done["learned"] == 400
    assert done["history"] == 400 + known
    clicks.write_text(clicks.read_text() + "401,a,1\n")
    with pytest.raises(ExperimentError, match=r"'clicks.csv' was learned already, with other"):
        run("import", url, "shop", clicks, *COLUMNS, ok=False)
    run("import", url, "shop", clicks, *COLUMNS, "--source", "new clicks")


def test_arms_that_are_numbers(tmp_path):
    url = f"sqlite:///{quick_folder('rolf-cli')}/x.db"
    create_experiment(url, policy="rolf-ridge").close()
    log = tmp_path / "log.csv"
    log.write_text("arm,reward\n0,0.5\n5,-1\n0,2.5\n")
    run("import", url, "one", log, "--arm", "arm", "--reward", "reward")
    arms = json.loads(run("status", url, "one", "--json"))["arms"]
    assert [arm["history"] for arm in arms] == [2, 0, 0, 0, 0, 1]


@pytest.mark.parametrize(
    ("text", "words", "error", "match"),
    [
        ("product,clicked\na,1\n", ("--arm", "product"), InvalidArgument, "'reward'"),
        ("product,clicked\na,1\n", ("--arm", "x", "--reward", "clicked"), InvalidArgument, "'x'"),
        ("product,clicked\n", COLUMNS, InvalidArgument, "at least one past round"),
        ("product,clicked\na,1\nb,\nc,yes\n", COLUMNS, InvalidArgument, "nothing in row 3, 4"),
        ("product,clicked\na,1\n,1\n", COLUMNS, InvalidArgument, "product: got 'nothing in row 3'"),
        ("product,clicked\nz,1\n", (*COLUMNS, "--skip-unknown"), InvalidArgument, "none"),
        ("product,clicked\na,1\n", ("--source", "x"), InvalidArgument, "'arm'"),
        ("product,clicked,clicked\na,1,1\n", COLUMNS, InvalidArgument, "twice"),
    ],
)
def test_logs_that_are_refused(files, tmp_path, text, words, error, match):
    items, _, url = files
    run("new", url, "shop", "--features", items)
    log = tmp_path / "log.csv"
    log.write_text(text)
    with pytest.raises(error, match=match):
        run("import", url, "shop", log, *words, ok=False)
    with rolf.open_experiment(url, "shop") as experiment:
        assert rows_of(experiment) == []


def test_experiments_that_do_not_fit(files):
    items, clicks, url = files
    run("new", url, "shop", "--features", items)
    with pytest.raises(UnknownExperiment, match="there are shop"):
        run("import", url, "none", clicks, *COLUMNS, ok=False)
    with pytest.raises(RolfError, match="cannot be read"):
        run("import", url, "shop", "none.csv", *COLUMNS, ok=False)
    with pytest.raises(DifferentExperiment, match="policy"):
        run("import", url, "shop", clicks, *COLUMNS, "--policy", "ucb", ok=False)
    words = ("--features", items, "--policy", "rolf-varying")
    with pytest.raises(InvalidArgument, match="the features of each round"):
        run("import", url, "varying", clicks, *COLUMNS, *words, ok=False)
    assert Database(url).names() == ["shop"]


def test_a_reward_is_corrected(files):
    items, _, url = files
    run("new", url, "shop", "--features", items, "--policy", "ucb")
    one, two = json.loads(run("ask", url, "shop", "-n", 2, "--json"))
    run("tell", url, "shop", one["id"], 70)
    out = run("correct", url, "shop", one["id"], "-0.7", "--reason", "the sign, and a comma")
    assert f"corrected: {one['id']}, -0.7" in out
    arms = json.loads(run("status", url, "shop", "--json"))["arms"]
    assert {arm["estimate"] for arm in arms} == {-0.7, 0.0}
    with pytest.raises(UntoldDecision, match=two["id"]):
        run("correct", url, "shop", two["id"], 1, "--reason", "x", ok=False)


def test_retired_arms_come_back(files):
    items, _, url = files
    run("new", url, "shop", "--features", items, "--policy", "ucb")
    assert run("arms", url, "shop", "--retire", "a", "--retire", "b") == "retired: a, b\n"
    run("ask", url, "shop", "-n", 20)
    assert run("arms", url, "shop", "--restore", "b") == "restored: b\n"
    arms = json.loads(run("arms", url, "shop", "--json"))
    assert [arm["active"] for arm in arms] == [False, True, True, True]
    asked = json.loads(run("ask", url, "shop", "-n", 100, "--json"))
    assert {each["arm"] for each in asked} == set("bcd")
    with pytest.raises(InvalidArgument, match="--restore"):
        run("arms", url, "shop", "--restore", "z", ok=False)


# --- export ------------------------------------------------------------------------------------


def amended(url, **settings):
    """An experiment whose log has every kind of entry."""
    experiment = create_experiment(url, **settings)
    more = {"features": np.ones((2, 3))} if "varying" in experiment.policy else {}
    experiment.learn([0, 1], [0.5, 0.25], source="before", **more)
    play(experiment, 15)
    rows = rows_of(experiment)
    tag = experiment.record.tag
    experiment.correct(f"{tag}-3", 0.125, "a slip")
    experiment.correct(f"{tag}-3", 0.25, "=1+1")
    experiment.correct(f"{tag}-7", 1e8, "large")
    experiment.correct(f"{tag}-7", 0.5, "not that large")
    experiment.learn([2, 2], [0.5, 0.25], **more)
    play(experiment, 5)
    assert len(rows) == 31
    return experiment


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("policy", ["rolf-bayes", "drlasso", "rolf-varying"])
def test_an_export_has_corrections_and_no_history(url, tmp_path, policy, kind):
    experiment = amended(url, policy=policy)
    file = tmp_path / f"log.{kind}"
    assert experiment.export(file) == 20
    assert read_log(file).rewards[2] == 0.25
    assert len(read_log(file)) == 20
    column = pq.read_table(file) if kind == "parquet" else pandas.read_csv(file)
    corrections = list(column["corrections"])
    shown = json.loads(str(corrections[2]))
    assert [(each["from"], each["to"], each["reason"]) for each in shown][1] == (
        0.125,
        0.25,
        "=1+1",
    )
    assert len(json.loads(str(corrections[6]))) == 2


def test_an_export_is_imported_like_any_table(files, tmp_path):
    items, _, url = files
    run("new", url, "shop", "--features", items, "--policy", "ucb")
    ids = [each["id"] for each in json.loads(run("ask", url, "shop", "-n", 5, "--json"))]
    for id in ids[:4]:
        run("tell", url, "shop", id, 1)
    log = tmp_path / "log.parquet"
    run("export", url, "shop", log)
    out = run("import", url, "again", log, "--features", items)
    assert "5 rows, 4 learned; 4 rounds of history in again" in out
    assert "left out: 1 row without a reward" in out
    done = json.loads(run("import", url, "again", log, "--json"))
    assert (done["learned"], done["pending"], done["history"]) == (0, 1, 4)
