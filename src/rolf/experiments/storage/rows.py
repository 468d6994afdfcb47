"""The stored data: rows of a log, records of experiments, snapshots and API keys."""

from __future__ import annotations

import json
from typing import Any, NamedTuple, TypeAlias

IDEMPOTENCY, DECISION, REWARD, DEFAULT, ROSTER, HISTORY, CORRECTION = range(7)

#: kinds of rows that do not belong to a decision and are numbered separately
APART = (ROSTER, HISTORY)

#: a row as read from the log: a ``Row``, or a plain tuple in the same order
LogRow: TypeAlias = tuple[Any, ...]


class Row(NamedTuple):
    """A row of the log, column by column. Arms are positions.

    ``details`` is JSON, or None. It holds

    * for a decision: the ``context`` of its round, or the ``features`` of all arms if they vary;
    * for a reward: the same, but only the ``features`` of its arm unless the policy needs all;
    * for a correction: ``was``, the reward it replaces; the ``reason``; ``refold``, whether the
      state must be recomputed from the whole log; and ``round``, the details of the reward;
    * for a change of the roster, history or an idempotency key: its content.
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
    clock_steps: int = 0  # bits: the entries of the policy's clock that the decision advanced
    ordinal: int = 0  # for a reward, 1 if it replaces the default; for corrections, 1, 2, ...
    details: str | None = None
    reward: float | None = None

    @property
    def replaces_default(self) -> bool:
        """Whether this reward replaces a default reward recorded earlier."""
        return bool(self.ordinal)

    @property
    def parsed(self) -> dict[str, Any]:
        """The details as data."""
        details: dict[str, Any] = json.loads(self.details or "{}")
        return details

    @property
    def place(self) -> tuple[int, int]:
        """Unique within the log: the row's number, and its role for that number."""
        if self.kind == REWARD and self.ordinal:
            return self.number, DEFAULT  # the default reward has the place of the reward
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
        """The row for a reward of this decision; ``whole``: with the features of all arms."""
        details = self.details
        if details and not whole and "features" in (known := json.loads(details)):
            details = json.dumps({"features": known["features"][self.arm]})
        return Row(
            0, kind, self.number, time, *self.choice, 0, int(replaces_default), details, reward
        )

    def corrected(self, reward: float, reason: str, time: float, *, refold: bool) -> Row:
        """The row that replaces the reward of this row, a reward or a correction.

        ``refold``: whether the state must be recomputed from the whole log.
        """
        round, ordinal = self.details and json.loads(self.details), 1
        if self.kind == CORRECTION:
            round, ordinal = self.parsed["round"], self.ordinal + 1
        about = {"was": self.reward, "reason": reason, "refold": refold, "round": round}
        text = json.dumps(about)
        return Row(0, CORRECTION, self.number, time, *self.choice, 0, ordinal, text, reward)

    @property
    def choice(self) -> tuple[int, float | None, int, int, bool]:
        """The arm, its probability, and how it was chosen."""
        return self.arm, self.probability, self.greedy, self.pseudo_action, self.matched


COLUMNS = ", ".join(Row._fields)


class Record(NamedTuple):
    """How an experiment was created."""

    id: int
    name: str
    tag: str  # prefix of its decisions' ids
    policy: str
    options: str  # JSON
    features: str  # JSON: the initial roster
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
    experiment: str | None  # the only experiment it may access; None for all
    note: str  # its purpose, as stated by its creator
    created: float
    revoked: float | None = None
