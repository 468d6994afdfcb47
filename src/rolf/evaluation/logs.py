"""Logged decisions, read from files.

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
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rolf.arms.files import check_columns, numbers, read_table
from rolf.arms.table import Arms
from rolf.checks import vector
from rolf.errors import InvalidArgument
from rolf.types import FloatArray, IntArray

#: the columns of a log: arm, reward, and the chance of the arm, which may be missing
OWN = ("arm", "reward", "probability")
OPEN_BANDIT = ("item_id", "click", "propensity_score")
AFFINITY = "user-item_affinity_"


class Contexts(NamedTuple):
    """The features of every round, without copies of those that never change."""

    fixed: FloatArray  # (K, d - m)
    moving: FloatArray  # (n, K, m)

    def table(self, round: int) -> FloatArray:
        """(K, d) features of one round."""
        return np.hstack([self.fixed, self.moving[round]])

    def rows(self, rounds: IntArray, arms: IntArray) -> FloatArray:
        """(n, d) features of one arm per round."""
        return np.hstack([self.fixed[arms], self.moving[rounds, arms]])

    def predictions(self, rounds: IntArray, theta: FloatArray) -> FloatArray:
        """(n, K): the features of some rounds times coefficients (d,)."""
        size = self.fixed.shape[1]
        out: FloatArray = self.fixed @ theta[:size] + self.moving[rounds] @ theta[size:]
        return out

    def typical(self) -> FloatArray:
        """(K, d): how large the features are, as root mean squares."""
        return np.hstack([self.fixed, np.sqrt(np.mean(self.moving**2, axis=0))])


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

    def positions(self, arms: Arms) -> IntArray:
        """Positions of the decisions' arms in a table of arms."""
        known = {str(label): position for position, label in enumerate(arms.labels)}
        if unknown := sorted(set(self.arms) - set(known)):
            some = ", ".join(list(known)[:5]) + (", ..." if len(known) > 5 else "")
            raise InvalidArgument(
                "features",
                f"no row for arm {unknown[0]!r} of the log",
                f"a row for every arm; there are rows for {some}",
            )
        return np.array([known[arm] for arm in self.arms], dtype=np.int64)

    def contexts(self, arms: Arms) -> Contexts | None:
        """The features of every round: the fixed ones, then those of the log.

        A feature of the log replaces the fixed one of the same name. None if no feature of
        the log is there for all arms.
        """
        prefixes = [f"x_{label}_" for label in arms.labels]
        names = [
            column.removeprefix(prefixes[0])
            for column in self.columns
            if column.startswith(prefixes[0])
        ]
        names = [
            name for name in names if all(f"{prefix}{name}" in self.columns for prefix in prefixes)
        ]
        if not names:
            return None
        kept = [place for place, column in enumerate(arms.columns) if column not in names]
        moving = np.empty((len(self), arms.count, len(names)))
        for place, name in enumerate(names):
            for arm, prefix in enumerate(prefixes):
                moving[:, arm, place] = self.columns[f"{prefix}{name}"]
        return Contexts(arms.features[:, kept], moving)

    def __repr__(self) -> str:
        return f"<Log of {len(self)} decisions among {len(set(self.arms))} arms>"


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


def read_log(path: str | Path) -> Log:
    """Read a log: rolf's own or the Open Bandit Dataset's, CSV or Parquet.

    Decisions without a reward are left out and counted. Default rewards are kept and counted:
    for clicks they are the truth, and without them only the clicks would remain. Probabilities may
    be missing; only some estimators need them.
    """
    table = read_table(path, text=("arm", "item_id", "id"))
    names = table.column_names
    check_columns(path, names)
    open_bandit = "arm" not in names and "item_id" in names
    arm, reward, probability = OPEN_BANDIT if open_bandit else OWN
    if missing := [name for name in (arm, reward) if name not in names]:
        raise InvalidArgument(
            f"{path}: columns",
            names,
            f"{', '.join(missing)} too: a log has {' and '.join(OWN[:2])}, "
            f"or, in the Open Bandit Dataset, {' and '.join(OPEN_BANDIT[:2])}",
        )
    order = "timestamp" if open_bandit else "number"
    if order in names:
        table = table.sort_by(order)  # stable
    rewarded = table.column(reward).is_valid()
    unrewarded = table.num_rows - int(np.count_nonzero(rewarded.to_numpy()))
    table = table.filter(rewarded)
    if table.num_rows == 0:
        raise InvalidArgument(f"{path}", f"{unrewarded} decisions without rewards", "some rewards")
    columns = {name: name for name in names if name.startswith("x_")}
    if open_bandit:
        items = [name.removeprefix(AFFINITY) for name in names if name.startswith(AFFINITY)]
        columns = {f"x_{item}_affinity": f"{AFFINITY}{item}" for item in items}
    is_default = table.column("is_default").to_pylist() if "is_default" in names else []
    arms = table.column(arm).to_pylist()
    if None in arms:
        raise InvalidArgument(f"{path}: {arm}", f"nothing in row {arms.index(None)}", "an arm")
    chances = numbers(path, table, probability, optional=True) if probability in names else None
    return Log(
        arms=arms,
        probabilities=chances,
        rewards=numbers(path, table, reward),
        columns={new: numbers(path, table, old) for new, old in columns.items()},
        contextual=open_bandit,
        defaults=sum(map(bool, is_default)),
        unrewarded=unrewarded,
    )
