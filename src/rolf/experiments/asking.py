"""Asks, one or many at a time: those that come together are written together."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from rolf.errors import DifferentRequest, RolfError, StorageError
from rolf.experiments.batch import Ask
from rolf.experiments.log.idempotency import answers
from rolf.experiments.parts import Part
from rolf.experiments.storage.contract import MAX_TEXT, PART, Row, part_size
from rolf.policies.policy import slate_size
from rolf.types import Decision, FloatArray


class Asks(Part):
    """The part of an experiment that decides."""

    def _ask(self, asks: Sequence[Ask], rewards: Sequence[Row] = ()) -> bool:
        """Decide for all, one after the other; whether these rewards were written with the first
        decisions."""
        caught_up = self._expire()
        written = False
        while waiting := [ask for ask in asks if ask.unfinished]:
            written |= self._decide(waiting, rewards)
            rewards = ()
        if caught_up:  # otherwise this has taken long enough
            self.synced.snapshot_if_due()
        return written

    def _decide(self, waiting: list[Ask], rewards: Sequence[Row] = ()) -> bool:
        """Make the next decisions, as many as are written at a time. Rewards of other decisions
        are written with them unless something is in the way; whether they were."""
        made: list[tuple[Ask, list[Row]]] = []
        doubtful = False  # as long as nothing is in the way, requests are taken to be new
        added: Sequence[Row] = ()
        store, record = self.synced.store, self._record

        def next_rows() -> list[Row]:
            nonlocal doubtful, added
            made.clear()
            added = () if doubtful else rewards
            for ask in waiting:
                ask.error = None
            keyed = [ask.request for ask in waiting if ask.request]
            known = answers(store, record, keyed) if doubtful else {}
            doubtful = True
            rows: list[Row] = []
            taken = set()
            characters, number, now = 0, self.synced.replica.issued + 1, self.synced.now()
            with self.synced.replica.ahead():
                for ask in waiting:
                    request = ask.request
                    room = PART - len(rows) - (0 if request is None else ask.count)
                    if rows and (room < 0 or len(rows) >= PART or characters >= MAX_TEXT):
                        break
                    try:
                        if request in known:
                            made.append((ask, _answered(known[request])))
                            continue
                        if request and request.numbers[0] in taken:
                            continue  # the same key twice: the other one comes first
                        decisions = self._choose(ask, number, PART - len(rows), now)
                    except StorageError:
                        raise
                    except RolfError as error:
                        ask.error = error
                        if request and (old := answers(store, record, [request]).get(request)):
                            # what could be decided then perhaps no longer can
                            ask.error = old if isinstance(old, DifferentRequest) else None
                            made.append((ask, [] if ask.error else _answered(old)))
                        continue
                    made.append((ask, decisions))
                    number += len(decisions)
                    characters += sum(len(row.features or "") for row in decisions)
                    rows += decisions
                    if request is not None:
                        rows.append(request.row(decisions))
                        taken.add(request.numbers[0])
            return [*rows, *added]

        self.synced.write(next_rows)
        for ask, rows in made:
            self.synced.remember(rows)
            ask.decisions += [self._decision(row) for row in rows]
            ask.chosen += [row.arm for row in rows]
            ask.new += sum(row.seq == 0 for row in rows)  # others were read from the log
        return bool(added)

    def _choose(self, ask: Ask, number: int, most: int, now: float) -> list[Row]:
        replica = self.synced.replica
        positions = replica.roster.available(ask.available)
        wanted = ask.count - len(ask.decisions)
        if ask.distinct:
            positions = np.setdiff1d(positions, ask.chosen)
            slate_size(ask.count, positions.size + len(ask.chosen))
        table = self._round_features(ask.features, ask.context)
        text = self._logged_features(table, ask.context)
        if ask.request is None:
            wanted = min(part_size(len(text or "")), wanted, most)
        numbers = range(number, number + wanted)
        return replica.choose(numbers, positions, table, text, now, ask.distinct)

    def _logged_features(self, table: FloatArray, context: Any) -> str | None:
        """What a decision has to record: its context, or the features of all arms, if they vary."""
        policy = self.synced.replica.policy
        if policy.context is not None:
            return json.dumps({"context": policy.context.vector(context).tolist()})
        return json.dumps(table.tolist()) if policy.varying else None

    def _decision(self, row: Row) -> Decision:
        labels = self.synced.replica.roster.arms.labels
        chance = math.nan if row.probability is None else row.probability
        id = self._record.decision_id(row.number)
        return Decision(id, labels[row.arm], chance, labels[row.greedy], bool(row.matched))


def _answered(answer: list[Row] | DifferentRequest) -> list[Row]:
    if isinstance(answer, DifferentRequest):
        raise answer
    return answer
