"""Tables that are not those of this version."""

from __future__ import annotations

import sqlite3

import psycopg
import pytest

import rolf
from rolf.errors import UnusableStorage
from rolf.testing.storage import create_experiment
from support.stores import postgres_url, quick_folder


def set_version(url, version):
    connect = psycopg.connect if url.startswith("postgres") else sqlite3.connect
    connection = connect(url.removeprefix("sqlite:///"))
    connection.execute(f"UPDATE rolf_meta SET version = {version}")
    connection.commit()
    connection.close()


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
@pytest.mark.parametrize(("version", "words"), [(2, "made by a newer rolf"), (0, "not")])
def test_tables_of_another_version_are_refused(kind, version, words):
    folder = quick_folder("rolf-file")
    url = f"sqlite:///{folder}/experiments.db" if kind == "sqlite" else postgres_url()
    create_experiment(url).close()
    set_version(url, version)
    with pytest.raises(UnusableStorage, match=words):
        rolf.open_experiment(url, "one")
    set_version(url, 1)
    assert rolf.open_experiment(url, "one").counts() == (0, 0)
