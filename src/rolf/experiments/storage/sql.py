"""Shared by the SQL stores: reading logs, records, snapshots, and cleaning up."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias, TypeVar

from rolf.experiments.storage.contract import ABANDONED, HIDDEN, PART, Store, import_began
from rolf.experiments.storage.rows import COLUMNS, FIELDS, Key, LogRow, Record, Snapshot

T = TypeVar("T")

#: runs a statement with ? placeholders, and returns its rows
Execute: TypeAlias = Callable[..., list[Any]]

MAX_SEQ = 2**62
NAMES = ", ".join(Record._fields[1:])
CREATE = f"""
INSERT INTO rolf_experiments ({NAMES}) VALUES ({", ".join("?" * (len(Record._fields) - 1))})
ON CONFLICT DO NOTHING RETURNING id"""
RENAME = "UPDATE rolf_experiments SET name = ? WHERE id = ? RETURNING id"
SAVE = """
INSERT INTO rolf_snapshots SELECT id, {0}, {1}, {2} FROM rolf_experiments WHERE id = ? {3}
ON CONFLICT (experiment) DO UPDATE
SET upto = excluded.upto, version = excluded.version, state = excluded.state
WHERE excluded.upto >= rolf_snapshots.upto RETURNING upto"""
READ = f"""
SELECT {COLUMNS} FROM rolf_log WHERE experiment = ? AND seq > ? AND seq <= ?
ORDER BY seq LIMIT ?"""
KEYS = f"SELECT {', '.join(Key._fields)} FROM rolf_keys"
#: log rows without an experiment, left by a process that died while deleting one
ORPHANS = """
WITH RECURSIVE logs (id) AS (
    SELECT min(experiment) FROM rolf_log UNION ALL
    SELECT (SELECT min(experiment) FROM rolf_log WHERE experiment > logs.id)
    FROM logs WHERE logs.id IS NOT NULL)
SELECT id FROM logs WHERE id IS NOT NULL AND id NOT IN (SELECT id FROM rolf_experiments)"""


class Taken(Exception):
    """A name or a place in a log is taken; nothing was changed."""


class SQLStore(Store):
    """Experiments and their snapshots; subclasses append to logs."""

    #: tables other than the log with rows per experiment, and their column with its id
    tables: ClassVar[dict[str, str]] = {"rolf_experiments": "id", "rolf_snapshots": "experiment"}
    snapshot_types: ClassVar[tuple[str, str, str]] = ("?", "?", "?")
    lock_record: ClassVar[str] = ""  # query suffix that keeps the experiment from being deleted

    @abstractmethod
    def _query(self, sql: str, values: Sequence[Any] = ()) -> list[Any]: ...

    @abstractmethod
    def _change(self, action: Callable[[Execute], T]) -> T:
        """Run statements in one durable transaction; raise Taken on a uniqueness conflict."""

    def read(
        self, experiment: int, after: int, upto: int | None = None, limit: int = PART
    ) -> list[LogRow]:
        return self._query(READ, (experiment, after, upto or MAX_SEQ, limit))

    # --- records ---

    def create(self, record: Record) -> Record | None:
        if record.name.startswith(HIDDEN):
            self._clear_up()

        def action(execute: Execute) -> list[Any]:
            ids = execute(CREATE, record[1:])
            if ids and "rolf_heads" in self.tables:
                execute("INSERT INTO rolf_heads VALUES (?, 0)", ids[0])
            return ids

        ids = self._change(action)
        return record._replace(id=ids[0][0]) if ids else None

    def record(self, name: str) -> Record | None:
        rows = self._query(f"SELECT {FIELDS} FROM rolf_experiments WHERE name = ?", (name,))
        return Record(*rows[0]) if rows else None

    def names(self) -> list[str]:
        names = (name for (name,) in self._query("SELECT name FROM rolf_experiments"))
        return sorted(name for name in names if not name.startswith(HIDDEN))

    def rename(self, names: Mapping[int, str]) -> bool:
        def action(execute: Execute) -> None:
            for id, name in names.items():
                if not execute(RENAME, (name, id)):
                    raise Taken

        try:
            self._change(action)
        except Taken:
            return False
        return True

    def delete(self, experiment: int) -> None:
        self._delete(experiment)
        self._clear_up()

    def _delete(self, experiment: int) -> None:
        """Delete everything except the log; from then on nothing is appended to it."""

        def action(execute: Execute) -> None:
            for table, column in self.tables.items():
                execute(f"DELETE FROM {table} WHERE {column} = ? RETURNING 1", (experiment,))

        self._change(action)

    def _clear_up(self) -> None:
        """Delete abandoned imports and logs without an experiment, part by part."""
        hidden = "SELECT id, name FROM rolf_experiments WHERE substr(name, 1, 1) = ?"
        for id, name in self._query(hidden, (HIDDEN,)):
            if import_began(name) < time.time() - ABANDONED:
                self._delete(id)
        for (experiment,) in self._query(ORPHANS):
            self._delete_log(experiment)

    def _delete_log(self, experiment: int) -> None:
        first = "SELECT seq FROM rolf_log WHERE experiment = ? ORDER BY seq LIMIT 1"
        part = "DELETE FROM rolf_log WHERE experiment = ? AND seq < ? RETURNING 1"
        while rows := self._query(first, (experiment,)):
            values = (experiment, rows[0][0] + PART)
            self._change(lambda execute: execute(part, values))  # noqa: B023  (called immediately)

    # --- snapshots ---

    def snapshot(self, experiment: int) -> Snapshot | None:
        columns = ", ".join(Snapshot._fields)
        sql = f"SELECT {columns} FROM rolf_snapshots WHERE experiment = ?"
        rows = self._query(sql, (experiment,))
        return Snapshot(*rows[0]) if rows else None

    def save(self, experiment: int, snapshot: Snapshot) -> None:
        sql = SAVE.format(*self.snapshot_types, self.lock_record)
        self._change(lambda execute: execute(sql, (*snapshot, experiment)))

    def forget(self, experiment: int) -> None:
        sql = "DELETE FROM rolf_snapshots WHERE experiment = ? RETURNING 1"
        self._change(lambda execute: execute(sql, (experiment,)))

    # --- API keys ---

    def keys(self) -> list[Key]:
        return [Key(*row) for row in self._query(f"{KEYS} ORDER BY created, id")]

    def key(self, id: str) -> Key | None:
        rows = self._query(f"{KEYS} WHERE id = ?", (id,))
        return Key(*rows[0]) if rows else None

    def add_key(self, key: Key) -> None:
        sql = f"INSERT INTO rolf_keys VALUES ({', '.join('?' * len(key))}) RETURNING 1"
        self._change(lambda execute: execute(sql, key))

    def revoke_key(self, id: str, time: float) -> bool:
        sql = "UPDATE rolf_keys SET revoked = coalesce(revoked, ?) WHERE id = ? RETURNING 1"
        return bool(self._change(lambda execute: execute(sql, (time, id))))
