"""What every store promises.

An experiment is a record, a log and a snapshot. The log is the truth: rows are added and never
changed. For each decision it holds

* the decision: its number, the arm and everything that the update will need;
* its reward: a copy of the decision with the reward and the time it came, so that a reader
  never has to look back. A late reward follows the default reward that it replaces.

One more kind of row changes the arms. The sequence numbers of the rows are the canonical order in
which the log is folded into a state. (experiment, number, kind) is unique, which makes ``tell``
idempotent and keeps two decisions from sharing a number.

Tests for every store are in ``rolf.testing.storage``.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from rolf.errors import StorageUnavailable

DECISION, REWARD, DEFAULT, CHANGE = 1, 2, 3, 4

#: version of the table layout
SCHEMA = 2

#: a row as read from the log: a ``Row``, or a plain tuple in its order
LogRow: TypeAlias = tuple[Any, ...]


class Row(NamedTuple):
    """A row of the log, column by column. Arms are positions; ``features`` is JSON.

    The column ``mark`` means one thing for decisions and another for rewards: read it as
    ``clock_steps`` or as ``replaces_default``.
    """

    seq: int
    kind: int
    number: int  # of the decision, or of the change
    time: float
    arm: int = 0
    probability: float | None = None
    greedy: int = 0
    pseudo: int = 0
    matched: bool = True
    mark: int = 0
    features: str | None = None  # if they vary: of all arms for a decision, of its arm for a reward
    reward: float | None = None

    @property
    def clock_steps(self) -> int:
        """Of a decision: which entries of the policy's clock it advanced, as bits."""
        return self.mark

    @property
    def replaces_default(self) -> bool:
        """Of a reward: whether a default reward was recorded before it."""
        return bool(self.mark)

    @classmethod
    def decision(
        cls,
        number: int,
        time: float,
        arm: int,
        probability: float | None,
        greedy: int,
        pseudo: int,
        matched: bool,
        clock_steps: int,
        features: str | None,
    ) -> Row:
        fixed = (arm, probability, greedy, pseudo, matched)
        return cls(0, DECISION, number, time, *fixed, clock_steps, features)

    def rewarded(
        self, kind: int, reward: float, time: float, *, replaces_default: bool = False
    ) -> Row:
        """The row that records a reward of this decision."""
        features = self.features and json.dumps(json.loads(self.features)[self.arm])
        mark = int(replaces_default)
        return self._replace(
            seq=0, kind=kind, time=time, mark=mark, features=features, reward=reward
        )


COLUMNS = ", ".join(Row._fields)


class Record(NamedTuple):
    """How an experiment was created."""

    id: int
    name: str
    tag: str  # the ids of its decisions start with it
    policy: str
    options: str  # JSON
    features: str  # JSON: the roster of arms at the start
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

    As long as nobody else writes, the rows that this process writes are applied at once, and
    nothing has to be read before a write. Once others write too, the log is read first, and the
    process's own rows come back from it in their order.
    """

    def __init__(self, experiment: int) -> None:
        self.experiment = experiment
        self.contended = False  # whether others have been writing
        self.own_unread: set[int] = set()  # rows written by this process, but not read back

    def caught_up(self, rows: Iterable[LogRow]) -> None:
        """The whole log has been read; these rows were new."""
        self.contended = any(row[0] not in self.own_unread for row in rows)
        self.own_unread.clear()


class Written(NamedTuple):
    """The rows that were recorded, and those of them to apply right away: all or none."""

    rows: list[Row]
    apply_now: Sequence[LogRow]


class Told(NamedTuple):
    """The rewards on record, None for unknown decisions, and the rows to apply right away."""

    rewards: list[float | None]
    apply_now: Sequence[LogRow] = ()


#: numbers of decisions, each with its reward
Rewards: TypeAlias = Sequence[tuple[int, float]]

#: a function from the rows that the reader has not seen to the rows to add
MakeRows: TypeAlias = Callable[[Sequence[LogRow]], list[Row]]


class Reconnected(StorageUnavailable):
    """The connection was lost and restored before any rows were added."""


class Store(ABC):
    """A database of experiments."""

    @property
    def reconnects(self) -> int:
        """How many times a lost connection was restored: rows read before may be gone."""
        return 0

    @abstractmethod
    def create(self, record: Record, rows: Sequence[Row] = ()) -> Record | None:
        """Add an experiment, optionally with a log in this order, all or nothing.

        The store assigns the id. None if the name is taken.
        """

    @abstractmethod
    def find(self, name: str) -> Record | None: ...

    @abstractmethod
    def names(self) -> list[str]: ...

    @abstractmethod
    def delete(self, experiment: int) -> None: ...

    @abstractmethod
    def reader(self, experiment: int, after: int) -> Reader:
        """A reader that starts after a row of the canonical order."""

    @abstractmethod
    def read(self, reader: Reader, upto: int | None = None) -> list[LogRow]:
        """All rows that the reader has not been given yet, in order, optionally up to one.

        A row whose transaction ended late may be given after rows that follow it in the
        canonical order.
        """

    @abstractmethod
    def settle(self, experiment: int) -> int:
        """The highest row, once no earlier row can appear any more."""

    @abstractmethod
    def write(self, reader: Reader, make_rows: MakeRows) -> Written:
        """Add rows in one durable transaction.

        ``make_rows`` is given what the reader has not seen and answers with the rows to add,
        whose ``seq`` is set here. It may be called again. It knows every reward recorded before
        this call, and every decision that precedes its own.
        """

    @abstractmethod
    def tell(self, reader: Reader, rewards: Rewards, time: float, *, has_defaults: bool) -> Told:
        """Record the rewards of decisions, all or none.

        If a reward on record differs from the one to be recorded, or a decision is unknown,
        nothing is written. ``has_defaults``: whether the experiment has default rewards.
        """

    @abstractmethod
    def expire(self, experiment: int, numbers: Sequence[int], reward: float, time: float) -> None:
        """Record the default reward of those decisions that have no reward."""

    @abstractmethod
    def log(self, experiment: int, after: int, upto: int | None) -> Iterator[LogRow]:
        """Rows of the log in the canonical order."""

    @abstractmethod
    def snapshot(self, experiment: int) -> Snapshot | None: ...

    @abstractmethod
    def save(self, experiment: int, snapshot: Snapshot) -> None:
        """Store a snapshot, unless there is a later one."""

    @abstractmethod
    def forget(self, experiment: int) -> None:
        """Delete the snapshot."""

    @abstractmethod
    def close(self) -> None: ...
