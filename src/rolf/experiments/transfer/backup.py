"""Copy experiments between databases: back up and restore.

A backup is an ordinary SQLite database. Since logs only grow at their end, whatever has been read
is consistent, even while others write.
"""

from __future__ import annotations

import functools
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any

from rolf.errors import (
    DifferentExperiment,
    InvalidArgument,
    RolfError,
    StorageError,
    UnknownExperiment,
)
from rolf.experiments.storage.contract import (
    ABANDONED,
    PART,
    Store,
    import_name,
    log_rows,
    part_size,
)
from rolf.experiments.storage.rows import LogRow, Record, Row, Snapshot
from rolf.experiments.storage.sqlite.store import SQLiteStore
from rolf.experiments.storage.urls import connect_existing
from rolf.experiments.transfer.conversion import Conversion
from rolf.progress import Progress, progress_bar
from rolf.tables.durable import sync_folder

#: seconds to wait for a lock on a private file
BACKUP_TIMEOUT = 30.0


def restore_into(
    target: Store,
    path: str | Path,
    names: Sequence[str] | None = None,
    *,
    policy: Any = None,
    options: Mapping[str, Any] | None = None,
    progress: Progress = None,
) -> list[str]:
    """Restore the experiments of a backup to a database, all or none; return their names.

    The arguments are those of ``Database.restore``.
    """
    with _opened(_checked(path)) as source:
        chosen = source.names() if names is None else list(names)
        taken = set(chosen) & set(target.names())
        if taken:
            words = ", ".join(map(repr, sorted(taken)))
            raise DifferentExperiment(f"experiments named {words} already exist")

        def fill(record: Record) -> Record:
            if policy is None:
                return _copied(source, target, record)
            converted = Conversion(source, record, policy, options)
            copy = _fill(target, converted.record, converted.rows())
            assert converted.snapshot is not None
            target.save(copy.id, converted.snapshot)
            return copy

        _copy_all(source, target, chosen, progress, "restoring", fill)
    return chosen


def back_up(
    store: Store, path: str | Path, names: Sequence[str] | None = None, progress: Progress = None
) -> list[str]:
    """Copy experiments to a new file, which appears only when complete."""
    target = _checked(path)
    with _readable(target):
        if target.exists():
            raise InvalidArgument("path", str(target), "a file that does not exist yet")
        if not target.parent.is_dir():
            raise InvalidArgument("path", str(target), "a file in an existing folder")
    chosen = store.names() if names is None else list(names)
    prefix = f".{target.name}.partial-"
    try:
        _remove_abandoned(target.parent, prefix)
        with _folder(prefix, target.parent) as folder:
            partial = folder / "backup.db"
            with closing(SQLiteStore(str(partial), BACKUP_TIMEOUT)) as copy:
                _copy_all(
                    store,
                    copy,
                    chosen,
                    progress,
                    "copying",
                    functools.partial(_copied, store, copy),
                )
                copy.move_into_file()
            _publish_file(partial, target)
    except RolfError:
        raise
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise RolfError(f"{target}: cannot be written ({reason})") from None
    return chosen


def _publish_file(partial: Path, target: Path) -> None:
    """Give a complete file its final name, durably and without replacing a file."""
    with open(partial, "rb") as file:
        os.fsync(file.fileno())
    try:
        os.link(partial, target)
    except FileExistsError:
        raise
    except OSError:  # no hard links here
        partial.rename(target)
    sync_folder(target.parent)


def _remove_abandoned(folder: Path, prefix: str) -> None:
    """Remove leftovers of killed processes."""
    for left in folder.iterdir():
        with suppress(OSError):
            if left.name.startswith(prefix) and left.stat().st_mtime < time.time() - ABANDONED:
                shutil.rmtree(left, ignore_errors=True)


@contextmanager
def _folder(prefix: str, parent: Path | None = None) -> Iterator[Path]:
    """A temporary folder. Unlike ``tempfile.TemporaryDirectory``, it survives the end of a forked
    process."""
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    process = os.getpid()
    try:
        yield folder
    finally:
        if os.getpid() == process:
            shutil.rmtree(folder, ignore_errors=True)


def _checked(path: object) -> Path:
    if not isinstance(path, str | Path):
        raise InvalidArgument("path", path, "the path of a file")
    return Path(path)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Refuse a path that no file can have."""
    try:
        yield
    except InvalidArgument:
        raise
    except (OSError, ValueError):
        raise InvalidArgument("path", str(path), "the path of a file") from None


@contextmanager
def _opened(path: Path) -> Iterator[Store]:
    """Open the store in a backup, from a copy unless it is in use, since opening may modify it."""
    with _readable(path):
        if not path.is_file():
            raise InvalidArgument("path", str(path), "a backup")
    with _folder("rolf-restore") as folder:
        opened = path
        if not Path(f"{path}-wal").exists():
            opened = folder / "backup.db"
            try:
                shutil.copyfile(path, opened)
            except OSError as error:
                raise RolfError(f"{path}: cannot be read ({error.strerror})") from None
        store = connect_existing(f"sqlite:///{opened}")
        if store is None:
            raise InvalidArgument("path", str(path), "a backup that is not empty")
        with closing(store):
            yield store


def _copied(source: Store, target: Store, record: Record) -> Record:
    """Copy an experiment with its log and its snapshot."""
    snapshot = source.snapshot(record.id)
    return _fill(target, record, log_rows(source, record), snapshot)


def _copy_all(
    source: Store,
    target: Store,
    names: Sequence[str],
    progress: Progress,
    what: str,
    fill: Callable[[Record], Record],
) -> None:
    """Copy experiments under hidden names, and rename them all at the end."""
    copies: dict[int, str] = {}
    try:
        with progress_bar(progress, len(names), what) as done:
            for name in names:
                record = source.record(name)
                if record is None:
                    raise UnknownExperiment(f"no experiment named {name!r}")
                copies[fill(record).id] = name
                done(name)
        if not target.rename(copies):
            words = ", ".join(map(repr, names))
            raise DifferentExperiment(f"an experiment named one of {words} already exists")
    except BaseException:
        for id in copies:
            with suppress(StorageError):
                target.delete(id)
        raise


def fill_experiment(store: Store, record: Record, rows: Iterable[LogRow]) -> Record:
    """Create an experiment with a log; it appears only when complete."""
    if store.record(record.name) is not None:
        raise DifferentExperiment(f"an experiment named {record.name!r} already exists")
    hidden = _fill(store, record, rows)
    if not store.rename({hidden.id: record.name}):
        store.delete(hidden.id)
        raise DifferentExperiment(f"an experiment named {record.name!r} already exists")
    return hidden._replace(name=record.name)


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
                raise StorageError("the log to copy has two rows for the same place")
        if snapshot is not None:
            store.save(hidden.id, snapshot)
    except BaseException:
        with suppress(StorageError):
            store.delete(hidden.id)
        raise
    return hidden


def _parts(rows: Iterable[LogRow]) -> Iterator[list[Row]]:
    """Split rows into parts that are quick to append."""
    rest = iter(rows)
    while part := [Row(*row) for row in islice(rest, PART)]:
        step = part_size(sum(len(row.details or "") for row in part) / len(part))
        for first in range(0, len(part), step):
            yield part[first : first + step]
