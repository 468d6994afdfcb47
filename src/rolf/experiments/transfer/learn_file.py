"""Learn from a table of past rounds in a file: arms and rewards, without ids."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rolf.arms.labels import Coder, Lookup, rewarded
from rolf.arms.table import Arms
from rolf.errors import ExperimentError, InvalidArgument
from rolf.experiments.log.history import Past, Rounds, checked_source
from rolf.experiments.log.replica import Replica
from rolf.experiments.storage.rows import HISTORY, Row
from rolf.experiments.transfer.export import CONTEXT
from rolf.policies.core.rounds import Context
from rolf.policies.policy import Policy
from rolf.progress import Progress, counting_bar
from rolf.tables.parts import Batch, Stream
from rolf.text import counted, listed
from rolf.types import FloatArray

#: a column by which an export is recognised
TOLD_AT = "told_at"


class Learned(NamedTuple):
    """What was learned from a file.

    Attributes:
        rows: of the file.
        learned: rounds; 0 if the source was known.
        pending: decisions in the export of an experiment that have no reward yet.
        unknown: arms that were left out, with their numbers of rows.
    """

    rows: int
    learned: int
    pending: int
    unknown: dict[str, int]


class HistoryFile:
    """A file of past rounds, read for the arms and the policy of an experiment."""

    def __init__(
        self,
        path: str | Path,
        arm: str,
        reward: str,
        *,
        arms: Arms,
        policy: Policy,
        source: str | None = None,
        skip_unknown: bool = False,
        progress: Progress = None,
    ) -> None:
        if not isinstance(path, str | Path):
            raise InvalidArgument("path", path, "the path of a file or folder")
        self.path = path
        self.source = checked_source(Path(path).name if source is None else source)
        self._arms = arms
        file = _File(path, arm, reward, arms, policy.context)
        self._history = file.read(policy, skip_unknown, progress)
        self.rows, self.pending, self.unknown = file.rows, file.pending, file.unknown

    def history_of(self, replica: Replica) -> Past:
        """The past rounds, for an experiment whose arms are still the same."""
        if replica.roster.arms.count != self._arms.count:
            raise ExperimentError(f"arms were added while {self.path} was read: import it again")
        return self._history

    def first_row(self, policy: Policy) -> Row:
        """The first row of the log of a new experiment that has learned the file."""
        self._history.check_fits(policy)
        return Row(0, HISTORY, 1, time.time(), details=self._history.dumps(self.source))

    def learned(self, rounds: int | None = None) -> Learned:
        """What to say of it once ``rounds`` were learned, by default all."""
        count = self._history.size if rounds is None else rounds
        return Learned(self.rows, count, self.pending, self.unknown)


class _File:
    """A file of past rounds, read some at a time; the rows that lack anything are named."""

    def __init__(
        self, path: str | Path, arm: str, reward: str, arms: Arms, context: Context | None
    ) -> None:
        self.path, self.arm, self.reward, self.arms = path, arm, reward, arms
        self.stream = Stream(path, (arm,))
        self.exported = TOLD_AT in self.stream.names
        names = [] if context is None else context.names
        self.entries = [self._entry(name) for name in names]
        for column in (arm, reward, *self.entries):
            if column not in self.stream.names:
                got = self.stream.names
                raise InvalidArgument(f"{path}: columns", got, f"{column!r} among them")
        self.stream.check_files([arm, reward, *self.entries])
        self.rows = self.stream.rows
        if not self.rows:
            raise InvalidArgument(f"{path}", "no rows", "at least one past round")
        self.pending = 0
        self.unknown: dict[str, int] = {}

    def _entry(self, name: str) -> str:
        """The column with an entry of the context, which an export calls ``context_<name>``."""
        own = f"{CONTEXT}{name}"
        return own if name not in self.stream.names and own in self.stream.names else name

    def read(self, policy: Policy, skip_unknown: bool, progress: Progress) -> Past:
        """All rounds of known arms; others are counted, and an error unless they are skipped."""
        with counting_bar(progress, self.rows, f"reading {Path(self.path).name}") as count:
            past = Past.gathered(policy, self.arms, self._rounds(count))
        if self.unknown and not skip_unknown:
            words = [f"{arm!r} ({count})" for arm, count in self.unknown.items()]
            arms = counted(len(words), "unknown arm")
            got = f"{sum(self.unknown.values())} of {self.rows} rows with {arms}"
            expected = f"arms of the experiment, and not {listed(words)}; nothing was imported"
            raise InvalidArgument(f"{self.path}: {self.arm}", got, expected)
        if past is None:
            got, expected = "none that is known", "rows of arms of the experiment"
            raise InvalidArgument(f"{self.path}: {self.arm}", got, expected)
        return past

    def _rounds(self, count: Callable[[int], None]) -> Iterator[Rounds]:
        lookup, coder = Lookup(self.arms), Coder(empty=True)
        unknown: Counter[str] = Counter()
        wanted = [self.arm, self.reward, *self.entries]
        for part in self.stream.parts():
            for batch in part.batches(wanted):
                count(batch.size)
                if self.exported:
                    before = batch.size
                    batch = rewarded(batch, self.reward)
                    self.pending += before - batch.size
                codes, labels = coder(batch, self.arm)
                empty = np.array([not label for label in [*labels, None]])[codes]
                _check_all(batch, self.arm, empty, "an arm")
                rewards, *contexts = (_numbers(batch, name) for name in wanted[1:])
                positions = lookup(codes, labels)
                known = positions >= 0
                for code, rows in enumerate(np.bincount(codes[~known]).tolist()):
                    if rows:
                        unknown[labels[code]] += rows
                table = np.column_stack(contexts)[known] if contexts else None
                if known.any():
                    yield positions[known], rewards[known], table
        self.unknown = dict(unknown.most_common())


def _numbers(batch: Batch, column: str) -> FloatArray:
    """A column, all of whose cells must be numbers."""
    import pyarrow as pa

    cells = batch.rows.column(column)
    try:
        values = cells.cast(pa.float64()).to_numpy(zero_copy_only=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        values = np.array([_number(each) for each in cells.to_pylist()])
    _check_all(batch, column, ~np.isfinite(values), "a number")
    return np.asarray(values, dtype=np.float64)


def _check_all(batch: Batch, column: str, bad: Any, wanted: str) -> None:
    """Raise if some cells are bad, with the numbers of all such rows."""
    rows = np.flatnonzero(bad).tolist()
    if rows:
        cell = batch.rows.column(column)[rows[0]].as_py()
        first = "nothing" if cell in (None, "") else repr(cell)
        path = batch.where(rows[0])[0]
        places = listed([str(number) for file, number in map(batch.where, rows) if file == path])
        got = f"{first} in row {places}"
        raise InvalidArgument(f"{path}: {column}", got, f"{wanted} in every row")


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan
