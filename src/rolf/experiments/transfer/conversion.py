"""An experiment under another policy, which learns from the same decisions and rewards."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rolf.errors import InvalidArgument
from rolf.experiments.log.replica import Replica, earlier_corrections
from rolf.experiments.log.snapshot import dump
from rolf.experiments.roster import Roster
from rolf.experiments.settings import Settings
from rolf.experiments.storage.contract import Store, log_rows
from rolf.experiments.storage.rows import (
    CORRECTION,
    DECISION,
    DEFAULT,
    REWARD,
    ROSTER,
    LogRow,
    Record,
    Row,
    Snapshot,
)
from rolf.policies.contract import check_growth


class Conversion:
    """The record, the log and the snapshot of an experiment in a store, under another policy.

    The other policy learns everything before the log ends, so anything it cannot learn is an error.
    ``snapshot`` is available once all ``rows`` have been read.
    """

    def __init__(
        self, store: Store, record: Record, policy: Any, options: Mapping[str, Any] | None
    ) -> None:
        self._store, self._old = store, record
        roster = Roster.loads(record.features)
        settings = Settings.checked(
            policy, options, record.seed, record.default_reward, record.reward_after
        )
        new = settings.record(record.name, roster, settings.new_policy(roster))
        self.record = new._replace(tag=record.tag, created=record.created)
        self._policy = Replica(self.record).policy
        self.snapshot: Snapshot | None = None

    def rows(self) -> Iterator[LogRow]:
        """The log as the other policy would have written it."""
        replica = Replica(self.record, corrections=earlier_corrections(self._converted()))
        for seq, row in enumerate(self._converted(), 1):
            if row.kind == ROSTER and "add" in row.parsed:
                check_growth(replica.policy)
            replica.apply([row._replace(seq=seq)])
            yield row
        self.snapshot = dump(replica)

    def _converted(self) -> Iterator[Row]:
        for values in log_rows(self._store, self._old):
            row = Row(*values)
            if row.kind in (DECISION, REWARD, DEFAULT):
                row = row._replace(details=self._round(row, row.parsed))
            elif row.kind == CORRECTION:
                about = row.parsed
                round = self._round(row, about["round"])
                about["round"] = None if round is None else json.loads(round)
                about["refold"] = about["refold"] or self._policy.sequential
                row = row._replace(details=json.dumps(about))
            yield row

    def _round(self, row: Row, recorded: dict[str, Any] | None) -> str | None:
        """The details of a decision's round in the form the other policy needs."""
        policy = self._policy
        if not policy.varying:
            return None
        wanted = "features" if policy.context is None else "context"
        if not recorded or wanted not in recorded:
            expected = f"one that does not need the {wanted} of every round, which the log lacks"
            raise InvalidArgument("policy", self.record.policy, expected)
        if policy.context is not None:
            if len(recorded["context"]) != len(policy.context.names):
                expected = f"contexts of {len(recorded['context'])} entries, as in the log"
                raise InvalidArgument("options", json.loads(self.record.options), expected)
        elif policy.whole and row.kind != DECISION:
            recorded = self._decision(row.number).parsed
        return json.dumps(recorded)

    def _decision(self, number: int) -> Row:
        rows: Iterable[Row] = (Row(*each) for each in self._store.find(self._old.id, [number]))
        return next(row for row in rows if row.kind == DECISION)
