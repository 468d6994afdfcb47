"""A table is read once, however often it is compared with what an experiment has."""

from __future__ import annotations

import builtins
import io
from pathlib import Path

import pytest

import rolf
from rolf.errors import DifferentExperiment
from support.stores import make_url

TABLE = "arm,width,colour\na,1.5,red\nb,2.5,blue\nc,3.5,red\n"


@pytest.fixture
def opened(monkeypatch):
    """The paths of files as they are opened."""
    paths = []
    own = io.open

    def noted(file, *args, **options):
        paths.append(str(file))
        return own(file, *args, **options)

    monkeypatch.setattr(io, "open", noted)
    monkeypatch.setattr(builtins, "open", noted)
    return paths


def test_opening_an_experiment_opens_its_table_once(tmp_path, opened):
    path = Path(tmp_path) / "arms.csv"
    path.write_text(TABLE)
    url = make_url("memory")

    def times(features=path):
        opened.clear()
        rolf.open_experiment(url, "x", features=features, policy="ucb").close()
        return opened.count(str(path))

    assert times() == 1  # it is created
    assert times() == 1  # it exists
    path.write_text(TABLE.replace("2.5", "2.75"))
    with pytest.raises(DifferentExperiment, match=r"2\.5 there, 2\.75 here"):
        times()
    assert opened.count(str(path)) == 1


def test_reading_a_table_opens_it_once(tmp_path, opened):
    path = Path(tmp_path) / "arms.csv"
    path.write_text(TABLE)
    opened.clear()
    assert rolf.read_arms(path).labels == ["a", "b", "c"]
    assert opened.count(str(path)) == 1
