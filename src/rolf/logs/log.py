"""Past decisions with their rewards: in memory, or in files that may be larger than memory.

A log is in memory (``Log``), or in files that are read part by part (``LogFiles``): Parquet,
folders of Parquet files, or CSV. ``as_log`` accepts either, a path, or pairs of an
arm and its reward.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from rolf.arms.table import Arms
from rolf.checks import vector
from rolf.errors import InvalidArgument
from rolf.logs.layout import Layout
from rolf.logs.reader import (
    PROBABILITIES,
    Decisions,
    LogPart,
    read_decisions,
    wrong_probabilities,
)
from rolf.logs.rounds import Contexts, contexts_of
from rolf.tables.labels import Coder
from rolf.tables.parts import Stream, TablePart
from rolf.types import FloatArray

#: finds the layout of a file, from its path and the names of its columns
ChooseLayout: TypeAlias = Callable[[str | Path, Sequence[str]], Layout]
#: columns of names, kept as text
NAMES = ("arm", "item_id", "id")


@dataclass(frozen=True)
class Log:
    """Past decisions, in order, with their rewards.

    Attributes:
        arms: the arm of each decision, as text.
        probabilities: the probability with which it was chosen, in (0, 1]; NaN where unknown, None
            if all are.
        rewards: the reward of each decision.
        columns: the values of each ``x_<arm>_<feature>``, one per round.
        contextual: whether an arm's probability may depend on something that also affects rewards,
            such as features of the round or the position on a page.
        defaults: how many rewards are defaults for rewards that never came.
        unrewarded: how many decisions were left out for lack of a reward.
    """

    arms: Sequence[str]
    probabilities: Any
    rewards: FloatArray
    columns: Mapping[str, FloatArray] = field(default_factory=dict)
    contextual: bool = False
    defaults: int = 0
    unrewarded: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.arms, str) or not isinstance(self.arms, Iterable):
            raise InvalidArgument("arms", self.arms, "the arm of each decision")
        arms = self.arms.tolist() if hasattr(self.arms, "tolist") else self.arms
        object.__setattr__(self, "arms", [str(arm) for arm in arms])
        object.__setattr__(self, "rewards", vector("rewards", self.rewards, "decision"))
        probabilities = _checked_probabilities(self.probabilities, len(self.arms))
        object.__setattr__(self, "probabilities", probabilities)
        columns = {name: vector(name, values, "decision") for name, values in self.columns.items()}
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "contextual", self.contextual or bool(columns))
        arrays = {"probabilities": self.probabilities, "rewards": self.rewards, **columns}
        for name, values in arrays.items():
            if values.size != len(self):
                raise InvalidArgument(
                    name, f"{values.size} values", f"{len(self)}, one per decision"
                )

    def __len__(self) -> int:
        return len(self.arms)

    @property
    def unknown_probabilities(self) -> int:
        """How many decisions have no known probability."""
        return int(np.count_nonzero(np.isnan(self.probabilities)))

    @cached_property
    def parts(self) -> list[LogPart]:
        """The whole log, as one part."""
        codes: dict[str, int] = {}
        numbered = np.array([codes.setdefault(arm, len(codes)) for arm in self.arms], np.int64)
        held = Decisions(numbered, list(codes), self.probabilities, self.rewards, self.columns)
        return [LogPart(held=held._replace(rows=len(self)))]

    @property
    def sizes(self) -> list[int]:
        """Number of decisions per part."""
        return [len(self)]

    @property
    def rows(self) -> int:
        """Number of rows, with and without a reward."""
        return len(self) + self.unrewarded

    def contexts(self, arms: Arms) -> Contexts | None:
        """The features of every round: the fixed ones, then the log's.

        A feature in the log replaces the fixed one of the same name. None if the log has no
        feature for all arms.
        """
        return contexts_of(self.columns, arms, len(self))

    def __repr__(self) -> str:
        return f"<Log of {len(self)} decisions among {len(set(self.arms))} arms>"


def _checked_probabilities(values: Any, count: int) -> FloatArray:
    """Probabilities above 0 and at most 1, or NaN where unknown."""
    if values is None:
        return np.full(count, math.nan)
    try:
        probabilities = np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InvalidArgument("probabilities", values, "numbers, one per decision") from None
    if probabilities.ndim != 1:
        raise InvalidArgument("probabilities", f"shape {probabilities.shape}", "one per decision")
    for place in wrong_probabilities(probabilities)[:1].tolist():
        got = f"{probabilities[place]:g} for decision {place}"
        raise InvalidArgument("probabilities", got, PROBABILITIES)
    return probabilities


class LogFiles:
    """A log in files, with only some rows in memory at any time.

    Attributes:
        path: of the file or folder.
        layout: what each column means.
        parts: in the order of the decisions.
        rows: number of rows, with and without a reward.
    """

    defaults = 0  # counted while reading

    def __init__(self, path: str | Path, stream: Stream, layout: Layout) -> None:
        self.path = path
        self.layout = layout
        self.rows = stream.rows
        self._stream = stream
        self._parts = stream.parts(layout.order)
        self.parts = [_log_part(part, layout) for part in self._parts]

    def __len__(self) -> int:
        return sum(self.sizes)

    def decisions(self, features: bool = False) -> Iterator[Decisions]:
        """Read all decisions with rewards, batch by batch."""
        for part in self.parts:
            yield from part.batches(features)

    @property
    def columns(self) -> list[str]:
        """The names of varying features, as in a ``Log``."""
        return list(self.layout.features)

    @property
    def contextual(self) -> bool:
        """As in a ``Log``."""
        return self.layout.contextual

    @property
    def sizes(self) -> list[int]:
        """Number of decisions with rewards, per part."""
        return self._counts[0]

    @property
    def unknown_probabilities(self) -> int:
        """How many decisions have no known probability."""
        return self._counts[1]

    @property
    def unrewarded(self) -> int:
        """Number of decisions without a reward."""
        return self.rows - len(self)

    @cached_property
    def _counts(self) -> tuple[list[int], int]:
        """Decisions with rewards per part, and the number without a probability. For Parquet the
        metadata usually suffice."""
        counts = [
            _count(self._stream, table, self.layout)
            if part.held is None
            else (part.held.size, int(np.count_nonzero(np.isnan(part.held.probabilities))))
            for table, part in zip(self._parts, self.parts, strict=True)
        ]
        sizes = [size for size, _ in counts]
        if not sum(sizes):
            got = f"{self.rows} decisions without rewards"
            raise InvalidArgument(f"{self.path}", got, "some rewards")
        return sizes, sum(unknown for _, unknown in counts)


def _log_part(part: TablePart, layout: Layout) -> LogPart:
    """A part of a log. A CSV file is in memory anyway, so its part is decoded at once."""
    if part.held is None:
        return LogPart(part, layout)
    (batch,) = part.batches([])
    return LogPart(held=read_decisions(batch, layout, Coder(), True))


def _count(stream: Stream, part: TablePart, layout: Layout) -> tuple[int, int]:
    """The number of a part's decisions with a reward, and how many of these lack a probability."""
    empty = stream.nulls(part, layout.reward)
    without: int | None = part.rows
    if layout.probability is not None:
        without = stream.nulls(part, layout.probability)
    if empty is not None and without in (0, part.rows):
        return part.rows - empty, 0 if without == 0 else part.rows - empty
    if empty == 0 and without is not None:
        return part.rows, without
    rewarded = unknown = 0
    named = [each for each in (layout.reward, layout.probability) if each]
    for batch in part.batches(named):
        valid = batch.rows.column(layout.reward).is_valid().to_numpy(zero_copy_only=False)
        rewarded += int(np.count_nonzero(valid))
        unknown += int(np.count_nonzero(valid))
        if layout.probability is not None:
            known = batch.rows.column(layout.probability).is_valid().to_numpy(False)
            unknown -= int(np.count_nonzero(valid & known))
    return rewarded, unknown


