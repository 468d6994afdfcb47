"""The diagnosis of a log in files, which may be larger than memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from rolf.arms.labels import Coder, Lookup, rewarded
from rolf.arms.table import Arms
from rolf.checks import between
from rolf.diagnosis.evidence import Evidence
from rolf.diagnosis.result import Diagnosis
from rolf.diagnosis.verdict import diagnosis_of
from rolf.errors import InvalidArgument
from rolf.parallel.sections import Workers
from rolf.progress import progress_bar
from rolf.tables.files import numbers
from rolf.tables.parts import Batch, Part, Stream
from rolf.types import FloatArray

USUAL = "probability"


def diagnose_log(
    features: Any,
    path: str | Path,
    *,
    arm: str = "arm",
    reward: str = "reward",
    probability: str | None = None,
    level: float = 0.95,
    randomised: bool = False,
    progress: bool | Callable[[str], None] | None = None,
    backend: str = "local",
    jobs: int | None = None,
    address: str | None = None,
) -> Diagnosis:
    """Do these features explain the rewards of a log in files? As ``diagnose``, part by part.

    Args:
        features: as for ``diagnose``, or the path of a table of arms.
        path: CSV, Parquet, or a folder of Parquet files; one reward per row. Rows without a
            reward are left out.
        arm: the column with the name of the arm.
        reward: the column with its reward.
        probability: the column with the chance of each choice; by default "probability", if there
            is one without gaps.
        level: as for ``diagnose``.
        randomised: as for ``diagnose``.
        progress: show a progress bar; by default on a terminal.
        backend: where the parts are read, as for ``rolf.replay``.
        jobs: how many at the same time.
        address: of a cluster.
    """
    workers = Workers.checked(backend, jobs, address)
    table = Arms.read(features)
    level = between("level", level, 0.0, 1.0)
    stream = Stream(path, text=(arm,))
    named = {"arm": arm, "reward": reward, "probability": probability}
    for argument, name in named.items():
        if name is not None and name not in stream.names:
            columns = ", ".join(stream.names)
            raise InvalidArgument(argument, name, f"a column of {path}: {columns}")
    chance = USUAL if probability is None and USUAL in stream.names else probability
    names = _Columns(arm, reward, chance, probability is None)
    stream.check_files([name for name in names[:3] if name is not None])
    parts = stream.parts()
    batches = (batch for part in parts for batch in _rewarded(part, names))
    if (first := next(batches, None)) is None:
        raise InvalidArgument(f"{path}", "no row with a reward", "rewards")
    centre = float(numbers(first.rows, reward, first.where).mean())
    function = partial(_evidence, table, names, centre)
    seen: Evidence | None = None
    with progress_bar(progress, len(parts), "reading") as advance:
        for evidence in workers.results(function, parts, stream.rows):
            seen = _plus(seen, evidence)
            advance(Path(path).name)
    assert seen is not None
    diagnosis = diagnosis_of(table, seen, level, randomised)
    return replace(diagnosis, without_reward=stream.rows - diagnosis.rewards)


class _Columns(NamedTuple):
    """Names of columns; ``optional``: whether chances may be missing, and then do not count."""

    arm: str
    reward: str
    probability: str | None
    optional: bool


def _rewarded(part: Part, columns: _Columns) -> Iterator[Batch]:
    """The rows of a part that have a reward."""
    for batch in part.batches([name for name in columns[:3] if name is not None]):
        kept = rewarded(batch, columns.reward)
        if kept.size:
            yield kept


def _evidence(table: Arms, columns: _Columns, centre: float, part: Part) -> Evidence | None:
    """What a part of a log shows; None if no row has a reward."""
    lookup, coder = Lookup(table), Coder()
    out: Evidence | None = None
    for batch in _rewarded(part, columns):
        codes, labels = coder(batch, columns.arm)
        positions = lookup(codes, labels)
        lookup.check(positions, batch, columns.arm)
        rewards = numbers(batch.rows, columns.reward, batch.where)
        chances = _chances(batch, columns)
        evidence = Evidence.of(positions, rewards, table.count, centre, chances)
        out = _plus(out, evidence)
    return out


def _plus(one: Evidence | None, other: Evidence | None) -> Evidence | None:
    if one is None or other is None:
        return one or other
    return one.plus(other)


def _chances(batch: Batch, columns: _Columns) -> FloatArray | None:
    """The chances of the arms; None if they are not all known."""
    name = columns.probability
    if name is None or (columns.optional and batch.rows.column(name).null_count):
        return None
    chances = numbers(batch.rows, name, batch.where)
    if not (chances.min() > 0.0 and chances.max() <= 1.0):
        row = int(((chances <= 0.0) | (chances > 1.0)).argmax())
        path, number = batch.where(row)
        got = f"{chances[row]:g} in row {number}"
        raise InvalidArgument(f"{path}: {name}", got, "chances above 0 and at most 1")
    return chances
