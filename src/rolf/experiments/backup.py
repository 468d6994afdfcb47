"""Experiments copied from one database to another: backups, and what is restored from them.

A backup is a SQLite database like any other. A log only ever grows at its end, so as far as it
is read it is consistent, however much is written meanwhile.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path

from rolf.errors import (
    DifferentExperiment,
    InvalidArgument,
    RolfError,
    StorageError,
    UnknownExperiment,
)
from rolf.experiments.storage.base import (
    ABANDONED,
    PART,
    LogRow,
    Record,
    Row,
    Snapshot,
    Store,
    import_name,
    log_rows,
)
from rolf.experiments.storage.urls import connect, connect_existing
from rolf.progress import progress_bar

#: characters of features that are appended at a time, next to PART rows
MAX_TEXT = 1_000_000

Progress = bool | Callable[[str], None] | None


def backup(
    url: str, path: str | Path, names: Sequence[str] | None = None, *, progress: Progress = None
) -> list[str]:
    """Write experiments, all by default, to a new file while they are in use; returns their names.

    Args:
        url: of the database.
        path: of the backup, a SQLite database of its own, which ``restore`` reads.
        names: of the experiments.
        progress: whether to show a progress bar; by default only on a terminal.
    """
    store = connect_existing(url)
    if store is None:
        raise UnknownExperiment("there is no database to back up")
    try:
        return back_up(store, path, names, progress=progress)
    finally:
        store.close()


def restore(
    path: str | Path, url: str, names: Sequence[str] | None = None, *, progress: Progress = None
) -> list[str]:
    """Put the experiments of a backup into a database, all or none; returns their names.

    Args:
        path: of the backup, which is not changed.
        url: of the database, which must not have experiments with these names.
        names: of the experiments; all by default.
        progress: whether to show a progress bar; by default only on a terminal.
    """
    with _opened(Path(path)) as source:
        chosen = source.names() if names is None else list(names)
        target = connect(url)
        try:
            taken = set(chosen) & set(target.names())
            if taken:
                words = ", ".join(map(repr, sorted(taken)))
                raise DifferentExperiment(f"there are experiments called {words} already")
            _copy_all(source, target, chosen, progress, "restoring")
        finally:
            target.close()
    return chosen


def back_up(
    store: Store, path: str | Path, names: Sequence[str] | None = None, progress: Progress = None
) -> list[str]:
    """Copy experiments to a new file, which appears when it is complete."""
    target = Path(path)
    if target.exists():
        raise InvalidArgument("path", str(target), "a file that does not exist yet")
    if not target.parent.is_dir():
        raise InvalidArgument("path", str(target), "a file in a folder that exists")
    chosen = store.names() if names is None else list(names)
    prefix = f".{target.name}.partial-"
    for left in target.parent.glob(f"{prefix}*"):  # by a process that was killed
        if left.stat().st_mtime < time.time() - ABANDONED:
            shutil.rmtree(left, ignore_errors=True)
    try:
        with tempfile.TemporaryDirectory(prefix=prefix, dir=target.parent) as folder:
            partial = Path(folder) / "backup.db"
            copy = connect(f"sqlite:///{partial}")
            try:
                _copy_all(store, copy, chosen, progress, "copying")
            finally:
                copy.close()
            os.link(partial, target)  # unlike a renaming, it replaces nothing
    except OSError as error:
        raise RolfError(f"{target}: cannot be written ({error.strerror or error})") from None
    return chosen


@contextmanager
def _opened(path: Path) -> Iterator[Store]:
    """The store in a backup. A copy of it is opened, as opening may bring it up to date, unless
    it is in use."""
    if not path.is_file():
        raise InvalidArgument("path", str(path), "a backup")
    with tempfile.TemporaryDirectory(prefix="rolf-restore") as folder:
        opened = path
        if not Path(f"{path}-wal").exists():
            opened = Path(folder) / "backup.db"
            try:
                shutil.copyfile(path, opened)
            except OSError as error:
                raise RolfError(f"{path}: cannot be read ({error.strerror})") from None
        store = connect_existing(f"sqlite:///{opened}")
        if store is None:
            raise InvalidArgument("path", str(path), "a backup, which is not empty")
        try:
            yield store
        finally:
            store.close()


def _copy_all(
    source: Store, target: Store, names: Sequence[str], progress: Progress, what: str
) -> None:
    """Copy experiments under hidden names, and name them all at the end."""
    copies = []
    try:
        with progress_bar(progress, len(names), what) as done:
            for name in names:
                record = source.record(name)
                if record is None:
                    raise UnknownExperiment(f"no experiment is called {name!r}")
                snapshot = source.snapshot(record.id)
                rows = log_rows(source, record.id)
                copies.append((_fill(target, record, rows, snapshot), name))
                done(name)
        for copy, name in copies:
            _publish(target, copy, name)
    except BaseException:
        for copy, _ in copies:
            with suppress(StorageError):
                target.delete(copy.id)
        raise


def fill_experiment(store: Store, record: Record, rows: Iterable[LogRow]) -> Record:
    """Create an experiment with a log; it appears when it is complete."""
    if store.record(record.name) is not None:
        raise DifferentExperiment(f"there is an experiment called {record.name!r} already")
    hidden = _fill(store, record, rows)
    try:
        return _publish(store, hidden, record.name)
    except BaseException:
        store.delete(hidden.id)
        raise


def _publish(store: Store, hidden: Record, name: str) -> Record:
    if not store.rename(hidden.id, name):
        raise DifferentExperiment(f"there is an experiment called {name!r} already")
    return hidden._replace(name=name)


def _fill(
    store: Store, record: Record, rows: Iterable[LogRow], snapshot: Snapshot | None = None
) -> Record:
    """Create an experiment with a log under a hidden name, part by part."""
    hidden = store.create(record._replace(name=import_name()))
    assert hidden is not None
    try:
        last: int | None = 0
        for part in _parts(rows):
            last = store.append(hidden.id, part, after=last)
            if last is None:
                raise StorageError("the log to be copied holds two rows for the same place")
        if snapshot is not None:
            store.save(hidden.id, snapshot)
    except BaseException:
        with suppress(StorageError):
            store.delete(hidden.id)
        raise
    return hidden


def _parts(rows: Iterable[LogRow]) -> Iterator[list[Row]]:
    """Rows in parts, none of which takes long to append."""
    rest = iter(rows)
    while part := [Row(*row) for row in islice(rest, PART)]:
        size = sum(len(row.features or "") for row in part)
        step = max(1, PART * MAX_TEXT // max(size, MAX_TEXT))
        for first in range(0, len(part), step):
            yield part[first : first + step]
