"""What stores in a database that speaks SQL have in common."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

from rolf.experiments.storage.base import FIELDS, Record, Snapshot, Store


class SQLStore(Store):
    """Experiments and their snapshots; how the log is kept differs."""

    mark: ClassVar[str]  # the place of a value in a statement

    @abstractmethod
    def _query(self, sql: str, values: Any = ()) -> list[Any]: ...

    @abstractmethod
    def _change(self, sql: str, values: Any) -> list[Any]:
        """One statement that is a durable transaction; what it returns shows that it wrote."""

    @property
    def _creation(self) -> str:
        names = Record._fields[1:]
        return (
            f"INSERT INTO rolf_experiments ({', '.join(names)}) "
            f"VALUES ({', '.join([self.mark] * len(names))}) ON CONFLICT DO NOTHING RETURNING id"
        )

    def find(self, name: str) -> Record | None:
        sql = f"SELECT {FIELDS} FROM rolf_experiments WHERE name = {self.mark}"
        rows = self._query(sql, (name,))
        return Record(*rows[0]) if rows else None

    def names(self) -> list[str]:
        return sorted(name for (name,) in self._query("SELECT name FROM rolf_experiments"))

    def snapshot(self, experiment: int) -> Snapshot | None:
        sql = f"SELECT upto, version, state FROM rolf_snapshots WHERE experiment = {self.mark}"
        rows = self._query(sql, (experiment,))
        return Snapshot(*rows[0]) if rows else None

    def save(self, experiment: int, snapshot: Snapshot) -> None:
        self._change(
            f"INSERT INTO rolf_snapshots VALUES ({', '.join([self.mark] * 4)}) "
            "ON CONFLICT (experiment) DO UPDATE SET "
            "upto = excluded.upto, version = excluded.version, state = excluded.state "
            "WHERE excluded.upto >= rolf_snapshots.upto RETURNING upto",
            (experiment, *snapshot),
        )

    def forget(self, experiment: int) -> None:
        sql = f"DELETE FROM rolf_snapshots WHERE experiment = {self.mark} RETURNING 1"
        self._change(sql, (experiment,))
