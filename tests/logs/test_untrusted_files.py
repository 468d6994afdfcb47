"""Files that somebody else has written: logs with impossible values, crafted metadata, and files
that become huge when they are read."""

from __future__ import annotations

import gzip
import json
import resource
import subprocess
import sys
import textwrap
import uuid

import numpy as np
import pandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rolf
from rolf.arms.reading import read_arms
from rolf.errors import InvalidArgument, RolfError
from rolf.experiments.transfer.export import export_log, import_log
from rolf.logs.log import read_log
from rolf.simulation.result import load_result
from rolf.tables import files
from rolf.tables.files import read_table
from rolf.testing.storage import create_experiment, play
from support.helpers import FEATURES

SEVERAL = {"features": FEATURES}


def exported(tmp_path, policy="ucb", kind="parquet", **settings):
    """An exported log of a few rounds."""
    experiment = create_experiment(
        "memory://untrusted", uuid.uuid4().hex, policy=policy, **settings
    )
    play(experiment, 4)
    file = tmp_path / f"log.{kind}"
    export_log(experiment, file)
    return file


def with_column(file, name, values):
    """The same file with other values in a column."""
    table = pq.read_table(file)
    metadata = table.schema.metadata
    if name in table.column_names:
        table = table.set_column(table.column_names.index(name), name, pa.array(values))
    else:
        table = table.append_column(name, pa.array(values))
    pq.write_table(table.replace_schema_metadata(metadata), file)
    return file


def with_settings(file, **settings):
    """The same file with other words about how the experiment was created."""
    table = pq.read_table(file)
    recorded = json.loads(table.schema.metadata[b"rolf-experiment"])
    text = json.dumps({**recorded, **settings})
    pq.write_table(table.replace_schema_metadata({b"rolf-experiment": text}), file)
    return file


def refused(file, words, **settings):
    url = f"memory://{uuid.uuid4().hex}"
    with pytest.raises(InvalidArgument, match=words):
        import_log(url, "x", file, **settings)
    assert rolf.list_experiments(url) == []


# --- values of a log ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("reward", 1e308),
        ("reward", -1e101),
        ("reward", float("nan")),
        ("probability", 0.0),
        ("probability", -0.5),
        ("probability", 1.5),
        ("asked_at", -1.0),
        ("asked_at", 1e12),
        ("asked_at", float("inf")),
        ("told_at", -1e300),
        ("told_at", 1e12),
        ("clocks", 0),
        ("clocks", 2),
        ("clocks", 5),
        ("clocks", -1),
        ("told_order", 2**60),
    ],
)
def test_impossible_values_are_refused_with_their_row(column, value, tmp_path):
    file = exported(tmp_path)
    values = pq.read_table(file).column(column).to_pylist()
    values[2] = value
    refused(with_column(file, column, values), f"{column}: .*in row 3")


@pytest.mark.parametrize("policy", ["rolf-bayes", "rolf-lasso", "ucb"])
def test_rewards_whose_squares_are_too_large_are_refused(policy, tmp_path):
    file = exported(tmp_path, policy)
    refused(with_column(file, "reward", [1e308, -1e308, 1.0, 0.0]), "reward: .*row 1.*1e\\+100")
    again = import_log(
        f"memory://{uuid.uuid4().hex}",
        "x",
        with_column(file, "reward", [1e100, -1e100, 1.0, 0.0]),
    )
    assert np.isfinite(again.estimates()).all()
    json.dumps(again.status().to_dict(), allow_nan=False)


@pytest.mark.parametrize("number", ["0", "-3", str(2**53 + 1), "9" * 18, "9" * 40, "³", "1.0", ""])
def test_numbers_of_decisions_out_of_range_are_refused(number, tmp_path):
    file = exported(tmp_path)
    ids = pq.read_table(file).column("id").to_pylist()
    ids[1] = f"{ids[0].split('-')[0]}-{number}"
    refused(with_column(file, "id", ids), "id: ")


def test_the_largest_number_of_a_decision_goes_on(tmp_path):
    file = exported(tmp_path)
    ids = pq.read_table(file).column("id").to_pylist()
    ids[3] = f"{ids[0].split('-')[0]}-{2**53 - 5}"
    again = import_log(f"memory://{uuid.uuid4().hex}", "x", with_column(file, "id", ids))
    again.tell(again.ask(), 1.0)


def test_long_tags_are_refused(tmp_path):
    file = exported(tmp_path)
    refused(with_column(file, "id", [f"{'t' * 100}-{n}" for n in range(1, 5)]), "id: ")


@pytest.mark.parametrize("value", [1e200, "much", [1.0], True, float("nan")])
def test_default_rewards_obey_the_same_limits(value, tmp_path):
    file = exported(tmp_path, reward_after=10.0)
    refused(with_settings(file, default_reward=value), "default_reward")
    if not isinstance(value, bool):
        with pytest.raises(InvalidArgument, match="reward"):
            create_experiment(
                f"memory://{uuid.uuid4().hex}", "x", reward_after=1.0, default_reward=value
            )


