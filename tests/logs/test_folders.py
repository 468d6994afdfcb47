"""Logs in folders of Parquet files: the same answers as in memory, wherever the parts are read."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings

import numpy as np
import pandas
import pytest
from typer.testing import CliRunner

import rolf
from rolf import parallel
from rolf.cli import app
from rolf.errors import InvalidArgument, RolfError
from rolf.evaluation.sums import Spread
from rolf.experiments.database import create_from_file
from rolf.logs.log import open_log, read_log
from rolf.parallel import sections
from rolf.tables import parts as streams
from rolf.tables.parts import Stream

ARMS = 5
FEATURES = pandas.DataFrame(
    np.random.default_rng(0).standard_normal((ARMS, 2)),
    columns=["u", "v"],
    index=[f"ad-{arm}" for arm in range(ARMS)],
)
MEANS = np.array([0.2, 0.5, 0.35, 0.6, 0.1])


def table(size, seed=0, varying=False):
    """Decisions whose chances change all the time."""
    rng = np.random.default_rng([seed, 3])
    chances = rng.dirichlet(np.full(ARMS, 3.0), size)
    played = (rng.random((size, 1)) > chances.cumsum(axis=1)).sum(axis=1)
    rewards = MEANS[played] + 0.3 * rng.standard_normal(size)
    columns = {
        "number": np.arange(1, size + 1),
        "arm": FEATURES.index[played],
        "probability": chances[np.arange(size), played],
        "reward": rewards,
        "is_default": rng.random(size) < 0.1,
    }
    if varying:
        for arm, name in enumerate(FEATURES.index):
            columns[f"x_{name}_w"] = rng.standard_normal(size)
            columns["reward"] = columns["reward"] + (played == arm) * columns[f"x_{name}_w"]
    return pandas.DataFrame(columns)


def cut(frame, folder, sizes, row_group_size=None):
    """A folder with a file for each of these numbers of rows; the last has the rest."""
    folder.mkdir()
    first = 0
    for number, size in enumerate([*sizes, len(frame)]):
        rows = frame.iloc[first : first + size]
        name = folder / f"part-{number}.parquet"
        rows.to_parquet(name, index=False, row_group_size=row_group_size)
        first += size
    return folder


def quiet(function, *args, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rolf.RolfWarning)
        return function(*args, **options)


def same(one, other):
    """Whether two evaluations agree up to rounding."""
    assert one.notes == other.notes
    for a, b in zip(one, other, strict=True):
        assert (a.policy, a.estimator) == (b.policy, b.estimator)
        expected = (a.value, a.low, a.high, a.effective)
        assert (b.value, b.low, b.high, b.effective) == pytest.approx(expected, rel=1e-9)


# --- replay ------------------------------------------------------------------------------------


@pytest.mark.parametrize("varying", [False, True])
def test_a_folder_is_evaluated_like_the_log_in_memory(tmp_path, varying):
    frame = table(900, varying=varying)
    frame.loc[[3, 77, 500], "reward"] = None
    frame.to_parquet(tmp_path / "whole.parquet")
    folder = cut(frame, tmp_path / "log", [100, 7, 350], row_group_size=60)
    log = read_log(tmp_path / "whole.parquet")
    policies = ["rolf-bayes", "drlasso", "ucb"] + ["rolf-varying", "linucb-varying"] * varying
    for options in ({}, {"clip": 2.0, "split": 0.3}):
        whole = quiet(rolf.replay, log, FEATURES, policies, **options)
        parts = quiet(rolf.replay, folder, FEATURES, policies, **options)
        same(whole, parts)
        assert any("3 decisions without a reward" in note for note in parts.notes)
        policies = ["ucb"]


def test_threads_and_one_after_the_other_give_the_same_bits(tmp_path, monkeypatch):
    folder = cut(table(3000), tmp_path / "log", [1000, 300], row_group_size=200)
    plain = quiet(rolf.replay, folder, FEATURES, ["lints", "ucb"])
    seen = rolf.diagnose(folder, FEATURES)
    monkeypatch.setattr(sections, "FEW", 0)
    for jobs in (1, 2, 3, 100):  # the last leave cores idle, which then read ahead
        again = quiet(rolf.replay, folder, FEATURES, ["lints", "ucb"], jobs=jobs)
        assert again.rows == plain.rows
        assert rolf.diagnose(folder, FEATURES, jobs=jobs) == seen


def test_parts_are_put_in_order_and_sorted_where_they_overlap(tmp_path):
    frame = table(600)
    expected = quiet(rolf.replay, cut(frame, tmp_path / "a", [200]), FEATURES, ["ucb"])
    later, early = frame.iloc[400:], frame.iloc[:400].sample(frac=1.0, random_state=1)
    folder = cut(pandas.concat([later, early]), tmp_path / "b", [200, 150], row_group_size=90)
    assert len(open_log(folder).parts) > 1
    same(expected, quiet(rolf.replay, folder, FEATURES, ["ucb"]))
    assert read_log(folder).rewards.tolist() == frame["reward"].tolist()


def test_rows_that_overlap_too_much_to_be_sorted_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(streams, "MAX_SORTED", 150)
    mixed = table(400).sample(frac=1.0, random_state=1)
    with pytest.raises(InvalidArgument, match=r"number: got '400 rows in row groups whose"):
        open_log(cut(mixed, tmp_path / "a", [200]))
    with pytest.raises(InvalidArgument, match="go back"):
        quiet(rolf.replay, cut(mixed, tmp_path / "b", []), FEATURES, ["ucb"])
    sorted_log = cut(table(400), tmp_path / "c", [])
    quiet(rolf.replay, sorted_log, FEATURES, ["ucb"])


@pytest.mark.parametrize(
    ("column", "value", "expected"),
    [
        ("reward", np.inf, "part-1.parquet: reward: got 'inf in row 31'"),
        ("probability", 1.5, "part-1.parquet: probability: got '1.5 in row 31'"),
        ("arm", None, "part-1.parquet: arm: got 'nothing in row 31'"),
        ("arm", "ad-9", "part-1.parquet: arm: got \"'ad-9' in row 31\", wanted an arm of"),
    ],
)
def test_a_bad_row_is_named_by_its_file_and_number(tmp_path, column, value, expected):
    """After rows without a reward, and in a row group that is not the first."""
    frame = table(200)
    frame.loc[[101, 102], "reward"] = None
    frame.loc[130, column] = value
    folder = cut(frame, tmp_path / "log", [100], row_group_size=20)
    with pytest.raises(RolfError, match=expected):
        quiet(rolf.replay, folder, FEATURES, ["ucb"])


def test_columns_of_all_files_are_checked_before_any_row(tmp_path):
    folder = cut(table(100), tmp_path / "log", [50])
    pandas.read_parquet(folder / "part-1.parquet").drop(columns="probability").to_parquet(
        folder / "part-1.parquet"
    )
    for check in (open_log, lambda path: rolf.diagnose(path, FEATURES)):
        with pytest.raises(InvalidArgument, match=r"part-1.parquet: columns: .*probability too"):
            check(folder)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidArgument, match="empty"):
        open_log(tmp_path / "empty")
    (folder / "part-2.parquet").write_bytes(b"no Parquet")
    with pytest.raises(RolfError, match=r"part-2.parquet: is neither CSV nor Parquet"):
        open_log(folder)


def test_files_are_read_in_the_order_of_their_numbers(tmp_path):
    frame = table(120).drop(columns="number")
    folder = cut(frame, tmp_path / "log", [10] * 11)
    (folder / "_metadata.parquet").write_bytes(b"not read")
    (folder / "day=2").mkdir()
    (folder / "part-11.parquet").rename(folder / "day=2" / "part-1.parquet")
    names = [part.pieces[0].path for part in Stream(folder).parts()]
    assert [name.split("part-")[1] for name in names[-3:]] == [
        "8.parquet",
        "9.parquet",
        "10.parquet",
    ]
    assert read_log(folder).rewards.tolist() == [*frame["reward"][110:], *frame["reward"][:110]]


def test_files_that_say_nothing_of_their_values_are_counted(tmp_path):
    """How many rewards and chances are missing, where the statistics are missing, too."""
    import pyarrow as pa
    from pyarrow import parquet

    frame = table(300)
    frame.loc[[5, 6, 290], "reward"] = None
    frame.loc[[6, 7], "probability"] = None
    (tmp_path / "log").mkdir()
    for number, rows in enumerate((frame[:150], frame[150:])):
        target = tmp_path / "log" / f"{number}.parquet"
        parquet.write_table(pa.Table.from_pandas(rows), target, write_statistics=False)
    log = open_log(tmp_path / "log")
    assert (log.sizes, log.unrewarded, log.unknown_probabilities) == ([148, 149], 3, 1)
    with pytest.raises(RolfError, match="no probability for 1 of its decisions"):
        rolf.replay(tmp_path / "log", FEATURES, ["ucb"], estimators=["ips"])


def test_the_most_common_reward():
    """Exact for few distinct rewards, however they are cut; none among many that differ."""
    rng = np.random.default_rng(1)
    rewards = rng.integers(0, 9, 5000).astype(float)
    rewards[:900] = 4.0
    parts = [Spread.of(each) for each in np.array_split(rewards, 7)]
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.plus(part)
    assert (whole.common, whole.low, whole.high, whole.exact) == (4.0, 0.0, 8.0, True)
    assert whole.counts.tolist() == np.bincount(rewards.astype(int)).tolist()
    other = Spread.of(rng.standard_normal(9000))
    assert other.common is None
    some = Spread.of(np.where(rng.random(9000) < 0.2, 7.0, rng.standard_normal(9000)))
    assert (some.exact, some.plus(other).common, some.common) == (False, 7.0, 7.0)
    clicks = Spread.of((rng.random(200_000) < 0.01).astype(float), sample=True)
    assert (clicks.common, clicks.high) == (0.0, 1.0)


# --- diagnose ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["real", "far", "clicks"])
def test_a_folder_is_diagnosed_like_the_log_in_memory(tmp_path, kind):
    frame = table(1200)[["arm", "reward"]]
    if kind == "far":  # from zero, and arms from each other
        frame["reward"] += 1e6 + 1e4 * frame["arm"].str[-1].astype(int)
    if kind == "clicks":
        frame["reward"] = (frame["reward"] > 0.5).astype(float)
    expected = rolf.diagnose(zip(frame["arm"], frame["reward"], strict=True), FEATURES)
    frame.loc[1200] = ["unknown, but without a reward", None]
    folder = cut(frame, tmp_path / "log", [500, 9], row_group_size=70)
    steps = []
    seen = rolf.diagnose(folder, FEATURES, progress=steps.append)
    assert (seen.verdict, seen.rewards, seen.without_reward) == (expected.verdict, 1200, 1)
    assert len(steps) == len(Stream(folder).parts())
    assert seen.share.estimate == pytest.approx(expected.share.estimate, rel=1e-6)
    for a, b in zip(seen.arms, expected.arms, strict=True):
        assert (a.arm, a.plays) == (b.arm, b.plays)
        assert a.mean == pytest.approx(b.mean, rel=1e-12)
        assert a.mean_stderr == pytest.approx(b.mean_stderr, rel=1e-9)


# --- import ------------------------------------------------------------------------------------


def test_history_is_the_same_however_it_is_cut(tmp_path):
    """So that the same rounds in other files are known to be the same."""
    frame = table(2000)[["arm", "reward"]]
    frame.to_csv(tmp_path / "log.csv", index=False)
    columns = {"arm": "arm", "reward": "reward", "source": "s"}
    steps = []
    experiment, first = create_from_file(
        f"sqlite:///{tmp_path}/e.db",
        "e",
        tmp_path / "log.csv",
        features=FEATURES,
        progress=steps.append,
        **columns,
    )
    assert (first.rows, first.learned, len(steps)) == (2000, 2000, 200)
    folder = cut(frame, tmp_path / "log", [700], row_group_size=111)
    again = experiment.learn_file(folder, **columns)
    assert (again.rows, again.learned) == (2000, 0)
    frame.loc[777, "reward"] = np.nan
    frame.loc[778, "reward"] = np.inf
    broken = cut(frame, tmp_path / "broken", [700], row_group_size=111)
    with pytest.raises(
        InvalidArgument, match=r"part-1.parquet: reward: got 'nothing in row 78, 79"
    ):
        experiment.learn_file(broken, "arm", "reward")
    experiment.close()


def test_an_exported_log_is_learned_from_one_file_and_from_several(tmp_path):
    url = f"sqlite:///{tmp_path}/e.db"
    with rolf.open_experiment(url, "a", features=FEATURES, policy="rolf-bayes") as experiment:
        decisions = experiment.ask_many(60)
        for place, decision in enumerate(decisions[:50]):
            experiment.tell(decision, 0.1 * place)
        experiment.export(tmp_path / "log.parquet")
        estimates = experiment.estimates()
    frame = pandas.read_parquet(tmp_path / "log.parquet")
    folder = cut(frame, tmp_path / "log", [25])
    for name, source in (("b", tmp_path / "log.parquet"), ("c", folder)):
        with rolf.open_experiment(url, name, features=FEATURES, policy="rolf-bayes") as copy:
            learned = copy.learn_file(source, "arm", "reward")
            assert (learned.rows, learned.learned, learned.pending) == (60, 50, 10)
            assert copy.estimates().to_numpy() == pytest.approx(estimates.to_numpy())


def test_commands_take_folders_and_backends(tmp_path):
    folder = cut(table(400), tmp_path / "log", [150])
    FEATURES.to_csv(tmp_path / "arms.csv", index_label="arm")
    arms, url = str(tmp_path / "arms.csv"), f"sqlite:///{tmp_path}/e.db"

    def run(*words):
        done = CliRunner().invoke(app, [*map(str, words)], env={"COLUMNS": "200"})
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    threads = ("--backend", "threads", "--jobs", "2", "--json")
    assert run("replay", folder, arms, "--policy", "ucb", *threads)["decisions"] == 400
    assert run("diagnose", folder, arms, *threads)["rewards"] == 400
    columns = ("--arm", "arm", "--reward", "reward", "--features", arms)
    assert run("import", url, "e", folder, *columns, "--json")["learned"] == 400
    for command in (
        ["replay", str(folder), arms, "--policy", "ucb"],
        ["diagnose", str(folder), arms],
    ):
        wrong = CliRunner().invoke(app, [*command, "--backend", "cloud"])
        assert "--backend: got 'cloud'" in str(wrong.exception)


# --- at size -----------------------------------------------------------------------------------

PEAK = """
import re, sys, warnings, rolf
from rolf.experiments.database import create_from_file
warnings.simplefilter("ignore")
log, arms = sys.argv[1] + "/log", sys.argv[1] + "/arms.csv"
rolf.replay(log, arms, ["lints"], estimators=["ips", "snips", "dr"])
rolf.diagnose(log, arms)
url = "sqlite:///" + sys.argv[1] + "/e.db"
create_from_file(url, "e", log, "arm", "reward", features=arms)[0].close()
with open("/proc/self/status") as file:  # ru_maxrss starts with what the parent had
    print(int(re.search("VmHWM:[^0-9]*([0-9]+)", file.read())[1]) / 1024)
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_log(tmp_path):
    """Four times the rows, in MiB; in memory these would take several hundred more."""
    peaks = []
    for files in (2, 8):
        where = tmp_path / str(files)
        where.mkdir()
        (where / "log").mkdir()
        FEATURES.to_csv(where / "arms.csv", index_label="arm")
        rng = np.random.default_rng(5)
        for number in range(files):
            played = rng.integers(ARMS, size=1_000_000)
            pandas.DataFrame(
                {
                    "arm": pandas.Categorical.from_codes(played, FEATURES.index),
                    "probability": 0.2 + 0.0 * played,
                    "reward": MEANS[played] + rng.standard_normal(played.size),
                }
            ).to_parquet(where / "log" / f"{number}.parquet", row_group_size=250_000)
        done = subprocess.run(
            [sys.executable, "-c", PEAK, str(where)], capture_output=True, text=True, check=True
        )
        peaks.append(float(done.stdout))
    assert peaks[1] < peaks[0] + 40.0


@pytest.mark.slow
def test_parts_are_tasks_of_a_dask_cluster(tmp_path):
    """The same bits as on this machine, from worker processes that read the files themselves."""
    pytest.importorskip("distributed")
    from distributed import Client, LocalCluster

    folder = cut(table(4000, varying=True), tmp_path / "log", [1500], row_group_size=500)
    policies = ["lints", "linucb-varying"]
    here = quiet(rolf.replay, folder, FEATURES, policies)
    seen = rolf.diagnose(folder, FEATURES)
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster),
    ):
        where = {"backend": "dask", "address": cluster.scheduler_address}
        assert quiet(rolf.replay, folder, FEATURES, policies, **where).rows == here.rows
        assert rolf.diagnose(folder, FEATURES, **where) == seen
        parallel.shutdown()
