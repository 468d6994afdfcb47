"""Exports of logs, and other experiments that learn from them."""

from __future__ import annotations

import csv
import json
import uuid

import numpy as np
import pandas
import pyarrow.parquet as pq
import pytest

from rolf.errors import InvalidArgument, RolfError
from rolf.experiments.database import create
from rolf.experiments.roster import Roster
from rolf.experiments.storage.rows import DECISION, REWARD, Row
from rolf.logs.log import read_log
from rolf.testing.experiments import roster_of, rows_of
from rolf.testing.storage import create_experiment, play, round_features
from support.helpers import FEATURES, LETTERS


def exported(experiment, path):
    """The columns of an exported log, as Python has them."""
    experiment.export(path)
    if path.suffix == ".parquet":
        return pq.read_table(path).to_pydict()
    return pandas.read_csv(path, dtype={"arm": str, "greedy": str, "pseudo": str}).to_dict("list")


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("policy", ["rolf-ridge", "rolf-bayes", "rolf-varying", "lints"])
def test_a_log_is_exported_with_its_decisions(url, policy, kind, tmp_path):
    experiment = create_experiment(url, policy=policy)
    pending = experiment.ask_many(4, **round_features(experiment))
    play(experiment, 20)
    experiment.tell(pending[1], 3.0)
    file = tmp_path / f"log.{kind}"
    assert experiment.export(file) == 24
    rows = [row for row in rows_of(experiment) if row.kind == 1]
    data = exported(experiment, file)
    assert data["id"] == [f"{experiment.record.tag}-{row.number}" for row in rows]
    assert [int(arm) for arm in data["arm"]] == [row.arm for row in rows]
    assert [int(arm) for arm in data["greedy"]] == [row.greedy for row in rows]
    log = read_log(file)
    assert len(log) == 21
    assert log.unrewarded == 3
    assert 3.0 in log.rewards.tolist()


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_every_column_of_the_log_is_exported(kind, tmp_path):
    """Also values that policies hardly ever produce."""
    url = f"memory://columns-{kind}"
    rows = [
        Row(0, DECISION, 1, 10.0, 1, 0.25, 2, 3, False, 1),
        Row(0, DECISION, 2, 11.5, 4, None, 4, 5, True, 3),
    ]
    rows += [rows[0].rewarded(REWARD, 0.1 + 0.2, 12.25)]
    experiment = create(url, "one", Roster.read(FEATURES), policy="rolf-ridge", seed=4, rows=rows)
    file = tmp_path / f"log.{kind}"
    data = exported(experiment, file)
    tag = experiment.record.tag
    missing = data["probability"][1]
    assert missing is None or np.isnan(missing)
    first = {name: values[0] for name, values in data.items()}
    assert {name: str(value) for name, value in first.items()} == {
        "id": f"{tag}-1",
        "number": "1",
        "arm": "1",
        "probability": "0.25",
        "asked_at": "10.0",
        "reward": str(0.1 + 0.2),
        "told_at": "12.25",
        "is_default": "False",
        "greedy": "2",
        "pseudo": "3",
        "matched": "False",
        "clocks": "1",
        "asked_order": "1",
        "told_order": str(first["told_order"]),
    }
    assert first["told_order"] == 3
    assert [values[1] for name, values in data.items() if name in ("matched", "clocks")] == [
        True,
        3,
    ]


def test_names_of_several_types_are_exported_as_text(tmp_path):
    url = "memory://mixed"
    mixed = LETTERS.set_axis([1, 2, "three", "four", 5, 6.5])
    experiment = create_experiment(url, features=mixed, policy="ucb")
    experiment.tell(experiment.ask(available=[2]), 1.0)
    experiment.ask(available=["four"])
    file = tmp_path / "log.parquet"
    experiment.export(file)
    assert pq.read_table(file).column("arm").to_pylist() == ["2", "four"]
    assert read_log(file).arms == ["2"]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("names", [[1.0, 9.99, 1e300], [1, 2.5, "x"], [10**20, 2, 3]])
def test_arms_named_by_numbers_are_found_again(names, kind, tmp_path):
    arms = pandas.DataFrame(FEATURES[:3], index=pandas.Index(names, dtype=object))
    experiment = create_experiment("memory://named", uuid.uuid4().hex, features=arms, policy="ucb")
    experiment.tell_many({decision.id: 1.0 for decision in experiment.ask_many(9)})
    file = tmp_path / f"log.{kind}"
    experiment.export(file)
    copy = create_experiment("memory://named", uuid.uuid4().hex, features=arms, policy="ucb")
    assert copy.learn_file(file, "arm", "reward").learned == 9
    assert roster_of(copy).arms.labels == names
    told = [arm.told for arm in experiment.status().arms]
    assert [arm.history for arm in copy.status().arms] == told


def test_names_that_are_the_same_as_text_are_refused():
    """A log could not tell them apart."""
    two = pandas.DataFrame(FEATURES[:2], index=pandas.Index([3, "3"], dtype=object))
    with pytest.raises(InvalidArgument, match="differ as text"):
        create_experiment("memory://text", features=two)
    for known, new in ((3, "3"), ("3", 3)):
        arms = pandas.DataFrame(FEATURES[:2], index=pandas.Index([known, "x"], dtype=object))
        experiment = create_experiment("memory://text", uuid.uuid4().hex, features=arms)
        with pytest.raises(InvalidArgument, match="new arms"):
            experiment.add_arms(pandas.DataFrame(FEATURES[2:3], index=[new]))


