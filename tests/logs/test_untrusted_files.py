"""Files that somebody else has written: logs with impossible values, and files that become huge
when they are read."""

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
from rolf.logs.log import read_log
from rolf.simulation.result import load_result
from rolf.tables import limits
from rolf.tables.csv import read_csv
from rolf.tables.parquet import read_parquet
from rolf.testing.experiments import rows_of
from rolf.testing.storage import create_experiment
from support.helpers import FEATURES

URL = "memory://untrusted"


def log_of(tmp_path, column, value):
    """A Parquet log whose third row has this value in a column."""
    columns = {"arm": [0, 1, 2, 3], "reward": [1.0, 0.5, 0.0, 1.0], "probability": [0.5] * 4}
    columns[column][2] = value
    file = tmp_path / "log.parquet"
    pq.write_table(pa.table(columns), file)
    return file


# --- values of a log ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("reward", float("nan")),
        ("reward", float("inf")),
        ("probability", 0.0),
        ("probability", -0.5),
        ("probability", 1.5),
    ],
)
def test_impossible_values_are_refused_with_their_row(column, value, tmp_path):
    file = log_of(tmp_path, column, value)
    with pytest.raises(InvalidArgument, match=f"{column}: .*in row 3"):
        read_log(file)


@pytest.mark.parametrize("policy", ["rolf-bayes", "rolf-lasso", "ucb"])
def test_rewards_whose_squares_are_too_large_are_refused(policy, tmp_path):
    experiment = create_experiment(URL, uuid.uuid4().hex, policy=policy)
    for value in (1e308, -1e101):
        with pytest.raises(InvalidArgument, match=r"reward.*1e\+100"):
            experiment.learn_file(log_of(tmp_path, "reward", value), "arm", "reward")
    assert rows_of(experiment) == []
    experiment.learn_file(log_of(tmp_path, "reward", 1e100), "arm", "reward")
    assert np.isfinite(experiment.estimates()).all()
    json.dumps(experiment.status().to_dict(), allow_nan=False)


@pytest.mark.parametrize("value", [1e200, "much", [1.0], float("nan")])
def test_default_rewards_obey_the_same_limits(value):
    with pytest.raises(InvalidArgument, match="reward"):
        create_experiment(URL, uuid.uuid4().hex, reward_after=1.0, default_reward=value)


def test_two_columns_of_one_name_are_refused(tmp_path):
    file = tmp_path / "log.csv"
    experiment = create_experiment(URL, uuid.uuid4().hex, policy="ucb")
    file.write_text("id,arm,reward,reward\nt-1,0,1,2\n")
    with pytest.raises(InvalidArgument, match="reward twice"):
        experiment.learn_file(file, "arm", "reward")
    file.write_text("arm,probability,reward,reward\n0,1,1,2\n")
    with pytest.raises(InvalidArgument, match="reward twice"):
        read_log(file)


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
        import rolf.tables.parquet, rolf.simulation.result
        from rolf.errors import InvalidArgument
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        try:
            rolf.tables.parquet.read_parquet({str(path)!r})
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
    monkeypatch.setattr(limits, "MAX_ROWS", 3)
    monkeypatch.setattr(limits, "MAX_COLUMNS", 4)
    frame = pandas.DataFrame(np.ones((3, 4)), columns=list("abcd"))
    for suffix in ("csv", "parquet"):
        path = tmp_path / f"table.{suffix}"
        read = read_csv if suffix == "csv" else read_parquet
        write = pandas.DataFrame.to_csv if suffix == "csv" else pandas.DataFrame.to_parquet
        write(frame, path, index=False)
        assert read(path).num_rows == 3
        write(pandas.concat([frame, frame]), path, index=False)
        with pytest.raises(InvalidArgument, match="at most 3 rows"):
            read(path)
        write(frame.assign(e=1.0), path, index=False)
        with pytest.raises(InvalidArgument, match="at most 4 columns"):
            read(path)


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
    mine, theirs = read_parquet(path), pq.read_table(path)
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
        rolf.UCB(FEATURES).ask_many(-(10**5000))
