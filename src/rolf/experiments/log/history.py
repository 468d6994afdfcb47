"""Rewards from before an experiment, as one row of its log.

Most policies learn from totals per arm, so totals are all that is kept. Others need every round:
those whose features vary, and those that weigh rewards by probabilities.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Hashable, Iterable
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from rolf.arms.table import Arms
from rolf.checks import vector
from rolf.errors import ExperimentError, InvalidArgument
from rolf.estimators.contract import ArmTotals, History, arm_totals
from rolf.policies.policy import Policy
from rolf.policies.state.arrays import pack, remember, unpack
from rolf.text import counted, listed
from rolf.types import FloatArray, IntArray

#: characters of one row: a history that is larger has to come in parts
MAX_CHARACTERS = 100_000_000
#: the longest name of a source
MAX_SOURCE = 200


#: some rounds: positions of arms, rewards, and contexts, where the policy takes them
Rounds: TypeAlias = tuple[IntArray, FloatArray, FloatArray | None]


class HistoryEntry(NamedTuple):
    """A history that is learned at once: totals per arm, and every round where the policy needs it.

    ``uniform``: the probabilities of its rounds are not known: they count as uniform over the arms.
    """

    totals: ArmTotals
    rounds: History | None
    uniform: bool

    @classmethod
    def checked(
        cls,
        policy: Policy,
        arms: Arms,
        labels: Any,
        rewards: Any,
        *,
        features: Any = None,
        context: Any = None,
        probabilities: Any = None,
    ) -> HistoryEntry:
        """A history that a policy accepts; all arms that it does not have are named at once."""
        positions = positions_of(arms, labels)
        values = checked_rewards(policy, rewards, positions.size)
        history = policy.past_rounds(positions, values, features, context, probabilities)
        if not values.size:
            raise InvalidArgument("arms", [], "at least one past round")
        totals = arm_totals(arms.count, history, float(values[0]))
        return cls(totals, None if policy.learns_totals else history, probabilities is None)

    @classmethod
    def gathered(cls, policy: Policy, arms: Arms, parts: Iterable[Rounds]) -> HistoryEntry | None:
        """A history that comes in parts, in the order of its rounds; None if there are none.

        Rewards are added one by one, so the totals, and by them the history, are the same however
        it is cut.
        """
        counts, sums, squares = np.zeros((3, arms.count))
        level, kept, size = 0.0, [], 0
        whole = not policy.learns_totals
        for positions, rewards, context in parts:
            values = checked_rewards(policy, rewards, positions.size)
            history = policy.past_rounds(positions, values, None, context)
            level = level if size else float(values[0])
            np.add.at(counts, positions, 1.0)
            np.add.at(sums, positions, values - level)
            np.add.at(squares, positions, (values - level) ** 2)
            size += positions.size
            if whole:
                kept.append(history)
                if sum(each.nbytes for past in kept for each in past) > MAX_CHARACTERS:
                    raise too_large(size)
        if not size:
            return None
        rounds = History(*map(np.concatenate, zip(*kept, strict=True))) if whole else None
        return cls(ArmTotals(counts, sums, squares, level), rounds, uniform=True)

    @classmethod
    def from_totals(
        cls, policy: Policy, counts: Any, sums: Any, squares: Any, level: float
    ) -> HistoryEntry:
        """A history of which only totals per arm are known."""
        totals = policy.checked_totals(counts, sums, squares, level)
        return cls(totals, None, uniform=False)

    @property
    def size(self) -> int:
        return int(self.totals.counts.sum())

    def teach(self, policy: Policy) -> None:
        """Let a policy learn it."""
        if self.rounds is None:
            policy.learn_totals(*self.totals[:3], level=self.totals.level)
            return
        policy.learn_history(self.rounds)

    def check_fits(self, policy: Policy) -> None:
        """Raise if a policy cannot learn it; the policy does not change."""
        restore = remember(policy.state)
        try:
            self.teach(policy)
        finally:
            restore()

    # --- as text ---

    def dumps(self, source: str | None) -> str:
        played = np.flatnonzero(self.totals.counts)
        data: dict[str, Any] = {
            "source": source,
            "arms": played.tolist(),
            "counts": self.totals.counts[played].astype(int).tolist(),
            "sums": self.totals.sums[played].tolist(),
            "squares": self.totals.squares[played].tolist(),
            "level": self.totals.level,
        }
        if self.rounds is not None:
            data["rounds"] = [pack(each) for each in self.rounds]
            data["uniform"] = self.uniform
        text = json.dumps({**data, "digest": digest(data)})
        if len(text) > MAX_CHARACTERS:
            raise too_large(self.size)
        return text

    @classmethod
    def loads(cls, data: dict[str, Any], arms: int) -> HistoryEntry:
        columns = np.zeros((3, arms))
        for column, name in zip(columns, ("counts", "sums", "squares"), strict=True):
            for arm, value in zip(data["arms"], data[name], strict=True):
                column[arm] = value
        rounds = data.get("rounds")
        return cls(
            ArmTotals(columns[0], columns[1], columns[2], float(data["level"])),
            None if rounds is None else History(*(unpack(each) for each in rounds)),
            bool(data.get("uniform", False)),
        )


def too_large(rounds: int) -> InvalidArgument:
    """What to say of more rounds than one row of a log can hold."""
    expected = "fewer at a time; give each part a source of its own"
    return InvalidArgument("arms", f"{rounds} rounds", expected)


def digest(data: dict[str, Any]) -> str:
    """By which the same history is recognised, also when there are more arms."""
    known = {key: value for key, value in data.items() if key not in ("source", "digest")}
    if known.get("uniform"):
        known["rounds"] = known["rounds"][:-1]  # probabilities depend on the arms
    return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()[:16]


def checked_source(source: Any) -> str | None:
    if source is None:
        return None
    if not isinstance(source, str) or not source.strip() or not source.isprintable():
        raise InvalidArgument("source", source, "some text")
    if len(source) > MAX_SOURCE:
        raise InvalidArgument("source", source, f"at most {MAX_SOURCE} characters")
    return source


def check_source(known: dict[str, str], source: str | None, data: dict[str, Any]) -> bool:
    """Whether a history is already known by its source; raises if another history is."""
    if source is None or source not in known:
        return False
    if known[source] != data["digest"]:
        raise ExperimentError(
            f"the source {source!r} was learned already, with other rounds; nothing was learned. "
            "Give what is new a name of its own"
        )
    return True


def positions_of(arms: Arms, labels: Any) -> IntArray:
    """The positions of the arms of past rounds; all unknown ones are named at once."""
    if isinstance(labels, str | dict) or not hasattr(labels, "__iter__"):
        raise InvalidArgument("arms", labels, "a list of arms, one per past round")
    names = labels.tolist() if hasattr(labels, "tolist") else list(labels)
    places = {label: place for place, label in enumerate(arms.labels)}

    def unknown(name: Any) -> bool:
        return isinstance(name, bool) or not isinstance(name, Hashable) or name not in places

    if strange := Counter(repr(name) for name in names if unknown(name)):
        words = [f"{name} ({counted(count, 'round')})" for name, count in strange.items()]
        got = counted(len(strange), "unknown arm")
        raise InvalidArgument("arms", got, f"arms of the experiment, and not {listed(words)}")
    return np.array([places[name] for name in names], dtype=np.int64)


def checked_rewards(policy: Policy, rewards: Any, count: int) -> FloatArray:
    values = vector("rewards", rewards, "past round")
    if values.size != count:
        raise InvalidArgument("rewards", f"{values.size} rewards", f"{count}, one per arm")
    low, high = policy.reward_range
    if outside := np.flatnonzero((values < low) | (values > high)).tolist():
        try:
            policy.check_reward(values[outside[0]])
        except InvalidArgument as error:
            got = f"{values[outside[0]]:g} in past round {outside[0]}"
            raise InvalidArgument("rewards", got, error.wanted) from None
    return values
