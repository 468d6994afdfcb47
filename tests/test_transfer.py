"""Export and import of logs, and files that cannot be read."""

from __future__ import annotations

import csv
import uuid

import numpy as np
import pyarrow.parquet as pq
import pytest

import rolf
from helpers import FEATURES, LETTERS
from rolf.errors import DifferentExperiment, ExperimentError, InvalidArgument, RolfError
from rolf.evaluation.logs import read_log
from rolf.experiments.transfer import export_log, import_log
from rolf.testing.storage import (
    create_experiment,
    current_state,
    folded_state,
    play,
    round_features,
)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("policy", ["rolf-ridge", "rolf-bayes", "rolf-varying", "lints"])
def test_an_exported_log_is_imported_unchanged(url, policy, kind, tmp_path):
    experiment = create_experiment(url, policy=policy)
    waiting = experiment.ask(4, **round_features(experiment))
    play(experiment, 20)
    experiment.tell(waiting[1], 3.0)
    file = tmp_path / f"log.{kind}"
    assert export_log(experiment, file) == 24
    settings = {} if kind == "parquet" else {"features": FEATURES, "policy": policy, "seed": 4}
    again = import_log(url, "again", file, **settings)
    assert current_state(again).state == folded_state(experiment).state
    assert again.status().waiting == 3
    again.tell(waiting[0].id, 1.0)
    one, two = (each.ask(**round_features(each)) for each in (experiment, again))
    assert one.id == two.id
    with pytest.raises(DifferentExperiment, match="'again' already"):
        import_log(url, "again", file, **settings)
    log = read_log(file)
    assert len(log) == 21
    assert log.unrewarded == 3


def test_a_log_is_imported_with_its_arms(tmp_path):
    url = "memory://travel"
    experiment = create_experiment(url, features=LETTERS, policy="ucb", reward_after=10.0)
    now = 0.0
    experiment._now = lambda: now
    for _ in range(20):
        experiment.tell(experiment.ask(), 1.0)
    waiting = experiment.ask(3)
    now += 20.0
    experiment.status()
    experiment.tell(waiting[0], 2.0)
    experiment.add_arms(LETTERS[:1].rename(index={"a": "new"}))
    experiment.retire_arms(["b"])
    experiment.status()
    file = tmp_path / "log.parquet"
    export_log(experiment, file)
    data = pq.read_table(file).to_pydict()
    assert data["is_default"].count(True) == 2
    again = import_log(url, "again", file)
    status = again.status()
    assert status.defaults == 2
    assert [each.arm for each in status.arms] == [*"abcdef", "new"]
    assert [each.active for each in status.arms] == [True, False] + [True] * 5
    assert np.allclose(again._replica.state.belief.sums, experiment._replica.state.belief.sums)
    other = import_log(url, "other", file, policy="rolf-ridge", seed=9)
    assert other.policy == "rolf-ridge"
    with pytest.raises(InvalidArgument, match="default_reward"):
        import_log(url, "more", file, default_reward=3.0)


def test_unreadable_logs(tmp_path):
    url = "memory://unreadable"
    experiment = create_experiment(url, policy="ucb")
    play(experiment, 3)
    good = tmp_path / "log.csv"
    export_log(experiment, good)
    with pytest.raises(InvalidArgument, match="features"):
        import_log(url, "x", good)
    with pytest.raises(InvalidArgument, match="ends in"):
        export_log(experiment, tmp_path / "log.txt")
    with pytest.raises(RolfError, match="cannot be read"):
        import_log(url, "x", tmp_path / "none.csv", features=FEATURES)
    with pytest.raises(RolfError, match="cannot be written"):
        export_log(experiment, tmp_path / "none" / "log.csv")
    lines = good.read_text().splitlines()
    for wrong in (
        ["arm,reward", "1,2"],
        [lines[0], lines[1], lines[1]],
        [lines[0], lines[1].replace("-1", "+1")],
        [lines[0].replace('"arm"', '"arms"'), lines[1]],
    ):
        bad = tmp_path / "bad.csv"
        bad.write_text("\n".join(wrong) + "\n")
        with pytest.raises(InvalidArgument):
            import_log(url, "x", bad, features=FEATURES)
    with pytest.raises(InvalidArgument, match="an arm of the features"):
        import_log(url, "x", good, features=LETTERS)
    assert rolf.list_experiments(url) == ["one"]


def write_rows(path, rows):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("reward", "abc"),
        ("reward", "2020-01-01"),
        ("probability", "-3"),
        ("probability", "x"),
        ("asked_at", "yesterday"),
        ("clocks", "abc"),
        ("clocks", "0.5"),
        ("clocks", "99999"),
        ("asked_order", "x"),
        ("told_order", "0"),
        ("matched", "perhaps"),
        ("id", "t-99999999999999999999"),
    ],
)
def test_a_log_with_a_wrong_value_is_refused(column, value, tmp_path):
    experiment = create_experiment("memory://values", uuid.uuid4().hex, policy="ucb")
    play(experiment, 2)
    log = tmp_path / "log.csv"
    export_log(experiment, log)
    with log.open(newline="") as file:
        rows = list(csv.DictReader(file))
    rows[1][column] = value
    write_rows(log, rows)
    with pytest.raises(InvalidArgument, match=column):
        import_log("memory://wrong", "x", log, features=FEATURES, policy="ucb")
    assert rolf.list_experiments("memory://wrong") == []


def test_a_log_is_imported_only_into_a_policy_that_accepts_its_rewards(tmp_path):
    experiment = create_experiment("memory://range", uuid.uuid4().hex, policy="ucb")
    experiment.tell(experiment.ask(), -3.0)
    log = tmp_path / "log.parquet"
    export_log(experiment, log)
    with pytest.raises(InvalidArgument, match=r"reward: got -3\.0, wanted .*from 0 to 1"):
        import_log("memory://range-copy", "x", log, policy="beta-ts")
    assert rolf.list_experiments("memory://range-copy") == []
    import_log("memory://range-copy", "x", log, policy=rolf.UCB)


def test_round_features_that_are_not_numbers_are_refused(tmp_path):
    experiment = create_experiment("memory://rounds", uuid.uuid4().hex, policy="rolf-varying")
    play(experiment, 3)
    log = tmp_path / "log.csv"
    export_log(experiment, log)
    with log.open(newline="") as file:
        rows = list(csv.DictReader(file))
    for value, error, words in (
        ("abc", InvalidArgument, "features of row 1"),
        ("inf", InvalidArgument, "features of row 1"),
        ("", ExperimentError, "lacks features of some arms"),
    ):
        rows[1]["x_2_1"] = value
        write_rows(log, rows)
        with pytest.raises(error, match=words):
            import_log("memory://bad", "x", log, features=FEATURES, policy="rolf-varying")
    assert rolf.list_experiments("memory://bad") == []
