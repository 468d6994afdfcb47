"""Invalid input to a diagnosis, and ``rolf diagnose`` as users run it."""

from __future__ import annotations

import json

import numpy as np
import pandas
import pytest

import rolf
from rolf.arms.reading import read_arms
from support.commands import invoke
from support.diagnosing import diagnose


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"features": [[1.0]]}, "features"),
        ({"features": [[1.0], [np.nan]]}, "features"),
        ({"features": "x"}, "features"),
        ({"arms": [0, 1, 2]}, "features"),
        ({"arms": [0, 1]}, "rewards"),
        ({"arms": "abc"}, "arms"),
        ({"arms": 3}, "arms"),
        ({"rewards": [1.0, "x", 2.0]}, "rewards"),
        ({"rewards": [1.0, np.inf, 2.0]}, "rewards"),
        ({"rewards": []}, "rewards"),
        ({"rewards": 1.0}, "rewards"),
        ({"level": 1.0}, "level"),
        ({"level": "high"}, "level"),
    ],
)
def test_wrong_arguments_are_named(change, named):
    good = {"features": [[1.0], [2.0]], "arms": [0, 1, 1], "rewards": [1.0, 2.0, 3.0]}
    with pytest.raises(rolf.RolfError, match=f"^{named}: "):
        diagnose(**{**good, **change})


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(9)
    features = rng.standard_normal((12, 2))
    means = features @ [1.0, -0.5] + rng.standard_normal(12)
    table = pandas.DataFrame(features, columns=["size", "price"])
    table.insert(0, "item", np.arange(100, 112))  # names that look like numbers
    table.to_csv(tmp_path / "items.csv", index=False)
    arms = np.repeat(np.arange(12), 20)
    rewards = means[arms] + rng.standard_normal(240)
    log = pandas.DataFrame(
        {"arm": 100 + arms, "reward": rewards, "click": rewards > 0, "word": "x"}
    )
    log.loc[[0, 5], "reward"] = None
    log.to_csv(tmp_path / "log.csv", index=False)
    log.to_parquet(tmp_path / "log.parquet")
    return tmp_path


def run(*args):
    return invoke("diagnose", *args)


@pytest.mark.parametrize("log", ["log.csv", "log.parquet"])
def test_command(files, log):
    done = run(files / log, files / "items.csv", "--plot", files / "picture.png")
    assert done.exit_code == 0, done.output
    assert "verdict: " in done.output
    assert "238 rewards, 12 of 12 arms" in done.output
    assert "2 rows of the log have no reward" in done.output
    assert (files / "picture.png").stat().st_size > 1000


def test_command_prints_json(files):
    done = run(files / "log.csv", files / "items.csv", "--reward", "click", "--json")
    data = json.loads(done.output)
    assert data["rewards"] == 240
    assert data["arms"][0]["arm"] == "100"
    assert data["without_reward"] == 0


def test_tests_are_shown_for_arms_chosen_at_random(files):
    """With the option, or a column of probabilities; a column with gaps does not count."""
    plain = ("log.csv", "items.csv", "--json")
    log = pandas.read_csv(files / "log.csv").assign(probability=1 / 12, sure=1.0)
    log.to_csv(files / "chances.csv", index=False)
    log.loc[[3], "probability"] = None
    log.to_csv(files / "gaps.csv", index=False)
    for args, tested in (
        (plain, False),
        ((*plain, "--randomised"), True),
        (("chances.csv", *plain[1:]), True),
        (("chances.csv", *plain[1:], "--probability", "sure"), False),
        (("gaps.csv", *plain[1:]), False),
    ):
        done = run(files / args[0], files / args[1], *args[2:])
        data = json.loads(done.output)
        assert data["randomised"] is tested
        assert (data["lack_of_fit"] is not None) is tested


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_features_are_read_as_in_the_other_commands(files, kind):
    """Columns of text, and names that are not in the first column and are kept verbatim."""
    table = pandas.read_csv(files / "items.csv", dtype={"item": str})
    table["colour"] = ["red", "blue", "green"] * 4
    table = table[["size", "colour", "price"]].assign(id="0" + table["item"])
    log = pandas.read_csv(files / "log.csv", dtype={"arm": str})
    log["arm"] = "0" + log["arm"]
    log.to_csv(files / "log.csv", index=False)
    if kind == "csv":
        table.to_csv(files / "mixed.csv", index=False)
    else:
        table.to_parquet(files / "mixed.parquet")
    done = run(files / "log.csv", files / f"mixed.{kind}", "--json")
    assert done.exit_code == 0, done.output
    data = json.loads(done.output)
    assert (data["rewards"], data["rank"]) == (238, 4)  # with an intercept, red + green + blue = 1
    assert data["arms"][0]["arm"] == "0100"
    arms = read_arms(files / f"mixed.{kind}")
    assert arms.columns == ["size", "colour=blue", "colour=green", "colour=red", "price"]
    rewarded = log.dropna(subset="reward")
    diagnosis = diagnose(arms, rewarded["arm"], rewarded["reward"])
    assert diagnosis.verdict == data["verdict"]
    assert diagnosis.share.estimate == data["share"]["estimate"]


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (("none.csv", "items.csv"), "none.csv: cannot be read"),
        (("log.csv", "none.csv"), "none.csv: cannot be read"),
        (("log.csv", "items.csv", "--arm", "ad"), "--arm: got 'ad'"),
        (("log.csv", "items.csv", "--reward", "gain"), "--reward: got 'gain'"),
        (("log.csv", "items.csv", "--probability", "p"), "--probability: got 'p'"),
        (("log.csv", "items.csv", "--probability", "word"), "log.csv: word: got"),
        (("log.csv", "gap.csv", "--missing", "error"), "gap.csv: size: got 'nothing in row 3'"),
        (("log.csv", "gap.csv", "--missing", "no"), "--missing: got 'no'"),
        (("log.csv", "twice.csv"), "twice.csv: item: got '100 twice, in rows 2, 3'"),
        (("log.csv", "items.csv", "--reward", "word"), "log.csv: word: got \"'x' in row 2, 3"),
        (("log.csv", "few.csv"), "log.csv: arm: got \"'102' in row 42\""),
        (("log.csv", "thin.csv"), "at least one feature"),
        (("empty.csv", "items.csv"), "empty.csv"),
        (("log.csv", "items.csv", "--level", "2"), "level"),
        (("log.csv", "items.csv", "--plot", "x.xyz"), "path"),
    ],
)
def test_errors_of_the_command(files, args, expected, monkeypatch):
    (files / "twice.csv").write_text("item,size\n100,1\n100,2\n")
    (files / "gap.csv").write_text("item,size\n100,1\n101,\n")
    (files / "few.csv").write_text("item,size\n100,1\n101,2\n")
    (files / "thin.csv").write_text("item\n100\n101\n")
    (files / "empty.csv").write_text("")
    monkeypatch.chdir(files)
    done = run(*args)
    assert isinstance(done.exception, rolf.RolfError), done.output
    assert expected in str(done.exception)
