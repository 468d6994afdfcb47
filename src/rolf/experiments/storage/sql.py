"""What the stores in SQL databases have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from rolf.experiments.storage.base import FIELDS, LogRow, Record, Snapshot, Store

MAX_SEQ = 2**62
CHUNK_ROWS = 20_000  # rows of the log that are fetched at a time


class SQLStore(Store):
    """Experiments and their snapshots; each database keeps the log in its own way."""

    placeholder: ClassVar[str]  # of a value in a statement

    @abstractmethod
    def _query(self, sql: str, values: Any = ()) -> list[Any]: ...

    @abstractmethod
    def _change(self, sql: str, values: Any) -> list[Any]:
        """One statement as a durable transaction; it returns rows if and only if it wrote."""

    @property
    def _creation(self) -> str:
        names = Record._fields[1:]
        values = ", ".join([self.placeholder] * len(names))
        return (
            f"INSERT INTO rolf_experiments ({', '.join(names)}) "
            f"VALUES ({values}) ON CONFLICT DO NOTHING RETURNING id"
        )

    def find(self, name: str) -> Record | None:
        sql = f"SELECT {FIELDS} FROM rolf_experiments WHERE name = {self.placeholder}"
        rows = self._query(sql, (name,))
        return Record(*rows[0]) if rows else None

    def names(self) -> list[str]:
        return sorted(name for (name,) in self._query("SELECT name FROM rolf_experiments"))

    def snapshot(self, experiment: int) -> Snapshot | None:
        columns = ", ".join(Snapshot._fields)
        sql = f"SELECT {columns} FROM rolf_snapshots WHERE experiment = {self.placeholder}"
        rows = self._query(sql, (experiment,))
        return Snapshot(*rows[0]) if rows else None

    def save(self, experiment: int, snapshot: Snapshot) -> None:
        self._change(
            f"INSERT INTO rolf_snapshots VALUES ({', '.join([self.placeholder] * 4)}) "
            "ON CONFLICT (experiment) DO UPDATE SET "
            "upto = excluded.upto, version = excluded.version, state = excluded.state "
            "WHERE excluded.upto >= rolf_snapshots.upto RETURNING upto",
            (experiment, *snapshot),
        )

    def forget(self, experiment: int) -> None:
        sql = f"DELETE FROM rolf_snapshots WHERE experiment = {self.placeholder} RETURNING 1"
        self._change(sql, (experiment,))


def in_chunks(fetch: Callable[[int], list[LogRow]], after: int) -> Iterator[LogRow]:
    """All rows in order; ``fetch`` gives up to CHUNK_ROWS of those that follow a row."""
    while True:
        rows = fetch(after)
        yield from rows
        if len(rows) < CHUNK_ROWS:
            return
        after = rows[-1][0]