@pytest.mark.parametrize("value", [1e80, float("inf"), None])
def test_impossible_features_of_a_round_are_refused(value, tmp_path):
    file = exported(tmp_path, "rolf-bayes-varying")
    values = pq.read_table(file).column("x_2_1").to_pylist()
    values[1] = value
    url = f"memory://{uuid.uuid4().hex}"
    with pytest.raises(RolfError, match="features"):
        import_log(url, "x", with_column(file, "x_2_1", values))
    assert rolf.list_experiments(url) == []


def test_a_policy_with_varying_features_needs_those_of_every_round(tmp_path):
    file = exported(tmp_path, "linucb-varying")
    table = pq.read_table(file)
    pq.write_table(table.drop_columns(["x_2_1"]), file)
    refused(file, "x_2_1 too")


def test_a_policy_that_weighs_by_chances_needs_them(tmp_path):
    file = exported(tmp_path, "drlasso")
    refused(with_column(file, "probability", [0.5, None, 0.5, 0.5]), "probability: .*row 2")


def test_two_columns_of_one_name_are_refused(tmp_path):
    file = tmp_path / "log.csv"
    file.write_text("id,arm,reward,reward\nt-1,0,1,2\n")
    refused(file, "reward twice", policy="ucb", **SEVERAL)
    file.write_text("arm,probability,reward,reward\n0,1,1,2\n")
    with pytest.raises(InvalidArgument, match="reward twice"):
        read_log(file)


# --- crafted metadata --------------------------------------------------------------------------

TABLE = {"features": [[1.0], [2.0]], "labels": None, "columns": None, "active": [True, True]}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"seed": -1}, "seed"),
        ({"seed": "one"}, "seed"),
        ({"seed": 2**70}, "seed"),
        ({"options": "none"}, "options"),
        ({"options": [1]}, "options"),
        ({"options": {"scale": "much"}}, "scale"),
        ({"options": {"scale": {}}}, "scale"),
        ({"options": {"nothing": 1}}, "options"),
        ({"options": {"seed": 1}}, "options"),
        ({"policy": 3}, "policy"),
        ({"policy": "gone"}, "policy"),
        ({"reward_after": "soon"}, "reward_after"),
        ({"reward_after": -1.0}, "reward_after"),
        ({"features": 1}, "features"),
        ({"features": []}, "features"),
        ({"features": {}}, "features"),
        ({"features": {**TABLE, "features": [[1.0], [1.0, 2.0]]}}, "features"),
        ({"features": {**TABLE, "features": [["a"], ["b"]]}}, "features"),
        ({"features": {**TABLE, "features": [[1e300], [1.0]]}}, "features"),
        ({"features": {**TABLE, "features": [[1.0]]}}, "features"),
        ({"features": {**TABLE, "labels": ["a", "a"], "columns": ["x"]}}, "labels"),
        ({"features": {**TABLE, "labels": [1, "1"], "columns": ["x"]}}, "labels"),
        ({"features": {**TABLE, "labels": ["a"], "columns": ["x"]}}, "labels"),
        ({"features": {**TABLE, "labels": "ab", "columns": ["x"]}}, "labels"),
        ({"features": {**TABLE, "labels": [[], []], "columns": ["x"]}}, "labels"),
        ({"features": {**TABLE, "labels": ["a", "b"]}}, "labels"),
        ({"features": {**TABLE, "labels": ["a", "b"], "columns": ["x", "y"]}}, "columns"),
        ({"features": {**TABLE, "active": [True]}}, "active"),
        ({"features": {**TABLE, "active": [1, 0]}}, "active"),
        ({"features": {**TABLE, "active": 1}}, "active"),
        ({"features": {**TABLE, "categories": [1]}}, "categories"),
        ({"features": {**TABLE, "categories": {"a": 1}}}, "categories"),
        ({"features": {**TABLE, "recipe": [1]}}, "recipe"),
    ],
)
def test_crafted_metadata_is_refused(settings, words, tmp_path):
    refused(with_settings(exported(tmp_path), **settings), words)


@pytest.mark.parametrize("text", [b"", b"[1]", b"null", b"{", b"\xff", b"[" * 100_000])
def test_metadata_that_is_no_object_is_refused(text, tmp_path):
    file = exported(tmp_path)
    table = pq.read_table(file).replace_schema_metadata({b"rolf-experiment": text})
    pq.write_table(table, file)
    refused(file, "a JSON object")


# --- files that become huge --------------------------------------------------------------------


def bomb_of_rows(path):
    """Ninety million cells in some kilobytes."""
    column = pa.array(np.zeros(15_000_000))
    pq.write_table(pa.table(dict.fromkeys("abcdef", column)), path, compression="zstd")


def bomb_of_text(path):
    """One long text in every row."""
    text = pa.DictionaryArray.from_arrays(pa.array(np.zeros(100_000, np.int32)), ["x" * 100_000])
    pq.write_table(pa.table({"arm": text}), path, compression="zstd", store_schema=False)


