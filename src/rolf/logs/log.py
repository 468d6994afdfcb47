"""Logged decisions, read from files.

A log is an object in memory (``Log``), or files that are read part by part (``LogFiles``): Parquet,
or a folder of Parquet files, which may be larger than memory. Both are a sequence of parts.

Two formats are recognised by their columns:

* rolf's own export, one row per decision: ``arm``, ``reward`` and, where it is known,
  ``probability``, in the order of ``number`` if there is such a column; ``is_default`` marks
  defaults for rewards that never came. ``x_<arm>_<feature>`` is a feature of an arm in that round.
* the Open Bandit Dataset (Saito et al. 2021): ``item_id``, ``click`` and ``propensity_score``,
  in the order of ``timestamp``. The affinity between user and item is a varying feature, named
  "affinity"; features of the user alone are the same for all items and are not read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from rolf.arms.labels import Coder
from rolf.arms.table import Arms
from rolf.checks import vector
from rolf.errors import InvalidArgument
from rolf.logs.reader import Contexts, Layout, LogPart, Rows, contexts_of, read_rows
from rolf.tables.parts import Part, Stream
from rolf.types import FloatArray


@dataclass(frozen=True)
class Log:
    """Past decisions, in order, with their rewards.

    Attributes:
        arms: the arm of each decision, as text.
        probabilities: the chance with which it was chosen, in (0, 1]; NaN, or None for all of
            them, where it is not known.
        rewards: the reward of each decision.
        columns: for each ``x_<arm>_<feature>`` its value in every round.
        contextual: whether the chance of an arm may depend on something that also moves the
            rewards: features of the round, or the position on a page.
        defaults: how many of the rewards are defaults for rewards that never came.
        unrewarded: how many decisions were left out because they have no reward.
    """

    arms: Sequence[str]
    probabilities: Any
    rewards: FloatArray
    columns: Mapping[str, FloatArray] = field(default_factory=dict)
    contextual: bool = False
    defaults: int = 0
    unrewarded: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "arms", [str(arm) for arm in self.arms])
        object.__setattr__(self, "rewards", vector("rewards", self.rewards, "decision"))
        object.__setattr__(self, "probabilities", _chances(self.probabilities, len(self.arms)))
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
    def unknown_chances(self) -> int:
        """How many decisions have no known probability."""
        return int(np.count_nonzero(np.isnan(self.probabilities)))

    @cached_property
    def parts(self) -> list[LogPart]:
        """All of it, as one part."""
        codes: dict[str, int] = {}
        numbered = np.array([codes.setdefault(arm, len(codes)) for arm in self.arms], np.int64)
        rows = Rows(numbered, list(codes), self.probabilities, self.rewards, self.columns)
        return [LogPart(held=rows)]

    @property
    def sizes(self) -> list[int]:
        """How many decisions each part has."""
        return [len(self)]

    def contexts(self, arms: Arms) -> Contexts | None:
        """The features of every round: the fixed ones, then those of the log.

        A feature of the log replaces the fixed one of the same name. None if no feature of
        the log is there for all arms.
        """
        return contexts_of(self.columns, arms, len(self))

    def __repr__(self) -> str:
        return f"<Log of {len(self)} decisions among {len(set(self.arms))} arms>"


@dataclass(frozen=True)
class LogFiles:
    """A log in files, of which only some rows are in memory at any time.

    Attributes:
        parts: its parts, in the order of the decisions.
        sizes: how many decisions with rewards each part has.
        columns: the names of features that vary, as in a ``Log``.
        contextual: as in a ``Log``.
        unrewarded: as in a ``Log``.
        unknown_chances: how many decisions have no known probability.
    """

    parts: list[LogPart]
    sizes: list[int]
    columns: list[str]
    contextual: bool
    unrewarded: int
    unknown_chances: int
    defaults: int = 0  # counted when they are read

    def __len__(self) -> int:
        return sum(self.sizes)


def _chances(values: Any, count: int) -> FloatArray:
    """Chances above 0 and at most 1, or NaN where they are not known."""
    if values is None:
        return np.full(count, math.nan)
    try:
        chances = np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InvalidArgument("probabilities", values, "numbers, one per decision") from None
    if chances.ndim != 1:
        raise InvalidArgument("probabilities", f"shape {chances.shape}", "one per decision")
    wrong = np.flatnonzero((chances <= 0.0) | (chances > 1.0))
    if wrong.size:
        got = f"{chances[wrong[0]]:g} for decision {wrong[0]}"
        raise InvalidArgument("probabilities", got, "chances above 0 and at most 1")
    return chances


def open_log(path: str | Path) -> LogFiles:
    """Open a log as ``read_log`` does, without reading more than is needed to check its columns
    and to count its decisions: what Parquet files say of themselves will mostly do."""
    stream = Stream(path, text=("arm", "item_id", "id"))
    layout, open_bandit = Layout.of(path, stream.names)
    features = list(layout.features)
    stream.check_files([*layout.columns(True), *([layout.order] if layout.order else [])])
    parts, sizes, unknown, unrewarded = [], [], 0, 0
    for part in stream.parts(layout.order):
        if part.held is not None:
            (batch,) = part.batches([])
            rows = read_rows(batch, layout, Coder(), True)
            parts.append(LogPart(held=rows))
            valid, without = rows.size, int(np.count_nonzero(np.isnan(rows.chances)))
        else:
            parts.append(LogPart(part, layout))
            valid, without = _count(stream, part, layout)
        sizes.append(valid)
        unknown += without
        unrewarded += part.rows - valid
    if not sum(sizes):
        raise InvalidArgument(f"{path}", f"{unrewarded} decisions without rewards", "some rewards")
    contextual = open_bandit or bool(features)
    return LogFiles(parts, sizes, features, contextual, unrewarded, unknown)


def _count(stream: Stream, part: Part, layout: Layout) -> tuple[int, int]:
    """How many decisions of a part have a reward, and how many of these have no probability."""
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
            chances = batch.rows.column(layout.probability)
            unknown -= int(np.count_nonzero(valid & chances.is_valid().to_numpy(False)))
    return rewarded, unknown


def read_log(path: str | Path) -> Log:
    """Read a log into memory: rolf's own or the Open Bandit Dataset's, CSV, Parquet, or a folder
    of Parquet files.

    Decisions without a reward are left out and counted. Default rewards are kept and counted:
    for clicks they are the truth, and without them only the clicks would remain. Probabilities may
    be missing; only some estimators need them.
    """
    files = open_log(path)
    rows = [
        each
        for part, size in zip(files.parts, files.sizes, strict=True)
        for each in part.rows(0, size, features=True)
    ]
    return Log(
        arms=[each.labels[code] for each in rows for code in each.codes.tolist()],
        probabilities=np.concatenate([each.chances for each in rows]),
        rewards=np.concatenate([each.rewards for each in rows]),
        columns={
            name: np.concatenate([each.columns[name] for each in rows]) for name in files.columns
        },
        contextual=files.contextual,
        defaults=sum(int(each.defaults.sum()) for each in rows if each.defaults is not None),
        unrewarded=files.unrewarded,
    )
