"""Export and import of logs, and files that cannot be read."""

from __future__ import annotations

import csv
import json
import uuid

import numpy as np
import pandas
import pyarrow.parquet as pq
import pytest

import rolf
from rolf.errors import DifferentExperiment, ExperimentError, InvalidArgument, RolfError
from rolf.experiments.database import create
from rolf.experiments.roster import Roster
from rolf.experiments.storage.contract import DECISION, REWARD, Row
from rolf.experiments.transfer.export import export_log, import_log
from rolf.logs.log import read_log
from rolf.testing.experiments import roster_of, rows_of
from rolf.testing.storage import (
    create_experiment,
    current_state,
    folded_state,
    play,
    round_features,
)
from support.helpers import FEATURES, LETTERS


def contents(experiment):
    """The log without what is the database's own: sequence numbers and blanks in JSON."""
    rows = [row._replace(seq=0) for row in rows_of(experiment)]
    return [row._replace(features=row.features and json.loads(row.features)) for row in rows]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("policy", ["rolf-ridge", "rolf-bayes", "rolf-varying", "lints"])
def test_an_exported_log_is_imported_unchanged(url, policy, kind, tmp_path):
    experiment = create_experiment(url, policy=policy)
    waiting = experiment.ask_many(4, **round_features(experiment))
    play(experiment, 20)
    experiment.tell(waiting[1], 3.0)
    file = tmp_path / f"log.{kind}"
    assert export_log(experiment, file) == 24
    settings = {} if kind == "parquet" else {"features": FEATURES, "policy": policy, "seed": 4}
    again = import_log(url, "again", file, **settings)
    assert contents(again) == contents(experiment)
    assert current_state(again).state == folded_state(experiment).state
    assert again.status().pending == 3
    one, two = (each.ask_many(8, **round_features(each)) for each in (experiment, again))
    assert [each.id for each in one] == [each.id for each in two]
    assert [each.arm for each in one] == [each.arm for each in two]
    again.tell(waiting[0].id, 1.0)
    with pytest.raises(DifferentExperiment, match="'again' already"):
        import_log(url, "again", file, **settings)
    log = read_log(file)
    assert len(log) == 21
    assert log.unrewarded == 3


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_every_column_of_the_log_is_exported(kind, tmp_path):
    """Also values that policies hardly ever produce."""
    url = f"memory://columns-{kind}"
    rows = [
        Row.decision(1, 10.0, 1, 0.25, 2, 3, False, 1, None),
        Row.decision(2, 11.5, 4, None, 4, 5, True, 3, None),
    ]
    rows += [rows[0].rewarded(REWARD, 0.1 + 0.2, 12.25)]
    experiment = create(url, "one", Roster.read(FEATURES), policy="rolf-ridge", seed=4, rows=rows)
    file = tmp_path / f"log.{kind}"
    export_log(experiment, file)
    again = import_log(url, "again", file, features=FEATURES, policy="rolf-ridge")
    assert contents(again) == contents(experiment) == rows


def test_a_parquet_file_holds_the_settings(tmp_path):
    url = "memory://settings"
    settings = {"options": {"p": 0.9}, "default_reward": 0.5, "reward_after": 7.0, "seed": 8}
    experiment = create_experiment(url, **settings)
    play(experiment, 5)
    file = tmp_path / "log.parquet"
    export_log(experiment, file)
    same = import_log(url, "same", file)
    for field in ("policy", "options", "seed", "default_reward", "reward_after", "tag"):
        assert getattr(same.record, field) == getattr(experiment.record, field)
    other = import_log(url, "other", file, options={}, seed=9, reward_after=8.0)
    assert json.loads(other.record.options)["p"] == 0.6
    assert (other.record.seed, other.record.reward_after) == (9, 8.0)


def test_a_log_of_ids_arms_and_rewards_is_enough(tmp_path):
    """Every decision is followed by its reward, in the order of the numbers."""
    file = tmp_path / "log.csv"
    file.write_text("id,arm,reward\nt-3,2,0.5\nt-1,0,1.5\nt-2,1,\nt-4,0,2.5\n")
    experiment = import_log("memory://few", "x", file, features=FEATURES, policy="ucb")
    order = [(row.kind, row.number) for row in rows_of(experiment)]
    assert order == [
        (DECISION, 1),
        (REWARD, 1),
        (DECISION, 2),
        (DECISION, 3),
        (REWARD, 3),
        (DECISION, 4),
        (REWARD, 4),
    ]
    assert [row.greedy for row in rows_of(experiment) if row.kind == DECISION] == [0, 1, 2, 0]
    arms = experiment.status().arms
    assert [arm.told for arm in arms[:3]] == [2, 0, 1]
    assert [arm.estimate for arm in arms[:3]] == [2.0, 0.0, 0.5]
    assert experiment.ask().id == "t-5"


