"""What every store promises, and which store a URL means.

An experiment is one record, its log and a snapshot. The log is the truth: rows are added and
never changed. Of one decision it holds

* the decision: the round's number, the arm and all that the update will need;
* its reward, a copy of the decision with the reward and the time it came, so that a reader
  never looks back; or first the default reward, then a late real one.

Rows have a sequence number, the canonical order in which the log is folded into a state. One
more kind of row changes the arms. (experiment, number, kind) is unique: it makes ``tell``
idempotent and keeps two decisions from having one number.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from rolf.errors import InvalidArgument, StorageUnavailable

DECISION, REWARD, DEFAULT, CHANGE = 1, 2, 3, 4

#: the layout of the tables
SCHEMA = 2


class Row(NamedTuple):
    """One row of the log. Arms are positions; ``features`` is JSON."""

    seq: int
    kind: int
    number: int  # of the decision, or of the change
    time: float
    arm: int = 0
    probability: float | None = None
    greedy: int = 0
    pseudo: int = 0
    matched: bool = True
    mark: int = 0  # decision: which clocks went on, as bits; reward: 1 if it replaces a default
    features: str | None = None  # decision: of all arms, reward: of its arm, where they vary
    reward: float | None = None


COLUMNS = ", ".join(Row._fields)


class Record(NamedTuple):
    """How an experiment was made."""

    id: int
    name: str
    tag: str  # begins the id of every decision
    policy: str
    options: str  # JSON
    features: str  # JSON: the table of arms as it was at first
    seed: int
    default_reward: float | None
    reward_after: float | None
    created: float


FIELDS = ", ".join(Record._fields)


class Snapshot(NamedTuple):
    """The state after all rows up to ``upto``."""

    upto: int
    version: str
    state: str


class Reader:
    """How far one process has read the log of one experiment.

    While nobody else writes, what this process writes is taken in at once and nothing is read
    before it. Otherwise the log is read first, and rows of its own come back in their order.
    """

    def __init__(self, experiment: int) -> None:
        self.experiment = experiment
        self.crowded = False  # whether others wrote, the last time
        self.own: set[int] = set()  # rows written, but not taken in yet

    def looked(self, rows: Sequence[Any]) -> None:
        """All that there is has been read; these rows were new."""
        self.crowded = any(row[0] not in self.own for row in rows)
        self.own.clear()


class Written(NamedTuple):
    """What was recorded, and what of it is to be taken in now: all or nothing."""

    rows: list[Any]
    fresh: list[Any]


Make: TypeAlias = Callable[[list[Any]], list[Row]]


class ConnectionRenewed(StorageUnavailable):
    """The connection was lost and made anew before rows were added."""


class Store(ABC):
    """A database of experiments. Rows read are tuples in the order of ``Row``."""

    @property
    def renewals(self) -> int:
        """How often a lost connection was made anew: what was read before may be gone."""
        return 0

    @abstractmethod
    def create(self, record: Record, rows: Sequence[Row] = ()) -> Record | None:
        """Add an experiment, if need be with a log in this order, all or nothing.

        It gets an id of the store's. None if the name is taken.
        """

    @abstractmethod
    def find(self, name: str) -> Record | None: ...

    @abstractmethod
    def names(self) -> list[str]: ...

    @abstractmethod
    def delete(self, experiment: int) -> None: ...

    @abstractmethod
    def reader(self, experiment: int, after: int) -> Reader:
        """A reader that begins after a row of the canonical order."""

    @abstractmethod
    def read(self, reader: Reader, upto: int | None = None) -> list[Any]:
        """All rows that the reader has not been given yet, in order, if need be up to one.

        A row of a transaction that ended late may be given after rows that follow it in the
        canonical order.
        """

    @abstractmethod
    def settle(self, experiment: int) -> int:
        """The highest row, once no row before it can still come."""

    @abstractmethod
    def write(self, reader: Reader, make: Make) -> Written:
        """Add rows in one durable transaction.

        ``make`` is given what the reader has not seen and answers with the rows to add, whose
        ``seq`` is set here. It may be called again. It knows all rewards that were recorded
        before this call, and all decisions before its own.
        """

    @abstractmethod
    def tell(
        self, reader: Reader, rewards: Sequence[tuple[int, float]], time: float, careful: bool
    ) -> tuple[list[float | None], list[Any]]:
        """Record the rewards of decisions, all or none.

        Answers with the rewards on record, None where there is no such decision, and with the
        rows to be taken in now. If a reward differs from what was to be recorded, nothing is.
        ``careful``: the experiment has default rewards.
        """

    @abstractmethod
    def expire(self, experiment: int, numbers: Sequence[int], reward: float, time: float) -> None:
        """Record the default reward of decisions that have none."""

    @abstractmethod
    def log(self, experiment: int, after: int, upto: int | None) -> Iterator[Any]:
        """Rows of the log in the canonical order."""

    @abstractmethod
    def snapshot(self, experiment: int) -> Snapshot | None: ...

    @abstractmethod
    def save(self, experiment: int, snapshot: Snapshot) -> None:
        """Keep a snapshot, unless there is a later one."""

    @abstractmethod
    def forget(self, experiment: int) -> None:
        """Drop the snapshot."""

    @abstractmethod
    def close(self) -> None: ...


def chunked(read: Callable[[int], list[Any]], after: int, size: int) -> Iterator[Any]:
    """Rows in order, ``size`` at a time: ``read`` gives those that follow a row."""
    while True:
        rows = read(after)
        yield from rows
        if len(rows) < size:
            return
        after = rows[-1][0]


def without_password(url: str) -> str:
    """A URL, or text with one, as it may be shown."""
    return re.sub(r"://[^/]*@", "://...@", url)


def connect(url: str, *, create: bool = True) -> Store | None:
    """The store of a URL; None if it would have to be made and is not to be."""
    wanted = "memory://, sqlite:///file.db or postgresql://user@host/database"
    if not isinstance(url, str) or "\0" in url:
        raise InvalidArgument("url", url, wanted)
    scheme, mark, rest = url.partition("://")
    if mark and scheme == "memory":
        from rolf.experiments.storage.memory import MemoryStore

        return MemoryStore(rest)
    if mark and scheme == "sqlite" and rest.startswith("/") and len(rest) > 1:
        from rolf.experiments.storage.sqlite import SQLiteStore

        path = Path(rest[1:])
        there = path.exists() and path.stat().st_size > 0
        return SQLiteStore(rest[1:]) if create or there else None
    if mark and scheme in ("postgresql", "postgres") and rest:
        from rolf.experiments.storage.postgres import PostgresStore

        return PostgresStore(url)
    raise InvalidArgument("url", without_password(url), wanted)
