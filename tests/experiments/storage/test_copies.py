"""Files that are copied, deleted or replaced under an open experiment, and backups under load."""

from __future__ import annotations

import multiprocessing
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import time

import pytest

import rolf
from rolf.errors import (
    InvalidArgument,
    RolfError,
    StorageUnavailable,
    UnknownExperiment,
    UnusableStorage,
)
from rolf.experiments.database import Database
from rolf.experiments.storage.contract import PART
from rolf.experiments.storage.rows import DECISION, REWARD
from rolf.experiments.storage.sqlite import guard as sqlite_guard
from rolf.experiments.transfer import backup as backup_module
from rolf.testing.experiments import rows_of
from rolf.testing.storage import create_experiment, current_state, folded_state, play
from support.stores import make_url, quick_folder


@pytest.fixture
def path():
    return quick_folder("rolf-copy") / "experiments.db"


PLAY_AND_CLOSE = """
import sys, rolf
with rolf.open_experiment(sys.argv[1], "one") as experiment:
    for _ in range(int(sys.argv[2])):
        experiment.tell(experiment.ask(), 1.0)
"""


def play_elsewhere(url, rounds):
    """Another process opens the experiment, plays and closes it."""
    command = [sys.executable, "-c", PLAY_AND_CLOSE, url, str(rounds)]
    subprocess.run(command, check=True, timeout=60)


def copy_everything(path):
    for end in ("", "-wal", "-shm"):
        shutil.copy(f"{path}{end}", path.parent / f"copy{end}")


@pytest.mark.parametrize("when", ["before others open it", "while others have it open"])
def test_a_copy_in_the_same_process_loses_nothing(path, when):
    """It drops this process's POSIX locks on all files that it reads."""
    url = f"sqlite:///{path}"
    one = create_experiment(url, policy="ucb")
    play(one, 10)
    if when == "before others open it":
        copy_everything(path)
        play_elsewhere(url, 5)
        play(one, 10)
    else:
        with subprocess.Popen(
            [sys.executable, "-c", PLAY_AND_CLOSE.replace("0)\n", "0)\n    input()\n"), url, "5"],
            stdin=subprocess.PIPE,
        ) as other:
            while one.counts().told < 15:
                time.sleep(0.01)
            copy_everything(path)
            other.communicate(b"\n", timeout=60)
        play(one, 10)
    one.ask()
    tally = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys, rolf; print(rolf.open_experiment(sys.argv[1], 'one'))",
            url,
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert "26 asked, 25 told" in tally.stdout
    assert one.status().told == 25
    assert current_state(one) == folded_state(one)


def test_the_guard_holds_locks_of_its_own(path):
    """Another process could otherwise believe itself alone with the file."""
    url = f"sqlite:///{path}"
    experiment = create_experiment(url, policy="ucb")
    copy_everything(path)
    code = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], timeout=0.2); "
        "c.execute('SELECT 1 FROM rolf_meta').fetchall(); c.close()"
    )
    subprocess.run([sys.executable, "-c", code, path], check=True, timeout=60)
    assert os.path.exists(f"{path}-wal")
    play(experiment, 2)
    experiment.close()
    assert not os.path.exists(f"{path}-wal")


def test_a_file_that_is_deleted_is_noticed(path):
    experiment = create_experiment(f"sqlite:///{path}", policy="ucb")
    decision = experiment.ask()
    path.rename(path.with_name("elsewhere.db"))
    for action in (experiment.ask, lambda: experiment.tell(decision, 1.0), experiment.status):
        with pytest.raises(UnusableStorage, match="deleted or moved"):
            action()
    path.with_name("elsewhere.db").rename(path)
    experiment.tell(decision, 1.0)
    path.unlink()
    with pytest.raises(UnusableStorage, match="deleted or moved"):
        experiment.ask()
    assert not path.exists()


def test_a_file_that_is_replaced_is_noticed(path):
    url = f"sqlite:///{path}"
    experiment = create_experiment(url, policy="ucb")
    play(experiment, 3)
    experiment.backup(path.with_name("backup.db"))
    play(experiment, 3)
    os.replace(path.with_name("backup.db"), path)
    with pytest.raises(UnusableStorage, match="was replaced"):
        experiment.ask()
    experiment.close()
    for end in ("-wal", "-shm"):
        if os.path.exists(f"{path}{end}"):
            os.unlink(f"{path}{end}")
    assert rolf.open_experiment(url, "one").status().told == 3


