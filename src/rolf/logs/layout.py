"""Which column of a table is what.

Two layouts are recognised by their columns:

* rolf's own export, one row per decision: ``arm``, ``reward`` and, where it is known,
  ``probability``, in the order of ``number`` if there is such a column; ``is_default`` marks
  defaults for rewards that never came. ``x_<arm>_<feature>`` is a feature of an arm in that round.
* the Open Bandit Dataset (Saito et al. 2021): ``item_id``, ``click`` and ``propensity_score``,
  in the order of ``timestamp``. The affinity between user and item is a varying feature, named
  "affinity"; features of the user alone are the same for all items and are not read.

Any other table is read by the names that the user gives for its columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from rolf.errors import InvalidArgument

#: columns of a log: arm, reward and, if it is known, the probability of the arm
OWN = ("arm", "reward", "probability")
OPEN_BANDIT = ("item_id", "click", "propensity_score")
AFFINITY = "user-item_affinity_"
#: the beginning of columns of our exports that have entries of a context
CONTEXT = "context_"
#: a column of our exports, in which rows without a reward are pending decisions
TOLD_AT = "told_at"


class Layout(NamedTuple):
    """The columns of a log.

    Attributes:
        arm: the column with the arm of each decision.
        reward: the column with its reward.
        probability: the column with the probability of the arm, if there is one.
        default: the column that marks default rewards, if there is one.
        order: the column by which the decisions are in order; None for the order of the rows.
        features: columns with features of the rounds, by their names in a ``Log``.
        contextual: as in a ``Log``.
        certain: whether every decision must have a probability, if there is a column of them.
        complete: whether every decision must have a reward; if not, those without are left out.
    """

    arm: str = "arm"
    reward: str = "reward"
    probability: str | None = None
    default: str | None = None
    order: str | None = None
    features: Mapping[str, str] = {}
    contextual: bool = False
    certain: bool = False
    complete: bool = False

    @classmethod
    def recognised(cls, path: str | Path, names: Sequence[str]) -> Layout:
        """The layout of a file with these columns: ours, or that of the Open Bandit Dataset."""
        open_bandit = "arm" not in names and "item_id" in names
        arm, reward, probability = OPEN_BANDIT if open_bandit else OWN
        if missing := [name for name in (arm, reward) if name not in names]:
            raise InvalidArgument(
                f"{path}: columns",
                names,
                f"{', '.join(missing)} too: a log has {' and '.join(OWN[:2])}, "
                f"or, in the Open Bandit Dataset, {' and '.join(OPEN_BANDIT[:2])}",
            )
        features = {name: name for name in names if name.startswith("x_")}
        if open_bandit:
            items = [name.removeprefix(AFFINITY) for name in names if name.startswith(AFFINITY)]
            features = {f"x_{item}_affinity": f"{AFFINITY}{item}" for item in items}

        def if_there(name: str) -> str | None:
            return name if name in names else None

        return cls(
            arm,
            reward,
            if_there(probability),
            if_there("is_default"),
            if_there("timestamp" if open_bandit else "number"),
            features,
            contextual=open_bandit or bool(features),
        )

    def fitted(self, path: str | Path, names: Sequence[str]) -> Layout:
        """This layout, named by the user, for a file with these columns.

        A probability that need not be known may have no column.
        """
        probability = self.probability
        if not self.certain and probability not in names:
            probability = None
        named = {"arm": self.arm, "reward": self.reward, "probability": probability}
        for argument, name in named.items():
            if name is not None and name not in names:
                wanted = f"a column of {path}: {', '.join(names)}"
                raise InvalidArgument(argument, name, wanted)
        features = {}
        for new, old in self.features.items():
            exported = f"{CONTEXT}{old}"
            features[new] = exported if old not in names and exported in names else old
            if features[new] not in names:
                raise InvalidArgument(f"{path}: columns", list(names), f"{old!r} among them")
        complete = self.complete and TOLD_AT not in names
        return self._replace(probability=probability, features=features, complete=complete)

    def columns(self, features: bool) -> list[str]:
        """All columns; those of features only if they are wanted."""
        optional = [self.arm, self.reward, self.probability, self.default]
        return [
            *(name for name in optional if name is not None),
            *(self.features.values() if features else ()),
        ]
