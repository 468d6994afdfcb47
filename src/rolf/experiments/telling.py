"""Rewards, one or many at a time: those that come together are written together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rolf.checks import MAX_COUNT, is_text
from rolf.errors import DecisionError, InvalidArgument, RolfError
from rolf.experiments.batch import Pairs, Tell
from rolf.experiments.log.synced import already_told, unknown_decision
from rolf.experiments.parts import Part
from rolf.types import Decision

#: characters of the reason for a correction
MAX_REASON = 1_000


class Rewards(Part):
    """The part of an experiment that takes rewards."""

    def _checked(self, tells: Sequence[Tell]) -> list[Tell]:
        """Those that tell something which could be recorded."""
        good = []
        for tell in tells:
            try:
                tell.numbered = self._numbered(tell.rewards)
                if tell.numbered:
                    good.append(tell)
            except RolfError as error:
                tell.error = error
        return good

    def _tell(self, tells: Sequence[Tell]) -> None:
        together = combined(tells)
        if len(tells) > 1 and together:
            try:
                recorded(tells, self.synced.tell(together, self.synced.now()))
                return
            except DecisionError:  # nothing was recorded: find out whose it is
                pass
        for tell in tells:
            try:
                tell.new = len(self.synced.tell(tell.numbered, self.synced.now()))
            except DecisionError as error:
                tell.error = error

    def _numbered(self, rewards: Pairs) -> dict[int, float]:
        """Rewards by the numbers of their decisions."""
        pairs = rewards.items() if isinstance(rewards, Mapping) else rewards
        numbered: dict[int, float] = {}
        try:
            for decision, reward in pairs:
                value = self.synced.replica.policy.check_reward(reward)
                number = self._decision_number(decision)
                if numbered.setdefault(number, value) != value:
                    raise already_told(self._record, number, numbered[number], value)
        except (TypeError, ValueError) as error:
            if isinstance(error, InvalidArgument):
                raise
            raise InvalidArgument("rewards", rewards, "pairs of an id and a reward") from None
        return numbered

    def correct(self, decision: Decision | str, reward: float, reason: str) -> None:
        """Put the right reward in the place of a wrong one; durable when this returns.

        The log keeps both, with the reason. The state is as if the right reward had been told in
        the first place. A reward may be corrected more than once; a correction to the reward that
        counts already changes nothing.

        Args:
            decision: one that has been told a reward, or its id.
            reward: the right one.
            reason: why the other one was wrong.
        """
        value = self.synced.replica.policy.check_reward(reward)
        number = self._decision_number(decision)
        good = isinstance(reason, str) and reason.strip() and is_text(reason)
        if not good or len(reason) > MAX_REASON:
            raise InvalidArgument("reason", reason, f"some text, up to {MAX_REASON} characters")
        with self._exclusive():
            self.synced.correct(number, value, reason, self.synced.now())

    def _decision_number(self, decision: Decision | str) -> int:
        id = decision.id if isinstance(decision, Decision) else decision
        if not isinstance(id, str):
            raise InvalidArgument("decision", id, "a decision or its id")
        tag, _, number = id.rpartition("-")
        known = tag == self._record.tag and number.isascii() and number.isdecimal()
        if not known or number.startswith("0") or len(number) > 18 or int(number) > MAX_COUNT:
            raise unknown_decision(id)
        return int(number)


def combined(tells: Sequence[Tell]) -> dict[int, float]:
    """All rewards that are told; none if some disagree."""
    together: dict[int, float] = {}
    for tell in tells:
        together |= tell.numbered
    agree = all(together[n] == r for each in tells for n, r in each.numbered.items())
    return together if agree else {}


def recorded(tells: Sequence[Tell], new: set[int]) -> None:
    """Note which rewards were new: each counts for the first that told it."""
    for tell in tells:
        tell.new = len(new & tell.numbered.keys())
        new = new - tell.numbered.keys()