def open_log(path: str | Path, layout: Layout | ChooseLayout = Layout.recognised) -> LogFiles:
    """Open a log, reading no more than is needed to check its columns.

    Args:
        path: CSV, Parquet, or a folder of Parquet files.
        layout: what each column means, or a function that finds it from the path and the names of
            the columns; by default our layout and the Open Bandit Dataset's are recognised.
    """
    if not isinstance(path, str | Path):
        raise InvalidArgument("path", path, "the path of a file or folder")
    stream = Stream(path, text=(layout.arm,) if isinstance(layout, Layout) else NAMES)
    choose = layout.fitted if isinstance(layout, Layout) else layout
    chosen = choose(path, stream.names)
    stream.check_files([*chosen.columns(True), *([chosen.order] if chosen.order else [])])
    return LogFiles(path, stream, chosen)


def as_log(log: Any, layout: Layout | ChooseLayout = Layout.recognised) -> Log | LogFiles:
    """The log in any accepted form: a log, its path, or pairs of an arm and its reward."""
    if isinstance(log, Log | LogFiles):
        return log
    if isinstance(log, str | Path):
        return open_log(log, layout)
    try:
        pairs = [(arm, reward) for arm, reward in log]
    except (TypeError, ValueError):
        wanted = "the path of a log, a rolf.Log, or pairs of an arm and its reward"
        raise InvalidArgument("log", log, wanted) from None
    return Log([arm for arm, _ in pairs], None, [reward for _, reward in pairs])  # type: ignore[arg-type]


def read_log(path: str | Path) -> Log:
    """Read a log into memory: rolf's own or the Open Bandit Dataset's, CSV, Parquet, or a folder
    of Parquet files.

    Decisions without a reward are counted and left out. Default rewards are counted and kept: for
    clicks they are the truth, and without them only clicks would remain. Probabilities may be
    missing; only some estimators need them.
    """
    files = open_log(path)
    unrewarded = files.unrewarded  # raises if no decision has a reward
    decisions = list(files.decisions(features=True))
    return Log(
        arms=[each.labels[code] for each in decisions for code in each.codes.tolist()],
        probabilities=np.concatenate([each.probabilities for each in decisions]),
        rewards=np.concatenate([each.rewards for each in decisions]),
        columns={
            name: np.concatenate([each.columns[name] for each in decisions])
            for name in files.columns
        },
        contextual=files.contextual,
        defaults=sum(int(each.defaults.sum()) for each in decisions if each.defaults is not None),
        unrewarded=unrewarded,
    )
