"""A replica as text, and back: nothing in a snapshot is believed."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Self

import numpy as np

from rolf.checks import MAX_COUNT
from rolf.experiments.log.totals import Moments
from rolf.experiments.roster import Roster
from rolf.experiments.storage.contract import LogRow, Record, Snapshot
from rolf.policies.policy import Policy
from rolf.policies.state.arrays import arrays, fill, pack, under, unpack
from rolf.policies.state.saving import check_state

#: version of snapshots: raised whenever the arrays of a state, or the data beside them, change
FORMAT = 8

#: attributes of a replica that are saved as they are
COUNTS = (
    *("issued", "changes", "asked", "told", "defaults", "replaced", "corrected", "requests"),
    *("history", "past_sums", "histories"),
)

#: bytes of derived arrays up to which they are saved too
MAX_DERIVED = 2**20


class Saved:
    """The part of a replica that is saved and loaded.

    Attributes:
        roster: the arms.
        policy, state: what is believed.
        last: the last row applied.
        issued, changes, histories: the highest number of a decision, of a change of the arms, and
            of a history.
        asked, told, history: per arm, decisions, rewards told, and rounds from before.
        past_sums: per arm, the sum of the rewards from before.
        defaults: decisions that count with the default reward.
        replaced: those whose default reward gave way to a real one.
        corrected: corrections of rewards.
        requests: asks with a key that were answered.
        sources: where histories came from, with their digests.
        moments: of the rewards.
        pending: number -> time of the decisions that may still get the default reward.
    """

    roster: Roster
    policy: Policy
    state: Any
    last: int
    issued: int
    changes: int
    histories: int
    asked: list[int]
    told: list[int]
    history: list[int]
    past_sums: list[float]
    defaults: int
    replaced: int
    corrected: int
    requests: int
    sources: dict[str, str]
    moments: Moments
    pending: dict[int, float]
    _last_row: list[Any]  # its kind, number and time
    _pending_heap: list[tuple[float, int]]  # oldest first; some may be gone

    def __init__(self, record: Record, roster: Roster | None = None) -> None:
        raise NotImplementedError

    def dump(self) -> Snapshot:
        """The whole replica, to the last bit, less what is large and follows from the rest."""
        derived = self._derived()
        data = {
            "row": self._last_row,
            "table": self.roster.dumps(),
            "arrays": {
                path: pack(array) for path, array in arrays(self.state) if path not in derived
            },
            **{name: getattr(self, name) for name in COUNTS},
            "sources": self.sources,
            "moments": vars(self.moments),
            "open": [
                pack(np.fromiter(self.pending, np.int64, len(self.pending))),
                pack(np.fromiter(self.pending.values(), np.float64, len(self.pending))),
            ],
        }
        return seal(self.last, json.dumps(data))

    def _derived(self) -> set[str]:
        """The arrays that are computed again rather than saved."""
        large = {
            path: array.nbytes
            for path, array in arrays(self.state)
            if under(self.policy.derived, path)
        }
        return set(large) if sum(large.values()) > MAX_DERIVED else set()

    @staticmethod
    def reads(snapshot: Snapshot) -> bool:
        """Whether a snapshot is of a format that this version reads."""
        return snapshot.version == str(FORMAT)

    @classmethod
    def load(cls, record: Record, snapshot: Snapshot, last_row: list[LogRow]) -> Self:
        """The replica of a snapshot; ``last_row`` is the row of the log up to which it goes.

        Nothing is believed: raises ValueError, LookupError, TypeError or AttributeError if
        anything is damaged or does not fit the log.
        """
        data = json.loads(unseal(snapshot))
        replica = cls(record, Roster.loads(data["table"]))
        replica._fill(data["arrays"])
        replica.last, replica._last_row = snapshot.upto, data["row"]
        for name in COUNTS:
            setattr(replica, name, data[name])
        replica.sources = dict(data["sources"])
        moments = vars(replica.moments)
        moments.update({name: data["moments"][name] for name in moments})
        numbers, times = map(unpack, data["open"])
        if numbers.ndim != 1 or numbers.dtype != np.int64 or not np.isfinite(times).all():
            raise ValueError("open decisions that are none")
        replica.pending = dict(zip(numbers.tolist(), times.tolist(), strict=True))
        replica._pending_heap = sorted((time, number) for number, time in replica.pending.items())
        replica._check(last_row)
        return replica

    def _fill(self, saved: dict[str, Any]) -> None:
        """Take over saved arrays, and compute those that were not saved."""
        expected = {path for path, _ in arrays(self.state)}
        if missing := expected - set(saved):
            if not missing <= self._derived():
                raise LookupError(f"no {', '.join(sorted(missing))}")
            fill(self.state, saved)
            self.policy.recompute()
        fill(self.state, saved)  # what was saved counts, also where it can be rebuilt
        check_state(self.policy)

    def _check(self, last_row: list[LogRow]) -> None:
        """Raise ValueError if the counts contradict each other or the log."""
        count, moments = self.roster.arms.count, self.moments
        for values in (
            self.asked,
            self.told,
            self.history,
            self.past_sums,
            moments.counts,
            moments.sums,
            moments.squares,
        ):
            table = np.array(values, dtype=np.float64)
            if table.shape != (count,) or not np.isfinite(table).all():
                raise ValueError(f"{count} finite numbers were expected, one per arm")
        if not isinstance(moments.anchor, float | None):
            raise ValueError("an anchor that is no number")
        apart = [self.changes, self.histories, self.corrected, self.requests]
        whole = [*self.asked, *self.told, *self.history, *apart]
        whole += [self.issued, self.defaults, self.replaced]
        if not all(isinstance(value, int) and 0 <= value <= MAX_COUNT for value in whole):
            raise ValueError("counts that are no counts")
        if [[row[1], row[2], float(row[3])] for row in last_row] != [self._last_row]:
            raise ValueError(f"it does not fit row {self.last} of the log")
        outcomes = sum(self.told) + self.defaults + self.replaced
        if sum(self.asked) + outcomes + sum(apart) != self.last:
            raise ValueError("its counts do not add up to the rows of the log")
        if self.issued < sum(self.asked) or len(self.pending) > sum(self.asked):
            raise ValueError("more decisions than were made")


def seal(upto: int, text: str) -> Snapshot:
    """A snapshot with a checksum of everything in it."""
    return Snapshot(upto, str(FORMAT), f"{_digest(upto, text)}\n{text}")


def unseal(snapshot: Snapshot) -> str:
    """The text of a snapshot; raises ValueError if it is not what was sealed."""
    digest, _, text = snapshot.state.partition("\n")
    if digest != _digest(snapshot.upto, text):
        raise ValueError("its checksum is wrong")
    return text


def _digest(upto: int, text: str) -> str:
    return hashlib.sha256(f"{FORMAT} {upto} {text}".encode()).hexdigest()
