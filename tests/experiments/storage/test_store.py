"""The contract of every store, on memory, SQLite and a real PostgreSQL."""

from __future__ import annotations

from importlib import metadata

import pytest

import rolf
from rolf.errors import InvalidArgument
from rolf.experiments.database import Database
from rolf.experiments.storage import memory, urls
from rolf.testing.storage import StorageContract, create_experiment
from support.stores import make_url


class TestMemory(StorageContract):
    @pytest.fixture
    def url(self):
        return make_url("memory")


class TestSQLite(StorageContract):
    @pytest.fixture
    def url(self):
        return make_url("sqlite")


class TestPostgreSQL(StorageContract):
    @pytest.fixture
    def url(self):
        return make_url("postgresql")


def open_elsewhere(url, create, timeout):
    """A store of another package; its databases exist if their names begin with a."""
    name = url.removeprefix("elsewhere://")
    return memory.MemoryStore(f"elsewhere {name}") if create or name.startswith("a") else None


def test_a_package_adds_a_store_by_an_entry_point(monkeypatch):
    entry = metadata.EntryPoint(
        "elsewhere", "experiments.storage.test_store:open_elsewhere", urls.GROUP
    )

    def entry_points(*, group):
        return [entry] if group == urls.GROUP else []

    with pytest.raises(InvalidArgument, match="url"):
        create_experiment("elsewhere://a")
    monkeypatch.setattr(metadata, "entry_points", entry_points)
    create_experiment("elsewhere://a").ask()
    assert rolf.open_experiment("elsewhere://a", "one").status().asked == 1
    assert Database("elsewhere://b").names() == []
    create_experiment("elsewhere://b")
    with pytest.raises(InvalidArgument, match="url"):
        create_experiment("nowhere://a")