def bomb_of_lists(path):
    lists = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(30_000_000)), 3_000_000)
    pq.write_table(pa.table({"arm": lists}), path, compression="zstd")


@pytest.mark.parametrize("make", [bomb_of_rows, bomb_of_text, bomb_of_lists])
def test_a_small_file_does_not_fill_the_memory(make, tmp_path):
    path = tmp_path / "log.parquet"
    make(path)
    assert path.stat().st_size < 1_000_000
    script = f"""
        import pyarrow, pyarrow.parquet, resource
        import rolf.tables.files, rolf.simulation.result
        from rolf.errors import InvalidArgument
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        try:
            rolf.tables.files.read_table({str(path)!r})
        except InvalidArgument as error:
            print(error)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    """
    limit = (8_000_000_000, 8_000_000_000)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, limit),
    )
    message, grown = done.stdout.strip().splitlines()
    assert "bytes or more" in message
    assert int(grown) < 300_000  # kilobytes


def test_a_packed_csv_does_not_fill_the_memory(tmp_path):
    path = tmp_path / "log.csv.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(b"arm,probability,reward\n")
        for _ in range(130):
            file.write(b"a,1,1\n" * 166_667)
    assert path.stat().st_size < 1_000_000
    with pytest.raises(InvalidArgument, match="bytes or more"):
        read_log(path)


def test_tables_have_limits(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MAX_ROWS", 3)
    monkeypatch.setattr(files, "MAX_COLUMNS", 4)
    frame = pandas.DataFrame(np.ones((3, 4)), columns=list("abcd"))
    for suffix in ("csv", "parquet"):
        path = tmp_path / f"table.{suffix}"
        write = pandas.DataFrame.to_csv if suffix == "csv" else pandas.DataFrame.to_parquet
        write(frame, path, index=False)
        assert read_table(path).num_rows == 3
        write(pandas.concat([frame, frame]), path, index=False)
        with pytest.raises(InvalidArgument, match="at most 3 rows"):
            read_table(path)
        write(frame.assign(e=1.0), path, index=False)
        with pytest.raises(InvalidArgument, match="at most 4 columns"):
            read_table(path)


def test_columns_that_are_no_numbers_or_text_are_refused(tmp_path):
    path = tmp_path / "table.parquet"
    for column in ([[1.0], [2.0]], [{"a": 1}, {"a": 2}]):
        pq.write_table(pa.table({"arm": ["a", "b"], "x": pa.array(column)}), path)
        with pytest.raises(InvalidArgument, match="numbers or text"):
            read_arms(path)
    pq.write_table(pa.table({"arm": pa.array([b"\xff", b"b"]), "x": [1.0, 2.0]}), path)
    with pytest.raises(RolfError, match="neither CSV nor Parquet"):
        read_arms(path)


@pytest.mark.parametrize(
    "table",
    [
        {"arm": ["a", "b", None], "x": [1.0, None, 2.0]},
        {"arm": pandas.Categorical(["a", "b", "a"]), "x": [True, False, True]},
        {"arm": ["ä" * 50_000, "", "b"], "x": [1, 2, 3]},
        {"arm": [], "x": []},
    ],
)
def test_parquet_is_read_as_it_was_written(table, tmp_path):
    path = tmp_path / "table.parquet"
    frame = pandas.DataFrame(table)
    frame.to_parquet(path, row_group_size=2)
    mine, theirs = read_table(path), pq.read_table(path)
    assert mine.to_pylist() == theirs.to_pylist()
    assert mine.schema.metadata == theirs.schema.metadata


def test_damaged_results_are_refused(tmp_path):
    path = tmp_path / "result.parquet"
    rolf.simulate({"u": "ucb"}, rolf.environments.two_arms(), rounds=3, runs=2, seed=0).save(path)
    table = pq.read_table(path)
    header = json.loads(table.schema.metadata[b"rolf"])
    for wrong in ({"labels": 3}, {"config": None}, {"labels": ["a"] * 5}):
        text = json.dumps({**header, **wrong})
        pq.write_table(table.replace_schema_metadata({b"rolf": text}), path)
        with pytest.raises(RolfError, match="damaged"):
            load_result(path)
    pq.write_table(table.replace_schema_metadata({b"rolf": b"["}), path)
    with pytest.raises(RolfError, match="not written by rolf"):
        load_result(path)


def test_no_class_takes_rewards_beyond_arithmetic():
    policy = rolf.UCB(FEATURES)
    policy.reward_range = (-np.inf, np.inf)
    with pytest.raises(InvalidArgument, match=r"reward: .*1e\+100"):
        policy.tell(policy.ask(), 1e101)
    counts = np.ones(len(FEATURES))
    for totals in ((counts, counts, counts * 1e300), (counts * 2.0**60, counts, counts)):
        with pytest.raises(InvalidArgument, match=r"squares|counts"):
            policy.learn_totals(*totals)


def test_a_number_of_thousands_of_digits_has_a_message():
    with pytest.raises(InvalidArgument, match="too long to show"):
        rolf.UCB(FEATURES).ask_many(n=-(10**5000))
