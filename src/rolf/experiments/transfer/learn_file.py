"""Learn from a file of past rounds: arms and rewards, without ids."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rolf.arms.table import Arms
from rolf.errors import ExperimentError, InvalidArgument
from rolf.experiments.log.history import HistoryEntry, Rounds, checked_source
from rolf.experiments.log.replica import Replica
from rolf.experiments.storage.rows import HISTORY, Row
from rolf.logs.layout import Layout
from rolf.logs.log import open_log
from rolf.policies.policy import Policy
from rolf.progress import Progress, counting_bar
from rolf.tables.labels import Lookup
from rolf.text import counted, listed


class Learned(NamedTuple):
    """The outcome of learning from a file.

    Attributes:
        rows: number of rows in the file.
        learned: number of rounds learned; 0 if the source was learned before.
        pending: number of rows without a reward, as in the export of an experiment.
        unknown: unknown arms that were left out, with their numbers of rows.
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
        self.path = path
        self._arms = arms
        entries = [] if policy.context is None else policy.context.names
        layout = Layout(arm, reward, features={name: name for name in entries}, complete=True)
        self._log = open_log(path, layout)
        self.source = checked_source(Path(path).name if source is None else source)
        self.rows = self._log.rows
        if not self.rows:
            raise InvalidArgument(f"{path}", "no rows", "at least one past round")
        self.pending = 0
        self.unknown: dict[str, int] = {}
        self._history = self._read(policy, skip_unknown, progress)

    def history_of(self, replica: Replica) -> HistoryEntry:
        """The past rounds, for an experiment whose arms are still the same."""
        if replica.roster.arms.count != self._arms.count:
            raise ExperimentError(f"arms were added while {self.path} was read: import it again")
        return self._history

    def first_row(self, policy: Policy) -> Row:
        """The first row of the log of a new experiment that has learned the file."""
        self._history.check_fits(policy)
        return Row(0, HISTORY, 1, time.time(), details=self._history.dumps(self.source))

    def learned(self, rounds: int | None = None) -> Learned:
        """The outcome after ``rounds`` were learned, by default all."""
        count = self._history.size if rounds is None else rounds
        return Learned(self.rows, count, self.pending, self.unknown)

    def _read(self, policy: Policy, skip_unknown: bool, progress: Progress) -> HistoryEntry:
        """All rounds of known arms; others are counted, and an error unless they are skipped."""
        with counting_bar(progress, self.rows, f"reading {Path(self.path).name}") as count:
            history = HistoryEntry.gathered(policy, self._arms, self._rounds(count))
        where = f"{self.path}: {self._log.layout.arm}"
        if self.unknown and not skip_unknown:
            words = [f"{arm!r} ({count})" for arm, count in self.unknown.items()]
            arms = counted(len(words), "unknown arm")
            got = f"{sum(self.unknown.values())} of {self.rows} rows with {arms}"
            wanted = f"arms of the experiment, and not {listed(words)}; nothing was imported"
            raise InvalidArgument(where, got, wanted)
        if history is None:
            got, wanted = "none that is known", "rows of arms of the experiment"
            raise InvalidArgument(where, got, wanted)
        return history

    def _rounds(self, count: Callable[[int], None]) -> Iterator[Rounds]:
        """Rounds of known arms, part by part; rounds of other arms are counted."""
        lookup = Lookup(self._arms.labels)
        unknown: Counter[str] = Counter()
        for each in self._log.decisions(features=True):
            positions = lookup(each.codes, each.labels)
            known = positions >= 0
            for code, rows in enumerate(np.bincount(each.codes[~known]).tolist()):
                if rows:
                    unknown[each.labels[code]] += rows
            contexts = list(each.columns.values())
            table = np.column_stack(contexts)[known] if contexts else None
            if known.any():
                yield positions[known], each.rewards[known], table
            self.pending += each.rows - each.size
            count(each.rows)
        self.unknown = dict(unknown.most_common())
