"""Import a log from before an experiment: a table of arms and rewards, without ids."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rolf.arms.labels import Coder, Lookup
from rolf.arms.table import Arms
from rolf.errors import ExperimentError, InvalidArgument
from rolf.experiments.database import create, default_policy, list_experiments, open_experiment
from rolf.experiments.experiment import Experiment
from rolf.experiments.log.history import Past, Rounds, checked_source
from rolf.experiments.log.replica import Replica
from rolf.experiments.roster import Roster
from rolf.experiments.storage.contract import HISTORY, Row
from rolf.experiments.transfer.export import new_policy
from rolf.policies.core.rounds import Context
from rolf.policies.policy import Policy
from rolf.policies.registry import policy_class
from rolf.progress import Progress, counting_bar
from rolf.tables.parts import Batch, Stream
from rolf.text import counted, listed
from rolf.types import FloatArray


class Imported(NamedTuple):
    """What came of an import.

    Attributes:
        experiment: that has learned, open.
        rows: of the file.
        learned: rounds; 0 if the source was known.
        unknown: arms that were left out, with their numbers of rows.
    """

    experiment: Experiment
    rows: int
    learned: int
    unknown: dict[str, int]


def import_history(
    url: str,
    name: str,
    path: str | Path,
    *,
    arm: str,
    reward: str,
    source: str | None = None,
    skip_unknown: bool = False,
    features: Any = None,
    policy: Any = None,
    options: Mapping[str, Any] | None = None,
    progress: Progress = None,
    **settings: Any,
) -> Imported:
    """Let an experiment learn from a file, all of it or nothing.

    Args:
        url, name: of the experiment, which is created if it does not exist and there are features.
        path: CSV, Parquet or a folder of Parquet files, which may be larger than memory; one row
            per past round.
        arm, reward: the columns with the arm of each round and its reward.
        source: by which the same file is recognised; its name by default.
        skip_unknown: whether to leave out rows of arms that the experiment does not have, rather
            than refuse the file.
        progress: whether to show a progress bar; by default only on a terminal.
        features, policy, options, settings: as for ``open_experiment``.
    """
    source = checked_source(Path(path).name if source is None else source)
    given = {"policy": policy, "options": options, **settings}
    roster = None if features is None else Roster.read(features)
    if roster is None or name in list_experiments(url):
        experiment = open_experiment(url, name, features=features, **given)
        try:
            with experiment.current(defaults=False) as known:
                now, roster = known.policy, known.roster
            file = _File(path, arm, reward, roster.arms, now.context)
            past = file.read(now, skip_unknown, progress)

            def same_arms(replica: Replica) -> Past:
                if replica.roster.arms.count != file.arms.count:
                    raise ExperimentError(f"arms were added while {path} was read: import it again")
                return past

            learned = experiment._learn(same_arms, source)
        except BaseException:
            experiment.close()
            raise
        return Imported(experiment, file.rows, learned, file.unknown)
    cls = policy_class(default_policy(options or {}) if policy is None else policy)
    fresh = new_policy(cls, roster, options or {})
    file = _File(path, arm, reward, roster.arms, fresh.context)
    past = file.read(fresh, skip_unknown, progress)
    past.check_fits(fresh)
    row = Row(0, HISTORY, 1, time.time(), features=past.dumps(source))
    return Imported(
        create(url, name, roster, **given, rows=[row]), file.rows, past.size, file.unknown
    )


class _File:
    """A file of past rounds, read some at a time; the rows that lack anything are named."""

    def __init__(
        self, path: str | Path, arm: str, reward: str, arms: Arms, context: Context | None
    ) -> None:
        self.path, self.arm, self.reward, self.arms = path, arm, reward, arms
        self.entries = [] if context is None else context.names
        self.stream = Stream(path, (arm,))
        for column in (arm, reward, *self.entries):
            if column not in self.stream.names:
                got = self.stream.names
                raise InvalidArgument(f"{path}: columns", got, f"{column!r} among them")
        self.stream.check_files([arm, reward, *self.entries])
        self.rows = self.stream.rows
        if not self.rows:
            raise InvalidArgument(f"{path}", "no rows", "at least one past round")
        self.unknown: dict[str, int] = {}

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
                count(batch.size)
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
