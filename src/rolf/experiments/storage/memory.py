"""Experiments in the memory of this process, for trials and tests."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from rolf.errors import UnknownExperiment
from rolf.experiments.storage.contract import HIDDEN, PART, Store
from rolf.experiments.storage.forks import take_part
from rolf.experiments.storage.rows import APART, LogRow, Record, Row, Snapshot


class _Experiment:
    """A record, its log, and the rows of each decision."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.rows: list[Row] = []
        self.places: set[tuple[int, int]] = set()
        self.decisions: dict[int, list[Row]] = {}
        self.snapshot: Snapshot | None = None

    def add(self, row: Row) -> None:
        row = row._replace(seq=len(self.rows) + 1)
        self.rows.append(row)
        self.places.add(row.place)
        if row.kind not in APART:
            self.decisions.setdefault(row.number, []).append(row)


class _Database:
    """All experiments under one URL."""

    def __init__(self) -> None:
        self.experiments: dict[int, _Experiment] = {}
        self.last_id = 0


class _Databases:
    """The databases of this process by name, and one lock for all of them."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.named: dict[str, _Database] = {}
        take_part(self)

    def before_fork(self) -> None:
        self.lock.acquire()

    def after_fork(self, in_child: bool) -> None:
        self.lock.release()


_databases = _Databases()


class MemoryStore(Store):
    """A store shared by all users of the same URL in this process, and gone when the process ends.

    A child process gets its own copy.
    """

    def __init__(self, name: str) -> None:
        self._lock = _databases.lock
        with self._lock:
            self._database = _databases.named.setdefault(name, _Database())

    def _experiment(self, experiment: int) -> _Experiment:
        try:
            return self._database.experiments[experiment]
        except KeyError:
            raise UnknownExperiment("the experiment has been deleted") from None

    # --- logs ---

    def append(self, experiment: int, rows: Sequence[Row], after: int | None = None) -> int | None:
        with self._lock:
            stored = self._experiment(experiment)
            places = {row.place for row in rows}
            if len(places) < len(rows) or places & stored.places:
                return None
            if after is not None and after != len(stored.rows):
                return None
            for row in rows:
                stored.add(row)
            return len(stored.rows)

    def settle(self) -> None:
        """Nothing to do: memory is never durable."""

    def read(
        self, experiment: int, after: int, upto: int | None = None, limit: int = PART
    ) -> list[LogRow]:
        with self._lock:
            return list(self._experiment(experiment).rows[after:upto][:limit])

    def find(self, experiment: int, numbers: Sequence[int]) -> list[LogRow]:
        with self._lock:
            decisions = self._experiment(experiment).decisions
            return [row for number in numbers for row in decisions.get(number, ())]

    # --- records ---

    def create(self, record: Record) -> Record | None:
        with self._lock:
            if self.record(record.name) is not None:
                return None
            self._database.last_id += 1
            record = record._replace(id=self._database.last_id)
            self._database.experiments[record.id] = _Experiment(record)
            return record

    def record(self, name: str) -> Record | None:
        with self._lock:
            records = (each.record for each in self._database.experiments.values())
            return next((record for record in records if record.name == name), None)

    def names(self) -> list[str]:
        with self._lock:
            names = (each.record.name for each in self._database.experiments.values())
            return sorted(name for name in names if not name.startswith(HIDDEN))

    def rename(self, names: Mapping[int, str]) -> bool:
        with self._lock:
            known = self._database.experiments
            if any(self.record(name) for name in names.values()) or not names.keys() <= set(known):
                return False
            for id, name in names.items():
                known[id].record = known[id].record._replace(name=name)
            return True

    def delete(self, experiment: int) -> None:
        with self._lock:
            self._database.experiments.pop(experiment, None)

    # --- snapshots ---

    def snapshot(self, experiment: int) -> Snapshot | None:
        with self._lock:
            return self._experiment(experiment).snapshot

    def save(self, experiment: int, snapshot: Snapshot) -> None:
        with self._lock:
            stored = self._database.experiments.get(experiment)
            if stored and (stored.snapshot is None or stored.snapshot.upto <= snapshot.upto):
                stored.snapshot = snapshot

    def forget(self, experiment: int) -> None:
        with self._lock:
            self._experiment(experiment).snapshot = None

    def close(self) -> None:
        """Nothing to release."""


def open_store(url: str, create: bool, timeout: float) -> MemoryStore:
    return MemoryStore(url.partition("://")[2])
