"""Databases that are old, newer, damaged or not ours."""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3

import psycopg
import pytest

import rolf
from rolf.errors import (
    InvalidArgument,
    RolfError,
    StorageError,
    StorageUnavailable,
    UnknownDecision,
    UnknownExperiment,
    UnusableStorage,
)
from rolf.experiments.database import Database
from rolf.experiments.storage.sqlite import guard as sqlite_guard
from rolf.testing.storage import create_experiment, current_state, folded_state, play
from support.helpers import FEATURES
from support.stores import postgres_url, quick_folder, server


@pytest.fixture
def path():
    return quick_folder("rolf-file") / "experiments.db"


def bytes_of(path):
    return {
        each.name: hashlib.sha256(each.read_bytes()).hexdigest() for each in path.parent.iterdir()
    }


def text_file(path):
    path.write_text("id,reward\n1,2\n" * 100)


def other_application(path):
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE customers (name TEXT)")
    connection.execute("INSERT INTO customers VALUES ('a')")
    connection.commit()
    connection.close()


def cut(path):
    with create_experiment(f"sqlite:///{path}", policy="ucb") as experiment:
        play(experiment, 200)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def head_only(path):
    with create_experiment(f"sqlite:///{path}", policy="ucb") as experiment:
        play(experiment, 3)
    path.write_bytes(path.read_bytes()[:60])


def newer(path):
    create_experiment(f"sqlite:///{path}", policy="ucb").close()
    connection = sqlite3.connect(path)
    connection.execute("UPDATE rolf_meta SET version = 99")
    connection.commit()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (text_file, "not a SQLite database"),
        (other_application, "not one of rolf's"),
        (cut, "damaged"),
        (head_only, "damaged"),
        (newer, "newer rolf"),
    ],
)
def test_unusable_files_are_left_untouched(path, spoil, words):
    spoil(path)
    before = bytes_of(path)
    for attempt in (
        lambda: rolf.open_experiment(f"sqlite:///{path}", "one", features=FEATURES),
        lambda: rolf.open_experiment(f"sqlite:///{path}", "one"),
        lambda: Database(f"sqlite:///{path}").names(),
    ):
        with pytest.raises(UnusableStorage, match=words):
            attempt()
    after = bytes_of(path)
    assert {name: after.get(name) for name in before} == before
    assert set(after) - set(before) <= {"experiments.db-wal", "experiments.db-shm"}


@pytest.mark.parametrize("version", ["'abc'", "-1", "NULL"])
def test_an_impossible_layout_is_refused(version, path):
    create_experiment(f"sqlite:///{path}", policy="ucb").close()
    url = postgres_url()
    create_experiment(url, policy="ucb").close()
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TABLE rolf_meta")
        connection.execute("CREATE TABLE rolf_meta (version)")
        connection.execute(f"INSERT INTO rolf_meta VALUES ({version})")
    connection.close()
    with psycopg.connect(url) as connection:
        connection.execute("ALTER TABLE rolf_meta ALTER version DROP NOT NULL")
        connection.execute("ALTER TABLE rolf_meta ALTER version TYPE text")
        connection.execute(f"UPDATE rolf_meta SET version = {version}")
        if version == "-1":
            connection.execute("ALTER TABLE rolf_meta ALTER version TYPE int USING version::int")
    for each in (f"sqlite:///{path}", url):
        with pytest.raises(UnusableStorage, match="rolf's"):
            rolf.open_experiment(each, "one")


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE rolf_experiments SET features = '{\"feat'",
        "UPDATE rolf_experiments SET options = '[1]'",
        "UPDATE rolf_log SET arm = 77",
        "UPDATE rolf_log SET kind = 4, details = 'x' WHERE kind = 2",
    ],
)
def test_senseless_rows_count_as_damage(damage, path):
    with create_experiment(f"sqlite:///{path}", policy="ucb") as experiment:
        play(experiment, 1)
    with sqlite3.connect(path) as connection:
        connection.execute(damage)
    connection.close()
    with pytest.raises(UnusableStorage, match="damaged"):
        rolf.open_experiment(f"sqlite:///{path}", "one")


