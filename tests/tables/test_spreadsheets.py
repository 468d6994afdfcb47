"""CSV files that spreadsheets open: no cell is a formula, and rolf reads what it wrote."""

from __future__ import annotations

import csv
import os
import uuid

import numpy as np
import pandas
import pytest

import rolf
from rolf.arms.reading import read_arms
from rolf.logs.log import read_log
from rolf.paper.reproduce import write_curves
from rolf.text import as_written, harmless

FORMULAS = ["=1+1", "+1", "-1", "@sum", "\tx", "'quoted", "''=x", "'=y", "plain", "5"]


def test_text_comes_back_as_it_was_written():
    for text in (*FORMULAS, "\rx", "'", "", "a'b"):
        assert as_written(harmless(text)) == text
        assert not harmless(text).startswith(("=", "+", "-", "@", "\t", "\r"))
    assert harmless(-1.5) == -1.5
    assert as_written("'tis") == "'tis"


def test_no_id_reads_as_a_number(monkeypatch, tmp_path):
    """``1234567e-1`` would: pandas would give the column as numbers."""
    monkeypatch.setattr(os, "urandom", lambda count: bytes.fromhex("1234567e")[:count])
    experiment = rolf.open_experiment("memory://ids", "one", features=np.eye(3), seed=1)
    ids = [decision.id for decision in experiment.ask_many(3)]
    experiment.export(tmp_path / "log.csv")
    assert pandas.read_csv(tmp_path / "log.csv")["id"].tolist() == ids


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_no_cell_of_an_exported_log_is_a_formula(kind, tmp_path):
    arms = pandas.DataFrame({"x": np.arange(10.0)}, index=FORMULAS)
    url = f"memory://{uuid.uuid4().hex}"
    experiment = rolf.open_experiment(url, "one", features=arms, policy="ucb", seed=1)
    for _ in range(30):
        experiment.tell(experiment.ask(), -1.0)
    file = tmp_path / f"log.{kind}"
    experiment.export(file)
    if kind == "csv":
        with file.open(newline="") as source:
            rows = list(csv.DictReader(source))
        assert {row["reward"] for row in rows} == {"-1"}
        for row in rows:
            assert not any(
                value.startswith(("=", "+", "-", "@", "\t", "\r"))
                for name, value in row.items()
                if name != "reward"
            )
    again = rolf.open_experiment(url, "again", features=arms, policy="ucb")
    assert again.learn_file(file, "arm", "reward").learned == 30
    assert [arm.history for arm in again.status().arms] == [
        arm.told for arm in experiment.arm_table()
    ]
    assert sorted(set(read_log(file).arms)) == sorted(FORMULAS)


def test_arms_and_columns_that_look_like_formulas_are_read(tmp_path):
    path = tmp_path / "arms.csv"
    path.write_text("arm,'=x,'-y\n'=a,1,2\n''b,2,1\nc,5,6\n")
    arms = read_arms(path)
    assert arms.labels == ["=a", "'b", "c"]
    assert arms.columns == ["=x", "-y"]


def test_no_cell_of_a_result_is_a_formula(tmp_path):
    result = rolf.simulate({"=cmd": "ucb"}, rolf.environments.two_arms(), rounds=3, runs=2, seed=0)
    path = result.summary().to_csv(tmp_path / "summary.csv")
    assert path.read_text().splitlines()[1].startswith("'=cmd,2,3,")
    write_curves(result.curves(), tmp_path / "curves.csv")
    assert (tmp_path / "curves.csv").read_text().splitlines()[1].startswith("'=cmd,1,")
