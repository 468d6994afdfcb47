"""Decisions without a reward so far."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from rolf.errors import AlreadyTold, InvalidArgument, UnknownDecision
from rolf.text import new_tag
from rolf.types import Choice, Decision, FloatArray


class Pending(NamedTuple):
    """A choice without a reward so far, and the features kept from its round."""

    choice: Choice
    row: FloatArray


class PendingDecisions:
    """The pending decisions of a policy by id, oldest first.

    Attributes:
        tag: the start of every id, which distinguishes this policy's decisions from all others.
        issued: how many ids were issued.
        by_id: the pending decisions.
    """

    def __init__(self) -> None:
        self.tag = new_tag()
        self.issued = 0
        self.by_id: dict[str, Pending] = {}

    def add(self, choice: Choice, row: FloatArray) -> str:
        """Give a decision its id."""
        self.issued += 1
        key = f"{self.tag}-{self.issued}"
        self.by_id[key] = Pending(choice, row)
        return key

    def take(self, key: str) -> Pending:
        """Remove and return the decision with this id."""
        pending = self.by_id.pop(key, None)
        if pending is None:
            raise self._cannot_tell(key)
        return pending

    def check(self, keys: Iterable[str]) -> None:
        """Raise unless each of these is pending and occurs once."""
        seen: set[str] = set()
        for key in keys:
            if key not in self.by_id:
                raise self._cannot_tell(key)
            if key in seen:
                raise AlreadyTold(f"decision {key!r} comes twice in one batch", key)
            seen.add(key)

    def own_numbers(self) -> list[int]:
        """The numbers of the ids issued here."""
        split = [key.rpartition("-") for key in self.by_id]
        return [int(number) for tag, _, number in split if tag == self.tag and number.isdecimal()]

    def _cannot_tell(self, key: str) -> Exception:
        tag, _, number = key.rpartition("-")
        if tag == self.tag and number.isdecimal() and 0 < int(number) <= self.issued:
            return AlreadyTold(f"decision {key!r} has been told its reward already", key)
        return UnknownDecision(f"decision {key!r} was not issued by this policy", key)


def id_of(decision: Any) -> str:
    """The id of a decision, from the decision or its id."""
    key = decision.id if isinstance(decision, Decision) else decision
    if not isinstance(key, str):
        raise InvalidArgument("decision", decision, "a decision or its id")
    return key
