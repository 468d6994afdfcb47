"""Import a log from before an experiment: a table of arms and rewards, without ids."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rolf.arms.files import check_columns, read_table
from rolf.arms.table import Arms
from rolf.errors import InvalidArgument
from rolf.experiments.experiment import Experiment
from rolf.experiments.opening import create, default_policy, list_experiments, open_experiment
from rolf.experiments.past import Past, checked_source
from rolf.experiments.roster import Roster
from rolf.experiments.storage.base import HISTORY, Row
from rolf.experiments.transfer import new_policy
from rolf.policies.contexts import Context
from rolf.policies.registry import policy_class
from rolf.text import listed
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
    **settings: Any,
) -> Imported:
    """Let an experiment learn from a file, all of it or nothing.

    Args:
        url, name: of the experiment, which is created if it does not exist and there are features.
        path: CSV or Parquet, one row per past round.
        arm, reward: the columns with the arm of each round and its reward.
        source: by which the same file is recognised; its name by default.
        skip_unknown: whether to leave out rows of arms that the experiment does not have, rather
            than refuse the file.
        features, policy, options, settings: as for ``open_experiment``.
    """
    source = checked_source(Path(path).name if source is None else source)
    given = {"policy": policy, "options": options, **settings}
    roster = None if features is None else Roster.read(features)
    if roster is None or name in list_experiments(url):
        experiment = open_experiment(url, name, features=features, **given)
        try:
            past = _read(path, arm, reward, experiment._replica.policy.context)
            known, unknown = past.split(experiment.roster().arms, skip_unknown)
            learned = experiment.learn(
                known.arms, known.rewards, context=known.contexts, source=source
            )
        except BaseException:
            experiment.close()
            raise
        return Imported(experiment, len(past.arms), learned, unknown)
    cls = policy_class(default_policy(options or {}) if policy is None else policy)
    fresh = new_policy(cls, roster, options or {})
    past = _read(path, arm, reward, fresh.context)
    known, unknown = past.split(roster.arms, skip_unknown)
    history = Past.checked(fresh, roster.arms, known.arms, known.rewards, context=known.contexts)
    history.check_fits(fresh)
    row = Row(0, HISTORY, 1, time.time(), features=history.dumps(source))
    return Imported(
        create(url, name, roster, **given, rows=[row]), len(past.arms), history.size, unknown
    )


class _Rounds(NamedTuple):
    """The arms and rewards of a file, arms as text."""

    path: str
    column: str
    arms: list[Any]
    rewards: list[float]
    contexts: FloatArray | None

    def split(self, arms: Arms, skip_unknown: bool) -> tuple[_Rounds, dict[str, int]]:
        """Rounds of these arms, by their names, and how often others come."""
        names = {str(label): label for label in arms.labels}
        unknown = dict(Counter(each for each in self.arms if each not in names).most_common())
        if unknown and not skip_unknown:
            words = [f"{arm!r} ({count})" for arm, count in unknown.items()]
            got = f"{sum(unknown.values())} of {len(self.arms)} rows with {len(unknown)} unknown"
            got += " arm" + "s" * (len(unknown) != 1)
            expected = f"arms of the experiment, and not {listed(words)}; nothing was imported"
            raise InvalidArgument(f"{self.path}: {self.column}", got, expected)
        rows = [row for row, arm in enumerate(self.arms) if arm in names]
        if not rows:
            got, expected = "none that is known", "rows of arms of the experiment"
            raise InvalidArgument(f"{self.path}: {self.column}", got, expected)
        known = self._replace(
            arms=[names[self.arms[row]] for row in rows],
            rewards=[self.rewards[row] for row in rows],
            contexts=None if self.contexts is None else self.contexts[rows],
        )
        return known, unknown


def _read(path: str | Path, arm: str, reward: str, context: Context | None) -> _Rounds:
    """The rounds of a file, with their contexts; the rows that lack anything are named."""
    table = read_table(path, (arm,))
    check_columns(path, table.column_names)
    entries = [] if context is None else context.names
    for column in (arm, reward, *entries):
        if column not in table.column_names:
            raise InvalidArgument(f"{path}: columns", table.column_names, f"{column!r} among them")
    arms, rewards = table.column(arm).to_pylist(), table.column(reward).to_pylist()
    if not arms:
        raise InvalidArgument(f"{path}", "no rows", "at least one past round")
    _check_all(path, arm, arms, [not each for each in arms], "an arm")
    numbers = [_number(each) for each in rewards]
    _check_all(path, reward, rewards, [not math.isfinite(each) for each in numbers], "a number")
    columns = []
    for entry in entries:
        values = table.column(entry).to_pylist()
        columns.append([_number(each) for each in values])
        bad = [not math.isfinite(each) for each in columns[-1]]
        _check_all(path, entry, values, bad, "a number")
    contexts = None if context is None else np.array(columns).T
    return _Rounds(str(path), arm, arms, numbers, contexts)


def _check_all(path: Any, column: str, values: list[Any], bad: list[bool], wanted: str) -> None:
    """Raise if some values are bad; rows are numbered as in a spreadsheet."""
    rows = [row for row, wrong in enumerate(bad) if wrong]
    if rows:
        first = "nothing" if values[rows[0]] in (None, "") else repr(values[rows[0]])
        places = listed([str(row + 2) for row in rows])
        got = f"{first} in row {places}"
        raise InvalidArgument(f"{path}: {column}", got, f"{wanted} in every row")


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan
