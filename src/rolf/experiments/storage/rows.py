"""What is stored: the rows of a log, the record of an experiment, snapshots and API keys."""

from __future__ import annotations

import json
from typing import Any, NamedTuple, TypeAlias

IDEMPOTENCY, DECISION, REWARD, DEFAULT, ROSTER, HISTORY, CORRECTION = range(7)

#: kinds of rows that belong to no decision, and have numbers of their own
APART = (ROSTER, HISTORY)

#: a row as read from the log: a ``Row``, or a plain tuple in its order
LogRow: TypeAlias = tuple[Any, ...]


class Row(NamedTuple):
    """A row of the log, column by column. Arms are positions.

    ``details`` is JSON, if there is anything to say:

    * of a decision: the ``context`` of its round, or the ``features`` of all arms where they vary;
    * of a reward: the same, except that ``features`` are those of its arm unless the policy needs
      all of them;
    * of a correction: the reward that it replaces, ``was``, the ``reason``, whether the state must
      be computed from the whole log again, ``refold``, and the details of the reward, ``round``;
    * of a change of the roster, of history, and of an idempotency key: what it is about.
    """

    seq: int
    kind: int
    number: int  # of the decision, the change, the history or the idempotency key
    time: float
    arm: int = 0
    probability: float | None = None
    greedy: int = 0
    pseudo_action: int = 0
    matched: bool = True
    clock_steps: int = 0  # which entries of the policy's clock a decision advanced, as bits
    ordinal: int = 0  # of a reward, 1 if it replaces the default one; of a correction, from 1
    details: str | None = None
    reward: float | None = None

    @property
    def replaces_default(self) -> bool:
        """Of a reward: whether a default reward was recorded before it."""
        return bool(self.ordinal)

    @property
    def parsed(self) -> dict[str, Any]:
        """The details as data."""
        details: dict[str, Any] = json.loads(self.details or "{}")
        return details

    @property
    def place(self) -> tuple[int, int]:
        """What no other row of the log may have: its number, and what it is to that number."""
        if self.kind == REWARD and self.ordinal:
            return self.number, DEFAULT  # as the default reward had the place of the reward
        if self.kind == CORRECTION:
            return self.number, CORRECTION + self.ordinal
        return self.number, REWARD if self.kind == DEFAULT else self.kind

    def rewarded(
        self,
        kind: int,
        reward: float,
        time: float,
        *,
        replaces_default: bool = False,
        whole: bool = False,
    ) -> Row:
        """The row that records a reward of this decision; ``whole``: with all arms' features."""
        details = self.details
        if details and not whole and "features" in (known := json.loads(details)):
            details = json.dumps({"features": known["features"][self.arm]})
        return Row(
            0, kind, self.number, time, *self.choice, 0, int(replaces_default), details, reward
        )

    def corrected(self, reward: float, reason: str, time: float, *, refold: bool) -> Row:
        """The row that puts another reward in the place of this one, a reward or its correction.

        ``refold``: whether the state must be computed from the whole log again.
        """
        round, ordinal = self.details and json.loads(self.details), 1
        if self.kind == CORRECTION:
            round, ordinal = self.parsed["round"], self.ordinal + 1
        about = {"was": self.reward, "reason": reason, "refold": refold, "round": round}
        text = json.dumps(about)
        return Row(0, CORRECTION, self.number, time, *self.choice, 0, ordinal, text, reward)

    @property
    def choice(self) -> tuple[int, float | None, int, int, bool]:
        """The arm, its probability, and how it came to be chosen."""
        return self.arm, self.probability, self.greedy, self.pseudo_action, self.matched


COLUMNS = ", ".join(Row._fields)


class Record(NamedTuple):
    """How an experiment was created."""

    id: int
    name: str
    tag: str  # the ids of its decisions start with it
    policy: str
    options: str  # JSON
    features: str  # JSON: the roster of arms at the start
    seed: int
    default_reward: float | None
    reward_after: float | None
    created: float

    def decision_id(self, number: int) -> str:
        """The id of a decision of this experiment."""
        return f"{self.tag}-{number}"


FIELDS = ", ".join(Record._fields)


class Snapshot(NamedTuple):
    """The state after all rows up to ``upto``."""

    upto: int
    version: str
    state: str


class Key(NamedTuple):
    """An API key of the service, without its secret."""

    id: str
    digest: str  # SHA-256 of the secret
    scope: str
    experiment: str | None  # the only one it is for
    note: str  # what it is for, in the words of whoever made it
    created: float
    revoked: float | None = None
