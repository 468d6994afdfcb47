"""What each column of a log means.

Two layouts are recognised by their columns:

* rolf's own export, one row per decision: ``arm``, ``reward`` and, where known, ``probability``,
  ordered by ``number`` if there is such a column; ``is_default`` marks defaults for rewards that
  never came. ``x_<arm>_<feature>`` is a feature of an arm in that round.
* the Open Bandit Dataset (Saito et al. 2021): ``item_id``, ``click`` and ``propensity_score``,
  ordered by ``timestamp``. The affinity between user and item is a varying feature, named
  "affinity"; features of the user alone are the same for all items and are not read.

For any other table the user names the columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from rolf.errors import InvalidArgument

#: columns of a log: arm, reward and, if known, the probability of the arm
OWN = ("arm", "reward", "probability")
OPEN_BANDIT = ("item_id", "click", "propensity_score")
AFFINITY = "user-item_affinity_"
#: prefix of the columns with entries of a context, in our exports
CONTEXT = "context_"
#: only in our exports, where a row without a reward is a pending decision
TOLD_AT = "told_at"


class Layout(NamedTuple):
    """What the columns of a log mean.

    Attributes:
        arm: the column of arms.
        reward: the column of rewards.
        probability: the column of the arms' probabilities, if there is one.
        default: the column that marks default rewards, if any.
        order: the column that orders the decisions; None for the order of the rows.
        features: columns of features that vary, by their names in a ``Log``.
        contextual: as in a ``Log``.
        certain: whether every decision must have a probability if there is a column for it.
        complete: whether every decision must have a reward; otherwise those without are left out.
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
        """The layout of a file with these columns: ours, or the Open Bandit Dataset's."""
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

        A column of probabilities may be absent where they need not be known.
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
        """The columns to read, with or without those of features."""
        optional = [self.arm, self.reward, self.probability, self.default]
        return [
            *(name for name in optional if name is not None),
            *(self.features.values() if features else ()),
        ]
