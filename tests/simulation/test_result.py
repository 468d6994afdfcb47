"""Results: tables, pictures, files."""

from __future__ import annotations

import csv
import math
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rolf
from rolf import RolfError
from rolf.errors import InvalidArgument


@pytest.fixture
def result():
    rng = np.random.default_rng(0)
    regret = np.cumsum(rng.random((3, 7, 50)), axis=2)
    return rolf.Result(["a", "b", "ü c"], regret, {"seed": 1, "policies": {"a": {"options": {}}}})


def test_summary_by_hand():
    regret = np.array([[[1.0, 2.0], [1.0, 4.0], [3.0, 9.0]]])
    row = rolf.Result(["x"], regret, {}).summary()[0]
    assert (row.policy, row.runs, row.rounds) == ("x", 3, 2)
    assert row.mean == 5.0
    assert row.std == pytest.approx(math.sqrt(13))
    assert row.stderr == pytest.approx(math.sqrt(13 / 3))
    assert (row.min, row.q25, row.median, row.q75, row.max) == (2.0, 3.0, 4.0, 6.5, 9.0)
    assert rolf.Result(["x"], regret, {}).summary(1)[0].mean == pytest.approx(5 / 3)
    assert rolf.Result(["x"], regret[:, :1], {}).summary()[0].std == 0.0


def test_summary_prints_aligned_columns():
    regret = np.array([[[2.0], [4.0]], [[1234.5], [1234.5]]])
    assert str(rolf.Result(["long name", "b"], regret, {}).summary()) == (
        "policy     runs  rounds  mean    std  stderr   min   q25  median   q75   max\n"
        "long name     2       1     3  1.414       1     2   2.5       3   3.5     4\n"
        "b             2       1  1234      0       0  1234  1234    1234  1234  1234"
    )


def test_summary_prints_and_writes(result, tmp_path):
    text = str(result.summary())
    assert text.splitlines()[0].split()[:4] == ["policy", "runs", "rounds", "mean"]
    assert len(text.splitlines()) == 4
    path = result.summary().to_csv(tmp_path / "deep" / "s.csv")
    with path.open() as file:
        rows = list(csv.DictReader(file))
    assert [row["policy"] for row in rows] == result.labels
    assert float(rows[0]["mean"]) == result.summary()[0].mean
    for bad in (0, 51):
        with pytest.raises(InvalidArgument, match="round"):
            result.summary(bad)


def test_parquet_round_trip(result, tmp_path):
    path = result.save(tmp_path / "deep" / "r.parquet")
    back = rolf.load_result(path)
    assert back.labels == result.labels
    assert (back.regret == result.regret).all()
    assert back.config == result.config
    table = pq.read_table(path)  # plain rows for other programs
    assert table.column_names == ["policy", "run", "regret"]
    assert table.num_rows == 21
    assert table["regret"][8].as_py() == result.regret[1, 1].tolist()


def test_files_that_are_not_results_are_refused(tmp_path):
    with pytest.raises(RolfError, match=r"missing\.parquet: does not exist"):
        rolf.load_result(tmp_path / "missing.parquet")
    (tmp_path / "text.parquet").write_text("hello")
    with pytest.raises(RolfError, match="cannot be read"):
        rolf.load_result(tmp_path / "text.parquet")
    pq.write_table(pa.table({"x": [1]}), tmp_path / "other.parquet")
    with pytest.raises(RolfError, match="not written by rolf"):
        rolf.load_result(tmp_path / "other.parquet")
    newer = pa.table({"x": [1]}).replace_schema_metadata(
        {"rolf": '{"format": "rolf-result", "version": 9}'}
    )
    pq.write_table(newer, tmp_path / "newer.parquet")
    with pytest.raises(RolfError, match="version 9"):
        rolf.load_result(tmp_path / "newer.parquet")


def test_a_csv_file_is_csv(result, tmp_path):
    path = result.save(tmp_path / "deep" / "r.csv")
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["policy", "run", "round", "regret"]
    assert len(rows) == result.regret.size
    row = rows[(1 * 7 + 3) * 50 + 9]
    assert (row["policy"], row["run"], row["round"]) == ("b", "3", "10")
    assert float(row["regret"]) == result["b"][3, 9]
    with pytest.raises(RolfError, match=r"r\.csv: is CSV.*reads Parquet"):
        rolf.load_result(path)
    formula = rolf.Result(["=1+1"], result.regret[:1], {}).save(tmp_path / "f.csv")
    assert formula.read_text().splitlines()[1].startswith('"\'=1+1"')


@pytest.mark.parametrize("name", ["r", "r.txt", "r.json", "r.xlsx"])
def test_other_endings_are_refused(result, tmp_path, name):
    with pytest.raises(InvalidArgument, match=r"path.*\.parquet.*\.csv"):
        result.save(tmp_path / "deep" / name)
    assert not (tmp_path / "deep").exists()


def test_pandas(result):
    table = result.table().to_pandas()
    assert list(table.columns) == ["policy", "run", "round", "regret"]
    means = table[table["round"] == 50].groupby("policy")["regret"].mean()
    assert means["b"] == pytest.approx(result.summary()[1].mean)
    assert table.pivot(index="round", columns=["policy", "run"], values="regret").shape == (50, 21)
    rows = result.table()
    assert len(rows) == 3 * 7 * 50
    assert rows[7 * 50] == {"policy": "b", "run": 0, "round": 1, "regret": result["b"][0, 0]}
    assert rows.to_dicts() == rows[:]
    assert str(rows).splitlines()[0].split() == rows.columns
    assert str(rows).endswith("and 1,040 more rows")
    everything = result.to_dict()
    assert everything["points"] == list(range(1, 51))
    assert everything["regret"] == result.regret.tolist()
    assert everything["labels"] == result.labels
    missing = "import sys; sys.modules['pandas'] = None; import rolf, numpy\n"
    missing += "result = rolf.Result(['a'], numpy.ones((1, 1, 1)), {})\n"
    missing += "result.summary(), result.plot()\ntry: result.table().to_pandas()\n"
    missing += "except rolf.RolfError as error: print(error)"
    done = subprocess.run([sys.executable, "-c", missing], capture_output=True, text=True)
    assert "needs pandas, which is not installed: pip install" in done.stdout, done.stderr


@pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
@pytest.mark.parametrize("runs", [1, 7])
def test_plot(result, tmp_path, kind, runs):
    some = rolf.Result(result.labels, result.regret[:, :runs], {})
    path = tmp_path / "deep" / f"fig.{kind}"
    figure = some.plot(path, title="title", logarithmic=runs == 1)
    assert path.stat().st_size > 1000
    axes = figure.axes[0]
    shown = [line.get_label().split("  ")[0] for line in axes.lines]
    assert sorted(shown) == sorted(result.labels)
    means = {line.get_label().split("  ")[0]: line.get_ydata()[-1] for line in axes.lines}
    assert means["b"] == pytest.approx(some["b"][:, -1].mean())
    assert len(axes.collections) == (3 if runs > 1 else 0)  # the bands


def test_labels(result):
    assert result["b"].shape == (7, 50)
    with pytest.raises(InvalidArgument, match="one of a, b"):
        result["nobody"]
    assert repr(result) == "<Result of 3 policies, 7 runs, 50 rounds>"