def test_an_empty_file_stays_empty_until_an_experiment_is_created(path):
    path.touch()
    with pytest.raises(UnknownExperiment):
        rolf.open_experiment(f"sqlite:///{path}", "one")
    assert Database(f"sqlite:///{path}").names() == []
    assert path.stat().st_size == 0
    create_experiment(f"sqlite:///{path}", policy="ucb")
    assert Database(f"sqlite:///{path}").names() == ["one"]


def test_a_password_is_not_repeated():
    for url in ("postgresq://bob:s3cret@host/db", "postgresql://bob:s3cret@[bad/db"):
        with pytest.raises(RolfError) as caught:
            Database(url).names()
        assert "s3cret" not in str(caught.value)


def test_a_damaged_page_is_reported(path):
    with create_experiment(f"sqlite:///{path}", policy="ucb") as experiment:
        play(experiment, 300)
    data = bytearray(path.read_bytes())
    data[4096 * 4 :] = b"\xff" * (len(data) - 4096 * 4)
    path.write_bytes(bytes(data))
    before = bytes_of(path)
    with pytest.raises(UnusableStorage, match="damaged"):
        rolf.open_experiment(f"sqlite:///{path}", "one").ask()
    assert bytes_of(path)["experiments.db"] == before["experiments.db"]


def test_tables_of_another_application_in_postgresql():
    for statement in ("CREATE TABLE rolf_meta (x TEXT)", "CREATE TABLE rolf_experiments (x TEXT)"):
        url = postgres_url()
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(statement)
        with pytest.raises(UnusableStorage, match="not rolf's"):
            create_experiment(url)
    url = postgres_url()
    create_experiment(url)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("UPDATE rolf_meta SET version = 99")
    with pytest.raises(UnusableStorage, match="newer rolf"):
        create_experiment(url)


def test_looking_creates_nothing(path):
    assert Database(f"sqlite:///{path}").names() == []
    with pytest.raises(UnknownExperiment):
        rolf.open_experiment(f"sqlite:///{path}", "one")
    with pytest.raises(InvalidArgument):
        create_experiment(f"sqlite:///{path}", policy="ucb", options={"p": 1})
    assert not path.exists()
    with pytest.raises(UnusableStorage, match="does not exist"):
        create_experiment(f"sqlite:///{path.parent}/none/x.db")
    with pytest.raises(UnusableStorage, match="cannot be opened"):
        create_experiment(f"sqlite:///{path.parent}")


@pytest.mark.parametrize("url", ["", "file.db", "sqlite://x.db", "sqlite:///", "mysql://x/y", 3])
def test_meaningless_urls(url):
    with pytest.raises(InvalidArgument, match="url"):
        create_experiment(url)


@pytest.mark.parametrize("url", ["postgresql://nobody@127.0.0.1:1/none"])
def test_databases_out_of_reach(url):
    with pytest.raises(StorageUnavailable, match="PostgreSQL"):
        create_experiment(url)


def test_a_full_file_works_again_when_there_is_room(path):
    experiment = create_experiment(f"sqlite:///{path}", policy="ucb")
    decision = experiment.ask()
    pages = experiment.synced.store._query("PRAGMA page_count")[0][0]
    experiment.synced.store._query(f"PRAGMA max_page_count = {pages}")

    def fill():
        for _ in range(2000):
            experiment.ask()

    def tell():
        for number in range(1, 2000):
            experiment.tell(f"{decision.id.split('-')[0]}-{number}", 1.0)

    for action in (fill, tell):
        with pytest.raises(StorageUnavailable, match="full"):
            action()
    before = current_state(experiment)
    experiment.synced.store._query("PRAGMA max_page_count = 1000000")
    experiment.tell(experiment.ask(), 1.0)
    assert current_state(experiment) != before
    assert current_state(experiment) == folded_state(experiment)


