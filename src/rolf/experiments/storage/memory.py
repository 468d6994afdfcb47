"""Experiments in the memory of this process: for trying things out, and for tests."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

from rolf.errors import UnknownExperiment
from rolf.experiments.storage.base import (
    DECISION,
    DEFAULT,
    REWARD,
    LogRow,
    MakeRows,
    Reader,
    Record,
    Rewards,
    Row,
    Snapshot,
    Store,
    Told,
    Written,
)


class _Experiment:
    """A record, its log, and each row of the log by number and kind."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.rows: list[Row] = []
        self.by_number: dict[tuple[int, int], Row] = {}
        self.snapshot: Snapshot | None = None

    def add(self, row: Row) -> Row:
        row = row._replace(seq=len(self.rows) + 1)
        self.rows.append(row)
        self.by_number[row.number, row.kind] = row
        return row

    def add_reward(self, number: int, kind: int, reward: float, time: float) -> None:
        decision = self.by_number[number, DECISION]
        late = kind == REWARD and (number, DEFAULT) in self.by_number
        self.add(decision.rewarded(kind, reward, time, replaces_default=late))


class _Database:
    """All experiments of one URL."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.experiments: dict[int, _Experiment] = {}
        self.last_id = 0


_databases: dict[str, _Database] = {}
_databases_lock = threading.Lock()


class MemoryReader(Reader):
    def __init__(self, experiment: int, after: int) -> None:
        super().__init__(experiment)
        self.after = after


class MemoryStore(Store):
    """Shared by everything in this process that opens the same URL; gone when it ends."""

    def __init__(self, name: str) -> None:
        with _databases_lock:
            self._database = _databases.setdefault(name, _Database())
        self._lock = self._database.lock

    def _experiment(self, experiment: int) -> _Experiment:
        try:
            return self._database.experiments[experiment]
        except KeyError:
            raise UnknownExperiment("the experiment has been deleted") from None

    def create(self, record: Record, rows: Sequence[Row] = ()) -> Record | None:
        with self._lock:
            if self.find(record.name) is not None:
                return None
            self._database.last_id += 1
            record = record._replace(id=self._database.last_id)
            experiment = self._database.experiments[record.id] = _Experiment(record)
            for row in rows:
                experiment.add(row)
            return record

    def find(self, name: str) -> Record | None:
        with self._lock:
            records = (each.record for each in self._database.experiments.values())
            return next((record for record in records if record.name == name), None)

    def names(self) -> list[str]:
        with self._lock:
            return sorted(each.record.name for each in self._database.experiments.values())

    def delete(self, experiment: int) -> None:
        with self._lock:
            self._database.experiments.pop(experiment, None)

    def reader(self, experiment: int, after: int) -> Reader:
        return MemoryReader(experiment, after)

    def read(self, reader: Reader, upto: int | None = None) -> list[LogRow]:
        assert isinstance(reader, MemoryReader)
        with self._lock:
            rows = self._experiment(reader.experiment).rows[reader.after : upto]
            reader.after += len(rows)
            return list(rows)

    def settle(self, experiment: int) -> int:
        with self._lock:
            return len(self._experiment(experiment).rows)

    def write(self, reader: Reader, make_rows: MakeRows) -> Written:
        assert isinstance(reader, MemoryReader)
        with self._lock:
            experiment = self._experiment(reader.experiment)
            rows = [experiment.add(row) for row in make_rows(self.read(reader))]
            reader.after = len(experiment.rows)
            return Written(rows, rows)

    def tell(self, reader: Reader, rewards: Rewards, time: float, *, has_defaults: bool) -> Told:
        with self._lock:
            experiment = self._experiment(reader.experiment)
            by_number = experiment.by_number
            recorded: dict[int, float | None] = {}
            for number, reward in rewards:
                if (number, DECISION) not in by_number:
                    recorded[number] = None
                elif (number, REWARD) in by_number:
                    recorded[number] = by_number[number, REWARD].reward
                else:
                    recorded.setdefault(number, reward)
            on_record = [recorded[number] for number, _ in rewards]
            if on_record == [reward for _, reward in rewards]:
                for number, reward in rewards:
                    if (number, REWARD) not in by_number:
                        experiment.add_reward(number, REWARD, reward, time)
            return Told(on_record)

    def expire(self, experiment: int, numbers: Sequence[int], reward: float, time: float) -> None:
        with self._lock:
            stored = self._experiment(experiment)
            for number in numbers:
                if not {(number, REWARD), (number, DEFAULT)} & stored.by_number.keys():
                    stored.add_reward(number, DEFAULT, reward, time)

    def log(self, experiment: int, after: int, upto: int | None) -> Iterator[LogRow]:
        with self._lock:
            return iter(self._experiment(experiment).rows[after:upto])

    def snapshot(self, experiment: int) -> Snapshot | None:
        with self._lock:
            return self._experiment(experiment).snapshot

    def save(self, experiment: int, snapshot: Snapshot) -> None:
        with self._lock:
            stored = self._experiment(experiment)
            if stored.snapshot is None or stored.snapshot.upto <= snapshot.upto:
                stored.snapshot = snapshot

    def forget(self, experiment: int) -> None:
        with self._lock:
            self._experiment(experiment).snapshot = None

    def close(self) -> None:
        """Nothing to release."""


def open_store(url: str, create: bool) -> MemoryStore:
    return MemoryStore(url.partition("://")[2])