def test_rounds_before_an_arm_was_added_have_no_features_of_it(tmp_path):
    url = "memory://added"
    experiment = create_experiment(url, policy="rolf-varying")
    play(experiment, 2)
    experiment.add_arms([[1.0, 2.0, 3.0]])
    more = np.vstack([FEATURES, [3.0, 2.0, 1.0]])
    experiment.ask(features=more)
    file = tmp_path / "log.parquet"
    experiment.export(file)
    table = pq.read_table(file)
    assert table.column("x_6_0").to_pylist() == [None, None, 3.0]
    assert table.column("x_5_0").to_pylist() == [FEATURES[5, 0]] * 3


def test_defaults_and_arms_that_came_later_are_exported(tmp_path):
    url = "memory://travel"
    experiment = create_experiment(url, features=LETTERS, policy="ucb", reward_after=10.0)
    now = 0.0
    experiment.synced.now = lambda: now
    for _ in range(20):
        experiment.tell(experiment.ask(), 1.0)
    pending = experiment.ask_many(3)
    now += 20.0
    experiment.status()
    experiment.tell(pending[0], 2.0)
    experiment.add_arms(LETTERS[:1].rename(index={"a": "new"}))
    experiment.retire_arms(["b"])
    experiment.status()
    file = tmp_path / "log.parquet"
    experiment.export(file)
    data = pq.read_table(file).to_pydict()
    assert data["is_default"].count(True) == 2
    log = read_log(file)
    assert (len(log), log.defaults, log.unrewarded) == (23, 2, 0)


def test_files_that_cannot_be_written_or_read(tmp_path):
    experiment = create_experiment("memory://unreadable", policy="ucb")
    play(experiment, 3)
    with pytest.raises(InvalidArgument, match="ends in"):
        experiment.export(tmp_path / "log.txt")
    with pytest.raises(RolfError, match="cannot be written"):
        experiment.export(tmp_path / "none" / "log.csv")
    with pytest.raises(RolfError, match="cannot be read"):
        experiment.learn_file(tmp_path / "none.csv", "arm", "reward")


# --- another experiment learns from it ---------------------------------------------------------


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("policy", ["rolf-ridge", "rolf-bayes", "ucb"])
def test_another_experiment_learns_from_an_export(url, policy, kind, tmp_path):
    """Pending decisions are left out; the same export is learned once."""
    experiment = create_experiment(url, features=LETTERS, policy=policy)
    pending = experiment.ask_many(4)
    for _ in range(30):
        experiment.tell(experiment.ask(), 0.5)
    experiment.tell(pending[1], 3.0)
    file = tmp_path / f"log.{kind}"
    experiment.export(file)
    other = create_experiment(url, "two", features=LETTERS, policy="rolf-ridge")
    learned = other.learn_file(file, "arm", "reward")
    assert learned == (34, 31, 3, {})
    assert other.learn_file(file, "arm", "reward").learned == 0
    status = other.status()
    assert (status.asked, status.told, status.history) == (0, 0, 31)
    told = {arm.arm: arm.told for arm in experiment.status().arms}
    assert {arm.arm: arm.history for arm in status.arms} == told


def test_arms_that_the_other_experiment_lacks(tmp_path):
    experiment = create_experiment("memory://lacks", features=LETTERS, policy="ucb")
    for arm in 2 * list("abcdef"):
        experiment.tell(experiment.ask(available=[arm]), 1.0)
    file = tmp_path / "log.parquet"
    experiment.export(file)
    fewer = create_experiment("memory://lacks", "two", features=LETTERS[:4], policy="ucb")
    with pytest.raises(InvalidArgument, match=r"2 unknown arms.*nothing was"):
        fewer.learn_file(file, "arm", "reward")
    assert rows_of(fewer) == []
    learned = fewer.learn_file(file, "arm", "reward", skip_unknown=True)
    assert learned == (12, 8, 0, {"e": 2, "f": 2})


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("reward", "abc"),
        ("reward", "2020-01-01"),
        ("reward", "1e308"),
        ("reward", "-1e101"),
        ("reward", "inf"),
        ("arm", ""),
        ("arm", "99"),
    ],
)
def test_a_wrong_value_is_refused(column, value, tmp_path):
    experiment = create_experiment("memory://wrong", uuid.uuid4().hex, policy="ucb")
    play(experiment, 3)
    log = tmp_path / "log.csv"
    experiment.export(log)
    with log.open(newline="") as file:
        rows = list(csv.DictReader(file))
    rows[1][column] = value
    with log.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    with pytest.raises(InvalidArgument, match=column):
        experiment.learn_file(log, "arm", "reward")
    assert experiment.status().history == 0


def test_a_log_is_learned_only_by_a_policy_that_accepts_its_rewards(tmp_path):
    experiment = create_experiment("memory://range", policy="ucb")
    experiment.tell(experiment.ask(), -3.0)
    log = tmp_path / "log.parquet"
    experiment.export(log)
    beta = create_experiment("memory://range", "two", policy="beta-ts")
    with pytest.raises(InvalidArgument, match="from 0 to 1"):
        beta.learn_file(log, "arm", "reward")
    assert rows_of(beta) == []
    ucb = create_experiment("memory://range", "three", policy="ucb")
    assert ucb.learn_file(log, "arm", "reward").learned == 1


def test_a_streamed_log_is_learned_too(tmp_path):
    from rolf.experiments.transfer.streaming import stream_log

    experiment = create_experiment("memory://streamed", policy="ucb")
    play(experiment, 5)
    experiment.ask()
    file = tmp_path / "log.csv"
    file.write_text("".join(stream_log(experiment, "csv")))
    other = create_experiment("memory://streamed", "two", policy="ucb")
    assert other.learn_file(file, "arm", "reward") == (6, 5, 1, {})
    lines = [json.loads(line) for line in "".join(stream_log(experiment, "json")).splitlines()]
    assert [line["reward"] for line in lines][-1] is None
