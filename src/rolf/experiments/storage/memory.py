"""Experiments in the memory of this process: for trying out, and for tests."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from rolf.errors import UnknownExperiment
from rolf.experiments.storage.base import (
    DECISION,
    DEFAULT,
    REWARD,
    Make,
    Reader,
    Record,
    Row,
    Snapshot,
    Store,
    Written,
)


class _Kept:
    """One experiment: its record, its log, and where each row of a decision is."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.rows: list[Row] = []
        self.found: dict[tuple[int, int], Row] = {}
        self.snapshot: Snapshot | None = None

    def add(self, row: Row) -> Row:
        row = row._replace(seq=len(self.rows) + 1)
        self.rows.append(row)
        self.found[row.number, row.kind] = row
        return row

    def reward(self, number: int, kind: int, reward: float, time: float) -> None:
        decision = self.found[number, DECISION]
        late = kind == REWARD and (number, DEFAULT) in self.found
        row = decision.features and json.dumps(json.loads(decision.features)[decision.arm])
        self.add(
            decision._replace(kind=kind, time=time, mark=int(late), features=row, reward=reward)
        )


class _Space:
    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.kept: dict[int, _Kept] = {}
        self.made = 0


_spaces: dict[str, _Space] = {}
_guard = threading.Lock()


class MemoryReader(Reader):
    def __init__(self, experiment: int, after: int) -> None:
        super().__init__(experiment)
        self.after = after


class MemoryStore(Store):
    """Shared by all that open the same URL in this process; gone with it."""

    def __init__(self, name: str) -> None:
        with _guard:
            self._space = _spaces.setdefault(name, _Space())

    def _kept(self, experiment: int) -> _Kept:
        try:
            return self._space.kept[experiment]
        except KeyError:
            raise UnknownExperiment("the experiment has been deleted") from None

    def create(self, record: Record, rows: Sequence[Row] = ()) -> Record | None:
        with self._space.lock:
            if self.find(record.name) is not None:
                return None
            self._space.made += 1
            record = record._replace(id=self._space.made)
            kept = self._space.kept[record.id] = _Kept(record)
            for row in rows:
                kept.add(row)
            return record

    def find(self, name: str) -> Record | None:
        with self._space.lock:
            found = [k.record for k in self._space.kept.values() if k.record.name == name]
            return found[0] if found else None

    def names(self) -> list[str]:
        with self._space.lock:
            return sorted(kept.record.name for kept in self._space.kept.values())

    def delete(self, experiment: int) -> None:
        with self._space.lock:
            self._space.kept.pop(experiment, None)

    def reader(self, experiment: int, after: int) -> Reader:
        return MemoryReader(experiment, after)

    def read(self, reader: Reader, upto: int | None = None) -> list[Any]:
        assert isinstance(reader, MemoryReader)
        with self._space.lock:
            rows = self._kept(reader.experiment).rows[reader.after : upto]
            reader.after += len(rows)
            return list(rows)

    def settle(self, experiment: int) -> int:
        with self._space.lock:
            return len(self._kept(experiment).rows)

    def write(self, reader: Reader, make: Make) -> Written:
        assert isinstance(reader, MemoryReader)
        with self._space.lock:
            kept = self._kept(reader.experiment)
            rows = [kept.add(row) for row in make(self.read(reader))]
            reader.after = len(kept.rows)
            return Written(rows, rows)

    def tell(
        self, reader: Reader, rewards: Sequence[tuple[int, float]], time: float, careful: bool
    ) -> tuple[list[float | None], list[Any]]:
        with self._space.lock:
            kept = self._kept(reader.experiment)
            known: dict[int, float | None] = {}
            for number, reward in rewards:
                if (number, DECISION) not in kept.found:
                    known[number] = None
                elif (number, REWARD) in kept.found:
                    known[number] = kept.found[number, REWARD].reward
                else:
                    known.setdefault(number, reward)
            out = [known[number] for number, _ in rewards]
            if out == [reward for _, reward in rewards]:
                for number, reward in rewards:
                    if (number, REWARD) not in kept.found:
                        kept.reward(number, REWARD, reward, time)
            return out, []

    def expire(self, experiment: int, numbers: Sequence[int], reward: float, time: float) -> None:
        with self._space.lock:
            kept = self._kept(experiment)
            for number in numbers:
                if not {(number, REWARD), (number, DEFAULT)} & kept.found.keys():
                    kept.reward(number, DEFAULT, reward, time)

    def log(self, experiment: int, after: int, upto: int | None) -> Iterator[Any]:
        with self._space.lock:
            return iter(self._kept(experiment).rows[after:upto])

    def snapshot(self, experiment: int) -> Snapshot | None:
        with self._space.lock:
            return self._kept(experiment).snapshot

    def save(self, experiment: int, snapshot: Snapshot) -> None:
        with self._space.lock:
            kept = self._kept(experiment)
            if kept.snapshot is None or kept.snapshot.upto <= snapshot.upto:
                kept.snapshot = snapshot

    def forget(self, experiment: int) -> None:
        with self._space.lock:
            self._kept(experiment).snapshot = None

    def close(self) -> None:
        """Nothing to give back."""