def test_a_journal_that_is_deleted_is_noticed(path):
    experiment = create_experiment(f"sqlite:///{path}", policy="ucb")
    play(experiment, 3)
    os.unlink(f"{path}-wal")
    with pytest.raises(UnusableStorage, match="-wal: was deleted"):
        experiment.ask()


def test_a_system_without_such_locks(path, monkeypatch):
    monkeypatch.setattr(sqlite_guard, "SET_LOCK", None)
    with create_experiment(f"sqlite:///{path}", policy="ucb") as experiment:
        play(experiment, 3)
    assert rolf.open_experiment(f"sqlite:///{path}", "one").status().told == 3


# --- backups ---


def work(url, stop):
    experiment = rolf.open_experiment(url, "one")
    while not stop.is_set():
        decisions = experiment.ask_many(3)
        experiment.tell_many([(each, 1.0) for each in decisions[:2]])


@pytest.mark.slow
def test_backups_under_load_are_consistent(shared_url, tmp_path):
    """Each is a beginning of the log; restored, it goes on where it was."""
    experiment = create_experiment(shared_url, policy="ucb")
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    workers = [context.Process(target=work, args=(shared_url, stop)) for _ in range(2)]
    for worker in workers:
        worker.start()
    deadline = time.monotonic() + 60
    while experiment.counts().told < 20 and time.monotonic() < deadline:
        time.sleep(0.02)
    paths = [tmp_path / f"{number}.db" for number in range(5)]
    lengths = []
    for path in paths:
        time.sleep(0.05)
        before = experiment.counts()
        experiment.backup(path)
        lengths.append((before, experiment.counts()))
    stop.set()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    log = rows_of(experiment)
    for path, (before, after) in zip(paths, lengths, strict=True):
        target = make_url("sqlite" if shared_url.startswith("postgres") else "postgresql")
        assert rolf.connect(target).restore(path) == ["one"]
        restored = rolf.open_experiment(target, "one")
        rows = rows_of(restored)
        assert rows == log[: len(rows)]
        asked, told = restored.counts()
        assert before.asked <= asked <= after.asked
        assert before.told <= told <= after.told
        assert {row.number for row in rows if row.kind == REWARD} <= {
            row.number for row in rows if row.kind == DECISION
        }
        restored.tell(restored.ask(), 1.0)
        assert current_state(restored) == folded_state(restored)