def test_names_of_several_types_are_exported_as_text(tmp_path):
    url = "memory://mixed"
    mixed = LETTERS.set_axis([1, 2, "three", "four", 5, 6.5])
    experiment = create_experiment(url, features=mixed, policy="ucb")
    experiment.tell(experiment.ask(available=[2]), 1.0)
    experiment.ask(available=["four"])
    file = tmp_path / "log.parquet"
    export_log(experiment, file)
    assert pq.read_table(file).column("arm").to_pylist() == ["2", "four"]
    again = import_log(url, "again", file)
    assert contents(again) == contents(experiment)
    assert roster_of(again).arms.labels == roster_of(experiment).arms.labels


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("names", [[1.0, 9.99, 1e300], [1, 2.5, "x"], [10**20, 2, 3]])
def test_arms_named_by_numbers_are_imported_as_they_were(names, kind, tmp_path):
    arms = pandas.DataFrame(FEATURES[:3], index=pandas.Index(names, dtype=object))
    experiment = create_experiment("memory://named", uuid.uuid4().hex, features=arms, policy="ucb")
    experiment.tell_many({decision.id: 1.0 for decision in experiment.ask_many(9)})
    file = tmp_path / f"log.{kind}"
    export_log(experiment, file)
    settings = {} if kind == "parquet" else {"features": arms, "policy": "ucb"}
    again = import_log("memory://named", uuid.uuid4().hex, file, **settings)
    assert contents(again) == contents(experiment)
    assert roster_of(again).arms.labels == names


def test_names_that_are_the_same_as_text_are_refused():
    """A log could not tell them apart."""
    two = pandas.DataFrame(FEATURES[:2], index=pandas.Index([3, "3"], dtype=object))
    with pytest.raises(InvalidArgument, match="differ as text"):
        create_experiment("memory://text", features=two)
    for known, new in ((3, "3"), ("3", 3)):
        arms = pandas.DataFrame(FEATURES[:2], index=pandas.Index([known, "x"], dtype=object))
        experiment = create_experiment("memory://text", uuid.uuid4().hex, features=arms)
        with pytest.raises(InvalidArgument, match="arms that are new"):
            experiment.add_arms(pandas.DataFrame(FEATURES[2:3], index=[new]))


def test_rounds_before_an_arm_was_added_have_no_features_of_it(tmp_path):
    url = "memory://added"
    experiment = create_experiment(url, policy="rolf-varying")
    play(experiment, 2)
    experiment.add_arms([[1.0, 2.0, 3.0]])
    more = np.vstack([FEATURES, [3.0, 2.0, 1.0]])
    experiment.ask(features=more)
    file = tmp_path / "log.parquet"
    export_log(experiment, file)
    table = pq.read_table(file)
    assert table.column("x_6_0").to_pylist() == [None, None, 3.0]
    assert table.column("x_5_0").to_pylist() == [FEATURES[5, 0]] * 3
    with pytest.raises(ExperimentError, match="lacks features of some arms"):
        import_log(url, "again", file)


def test_a_log_is_imported_with_its_arms(tmp_path):
    url = "memory://travel"
    experiment = create_experiment(url, features=LETTERS, policy="ucb", reward_after=10.0)
    now = 0.0
    experiment.synced.now = lambda: now
    for _ in range(20):
        experiment.tell(experiment.ask(), 1.0)
    waiting = experiment.ask_many(3)
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
    assert np.allclose(
        again.synced.replica.state.belief.sums, experiment.synced.replica.state.belief.sums
    )
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
    other = lines[2].replace(experiment.record.tag, "other")
    for wrong, words in (
        (["arm,reward", "1,2"], "columns: .*id too"),
        ([lines[0], lines[1], lines[1]], "each decision of one experiment once"),
        ([lines[0], lines[1], other], "each decision of one experiment once"),
        ([lines[0], lines[1].replace("-1", "+1")], "ids of decisions that rolf issued"),
        ([lines[0].replace('"arm"', '"arms"'), lines[1]], "columns: .*arm too"),
    ):
        bad = tmp_path / "bad.csv"
        bad.write_text("\n".join(wrong) + "\n")
        with pytest.raises(InvalidArgument, match=words):
            import_log(url, "x", bad, features=FEATURES, policy="ucb")
    with pytest.raises(InvalidArgument, match="an arm of the features"):
        import_log(url, "x", good, features=LETTERS, policy="ucb")
    assert rolf.list_experiments(url) == ["one"]


def write_rows(path, rows):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def exported_rows(folder, policy, rounds):
    """A CSV file with the log of some rounds, and its rows."""
    experiment = create_experiment("memory://exported", uuid.uuid4().hex, policy=policy)
    play(experiment, rounds)
    log = folder / "log.csv"
    export_log(experiment, log)
    with log.open(newline="") as file:
        return log, list(csv.DictReader(file))


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
    log, rows = exported_rows(tmp_path, "ucb", 2)
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
    with pytest.raises(
        InvalidArgument, match=r"reward: got .-3\.0 in row 1., wanted .*from 0 to 1"
    ):
        import_log("memory://range-copy", "x", log, policy="beta-ts")
    assert rolf.list_experiments("memory://range-copy") == []
    import_log("memory://range-copy", "x", log, policy=rolf.UCB)


def test_round_features_that_are_not_numbers_are_refused(tmp_path):
    log, rows = exported_rows(tmp_path, "rolf-varying", 3)
    for value, error, words in (
        ("abc", InvalidArgument, "features of row 3"),
        ("inf", InvalidArgument, "features of row 3"),
        ("", ExperimentError, "lacks features of some arms"),
    ):
        rows[1]["x_2_1"] = value
        write_rows(log, rows)
        with pytest.raises(error, match=words):
            import_log("memory://bad", "x", log, features=FEATURES, policy="rolf-varying")
    assert rolf.list_experiments("memory://bad") == []
