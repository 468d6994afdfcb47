"""History, rounds played before an experiment, as one row of its log.

Most policies learn from totals per arm, so only totals are kept. Policies with varying features and
policies that weight rewards by probabilities need every round.
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

#: maximum number of characters in a row; a larger history must come in parts
MAX_CHARACTERS = 100_000_000
#: maximum number of characters in the name of a source
MAX_SOURCE = 200


#: some rounds: positions of arms, rewards, and contexts if the policy takes them
Rounds: TypeAlias = tuple[IntArray, FloatArray, FloatArray | None]


class HistoryEntry(NamedTuple):
    """A history learned in one step: totals per arm, and every round if the policy needs it.

    ``uniform``: no probabilities were passed, so they are uniform over the current arms.
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
        """A history accepted by a policy; an error names all unknown arms at once."""
        positions = positions_of(arms, labels)
        values = checked_rewards(policy, rewards, positions.size)
        history = policy.past_rounds(positions, values, features, context, probabilities)
        if not values.size:
            raise InvalidArgument("arms", [], "at least one past round")
        totals = arm_totals(arms.count, history, float(values[0]))
        return cls(totals, None if policy.learns_totals else history, probabilities is None)

    @classmethod
    def gathered(cls, policy: Policy, arms: Arms, parts: Iterable[Rounds]) -> HistoryEntry | None:
        """A history from parts, in the order of rounds; None if there are none.

        Rewards are added one by one, so the totals, and thus the history, do not depend on how it
        is split.
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
        """A history known only by totals per arm."""
        totals = policy.checked_totals(counts, sums, squares, level)
        return cls(totals, None, uniform=False)

    @property
    def size(self) -> int:
        return int(self.totals.counts.sum())

    def teach(self, policy: Policy) -> None:
        """Let a policy learn the history."""
        if self.rounds is None:
            policy.learn_totals(*self.totals[:3], level=self.totals.level)
            return
        policy.learn_history(self.rounds)

    def check_fits(self, policy: Policy) -> None:
        """Raise if a policy cannot learn the history; the policy does not change."""
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
    """The error for more rounds than fit into one row of a log."""
    expected = "fewer at a time, each part with its own source"
    return InvalidArgument("arms", f"{rounds} rounds", expected)


def digest(data: dict[str, Any]) -> str:
    """A digest that identifies a history, even after arms were added."""
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
    """Whether a history was already learned from this source; raise if another one was."""
    if source is None or source not in known:
        return False
    if known[source] != data["digest"]:
        raise ExperimentError(
            f"the source {source!r} was learned already, with other rounds; nothing was learned. "
            "Use a new name for new rounds"
        )
    return True


def positions_of(arms: Arms, labels: Any) -> IntArray:
    """The positions of the arms of past rounds; an error names all unknown arms at once."""
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