def test_a_backup_that_fails_leaves_nothing(path, monkeypatch):
    url = f"sqlite:///{path}"
    create_experiment(url, policy="ucb").ask()
    before = set(path.parent.iterdir())

    def broken(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(backup_module, "log_rows", broken)
    with pytest.raises(KeyboardInterrupt):
        rolf.connect(url).backup(path.with_name("backup.db"))
    assert set(path.parent.iterdir()) == before
    with pytest.raises(KeyboardInterrupt):
        rolf.connect(make_url("sqlite")).restore(path)
    target = make_url("memory")
    with pytest.raises(KeyboardInterrupt):
        rolf.connect(target).restore(path)
    assert Database(target).names() == []


def test_restoring_is_all_or_none(path, monkeypatch):
    """Also where somebody creates an experiment of the same name at the last moment."""
    url, target = f"sqlite:///{path}", make_url("sqlite")
    for name in ("one", "two"):
        play(create_experiment(url, name, policy="ucb"), 3)
    rolf.connect(url).backup(path.with_name("backup.db"))
    copy_all = backup_module._copy_all

    def create_first(*args):
        create_experiment(target, "two", policy="ucb")
        copy_all(*args)

    monkeypatch.setattr(backup_module, "_copy_all", create_first)
    with pytest.raises(rolf.errors.DifferentExperiment, match="'two'"):
        rolf.connect(target).restore(path.with_name("backup.db"))
    assert Database(target).names() == ["two"]
    (count,) = (
        sqlite3.connect(target.removeprefix("sqlite:///"))
        .execute("SELECT count(*) FROM rolf_log")
        .fetchone()
    )
    assert count == 0


@pytest.mark.parametrize("read_only", [False, True])
def test_restoring_leaves_the_backup_as_it_is(path, read_only):
    url = f"sqlite:///{path}"
    play(create_experiment(url, policy="ucb"), 3)
    copy = path.with_name("backup.db")
    rolf.connect(url).backup(copy)
    if read_only:
        copy.chmod(0o400)
    before = copy.read_bytes()
    rolf.connect(make_url("memory")).restore(copy)
    assert copy.read_bytes() == before
    assert not os.path.exists(f"{copy}-wal")


def test_backups_and_restores_that_make_no_sense(path):
    url = f"sqlite:///{path}"
    with pytest.raises(UnknownExperiment, match="no database"):
        rolf.connect(url).backup(path.with_name("x.db"))
    play(create_experiment(url, policy="ucb"), 1)
    with pytest.raises(InvalidArgument, match="existing folder"):
        rolf.connect(url).backup(path.parent / "none" / "x.db")
    with pytest.raises(InvalidArgument, match="a backup"):
        rolf.connect(url).restore(path.with_name("none.db"))
    text = path.with_name("text.db")
    text.write_text("hello" * 100)
    with pytest.raises(RolfError, match="not a SQLite database"):
        rolf.connect(url).restore(text)
    assert Database(url).names() == ["one"]


def test_a_backup_on_a_full_disk_is_an_error(tmp_path):
    """Not a file that lacks what did not fit."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=1500k", "tmpfs", str(tmp_path)]
    if os.geteuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root can make a small disk")
    try:
        experiment = create_experiment(make_url("sqlite"), policy="ucb")
        outcomes = set()
        for rows in (500, 1000, 1500, 2000, 2500, 3000, 4000, 6000, 8000, 10000):
            experiment.ask_many(rows - experiment.counts().asked)
            backup = tmp_path / "backup.db"
            try:
                experiment.backup(backup)
            except StorageUnavailable as error:
                outcomes.add(re.sub(".*(the disk is full).*", r"\1", str(error)))
                assert list(tmp_path.iterdir()) == []
            else:
                copy = make_url("sqlite")
                rolf.connect(copy).restore(backup)
                assert rolf.open_experiment(copy, "one").counts().asked == rows
                outcomes.add("written")
                backup.unlink()
        assert outcomes == {"the disk is full", "written"}
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_what_is_deleted_meanwhile_is_not_copied_in_part(shared_url, tmp_path, monkeypatch):
    experiment = create_experiment(shared_url, policy="ucb")
    experiment.ask_many(2 * PART + 5)
    other = rolf.open_experiment(shared_url, "one")
    behind = rolf.open_experiment(shared_url, "one")
    experiment.ask_many(2 * PART)
    read = experiment.synced.store.read

    def read_and_delete(*args):
        rows = read(*args)
        if len(reads := [*calls, args]) == 2:
            other.delete(confirm="one")
        calls[:] = reads
        return rows

    calls = []
    monkeypatch.setattr(experiment.synced.store, "read", read_and_delete)
    with pytest.raises(UnknownExperiment, match="deleted"):
        experiment.backup(tmp_path / "backup.db")
    assert list(tmp_path.iterdir()) == []
    for call in (experiment.log, behind.log, behind.rebuild):
        with pytest.raises(UnknownExperiment, match="deleted"):
            call()


def test_rows_that_vanish_from_the_beginning(shared_url):
    """Somebody deletes the experiment while this process is far behind."""
    experiment = create_experiment(shared_url, policy="ucb")
    behind = rolf.open_experiment(shared_url, "one")
    experiment.ask_many(5)
    delete = "DELETE FROM rolf_log WHERE seq < 3 RETURNING 1"
    experiment.synced.store._change(lambda execute: execute(delete))
    with pytest.raises(UnusableStorage, match="row 3 follows row 0"):
        behind.status()
    experiment.synced.store._delete(experiment.record.id)
    with pytest.raises(UnknownExperiment, match="deleted"):
        behind.status()


@pytest.mark.parametrize("path", ["x\0y", "\ud800", "a" * 300, None, 5, b"x"])
def test_paths_that_no_file_can_have(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    experiment = create_experiment(make_url("memory"), policy="ucb")
    for call in (
        lambda: experiment.backup(path),
        lambda: rolf.connect(make_url("memory")).restore(path),
        lambda: experiment.export(path),
        lambda: experiment.learn_file(path, "arm", "reward"),
    ):
        with pytest.raises(RolfError):
            call()


# --- on the command line ---


def test_a_damaged_experiment_can_be_deleted(shared_url):
    experiment = create_experiment(shared_url, policy="ucb")
    play(experiment, 3)
    change = "UPDATE rolf_log SET arm = 77 WHERE seq = 1 RETURNING 1"
    experiment.synced.store._change(lambda execute: execute(change))
    with pytest.raises(UnusableStorage, match="damaged"):
        rolf.open_experiment(shared_url, "one")
    with pytest.raises(InvalidArgument, match="confirm"):
        rolf.connect(shared_url).delete("one", confirm="x")
    rolf.connect(shared_url).delete("one", confirm="one")
    assert Database(shared_url).names() == []