def test_a_locked_file_says_so(path):
    experiment = create_experiment(f"sqlite:///{path}", policy="ucb", timeout=0.05)
    decision = experiment.ask()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    for attempt in (experiment.ask, lambda: experiment.tell(decision, 1.0)):
        with pytest.raises(StorageUnavailable, match="locked"):
            attempt()
    other.execute("ROLLBACK")
    other.close()
    experiment.tell(decision, 1.0)
    assert experiment.status().asked == 1


def test_a_copy_of_the_file_is_a_copy_of_the_experiments(path):
    with create_experiment(f"sqlite:///{path}", policy="ucb") as experiment:
        play(experiment, 10)
        before = current_state(experiment)
    copy = path.with_name("copy.db")
    shutil.copy(path, copy)
    assert current_state(rolf.open_experiment(f"sqlite:///{copy}", "one")) == before


def test_errors_of_the_database_are_translated(path):
    experiment = create_experiment(f"sqlite:///{path}", policy="ucb")
    with pytest.raises(StorageError, match="no such table"):
        experiment.synced.store._query("SELECT * FROM none")


def test_no_descriptor_is_left_where_opening_fails(path, monkeypatch):
    experiment = create_experiment(f"sqlite:///{path}", policy="ucb")
    experiment.close()
    opened = os.open

    def fails(name, *args, **kwargs):
        if str(name).endswith("-shm"):
            raise OSError(24, "Too many open files")
        return opened(name, *args, **kwargs)

    before = len(os.listdir("/proc/self/fd"))
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", fails)
        for _ in range(5):
            with pytest.raises(StorageUnavailable, match="Too many open files"):
                rolf.open_experiment(f"sqlite:///{path}", "one")
    assert len(os.listdir("/proc/self/fd")) == before
    rolf.open_experiment(f"sqlite:///{path}", "one").ask()


@pytest.mark.parametrize(
    "url", [f"sqlite:////tmp/{'a' * 5000}", "sqlite:///\ud800", "memory://\ud800"]
)
def test_urls_that_cannot_be_written(url):
    for call in (lambda url: Database(url).names(), create_experiment):
        with pytest.raises(InvalidArgument, match="url"):
            call(url)


def test_databases_in_other_encodings():
    name = f"rolf_latin_{os.getpid()}"
    with psycopg.connect(server(), autocommit=True) as connection:
        connection.execute(
            f"CREATE DATABASE {name} ENCODING 'SQL_ASCII' TEMPLATE template0 LOCALE 'C'"
        )
    url = server().replace("/postgres?", f"/{name}?")
    assert url != server()
    create_experiment(url, "smile \N{SLIGHTLY SMILING FACE}", policy="ucb").ask()
    assert Database(url).names() == ["smile \N{SLIGHTLY SMILING FACE}"]
    with pytest.raises(RolfError, match="cannot store"):
        rolf.connect(url).backup(quick_folder("rolf-x") / "x.db", ["\ud800"])


@pytest.mark.parametrize("id", ["-\N{ARABIC-INDIC DIGIT ONE}", "-01", "-0", "-1 ", "--1"])
def test_ids_have_one_form_only(id, path):
    experiment = create_experiment(f"sqlite:///{path}", policy="ucb")
    experiment.ask()
    with pytest.raises(UnknownDecision):
        experiment.tell(experiment.record.tag + id, 1.0)


def test_a_process_may_end_without_closing(path, monkeypatch):
    """Its modules go first."""
    path.touch()
    descriptor = os.open(path, os.O_RDONLY)
    journal = sqlite_guard.Journal(descriptor)
    with monkeypatch.context() as patch:
        patch.setattr(sqlite_guard, "os", None)
        del journal
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
