"""Save a replica as text and load it; the content of a snapshot is never trusted."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np

from rolf.checks import MAX_COUNT
from rolf.experiments.log.replica import Replica
from rolf.experiments.roster import Roster
from rolf.experiments.storage.rows import LogRow, Record, Snapshot
from rolf.policies.state.arrays import arrays, fill, pack, under, unpack
from rolf.policies.state.saving import check_state

#: version of snapshots, raised whenever the arrays of a state or the other data change
FORMAT = 1

#: attributes of a replica that are saved unchanged
COUNTS = (
    *("issued", "changes", "asked", "told", "defaults", "replaced", "corrected", "requests"),
    *("history", "history_sums", "histories"),
)

#: derived arrays up to this many bytes are saved too
MAX_DERIVED = 2**20


def dump(replica: Replica) -> Snapshot:
    """The whole replica, bit by bit, without large derived arrays."""
    derived, pending = _derived(replica), replica.pending
    data = {
        "row": replica.last_row,
        "table": replica.roster.dumps(),
        "arrays": {
            path: pack(array) for path, array in arrays(replica.state) if path not in derived
        },
        **{name: getattr(replica, name) for name in COUNTS},
        "sources": replica.sources,
        "totals": vars(replica.totals),
        "pending": [
            pack(np.fromiter(pending, np.int64, len(pending))),
            pack(np.fromiter(pending.values(), np.float64, len(pending))),
        ],
    }
    return seal(replica.last, json.dumps(data))


def reads(snapshot: Snapshot) -> bool:
    """Whether this version can read a snapshot's format."""
    return snapshot.version == str(FORMAT)


def load(record: Record, snapshot: Snapshot, last_row: list[LogRow]) -> Replica:
    """The replica of a snapshot; ``last_row`` is the last row of the log it covers.

    Everything is checked: raises ValueError, LookupError, TypeError or AttributeError if anything
    is damaged or does not match the log.
    """
    data = json.loads(unseal(snapshot))
    replica = Replica(record, Roster.loads(data["table"]))
    _fill(replica, data["arrays"])
    replica.last_row = data["row"]
    for name in COUNTS:
        setattr(replica, name, data[name])
    replica.sources = dict(data["sources"])
    totals = vars(replica.totals)
    totals.update({name: data["totals"][name] for name in totals})
    numbers, times = map(unpack, data["pending"])
    if numbers.ndim != 1 or numbers.dtype != np.int64 or not np.isfinite(times).all():
        raise ValueError("pending decisions without numbers or times")
    replica.restore(snapshot.upto, dict(zip(numbers.tolist(), times.tolist(), strict=True)))
    _check(replica, last_row)
    return replica


def _derived(replica: Replica) -> set[str]:
    """The arrays that are recomputed rather than saved."""
    large = {
        path: array.nbytes
        for path, array in arrays(replica.state)
        if under(replica.policy.derived, path)
    }
    return set(large) if sum(large.values()) > MAX_DERIVED else set()


def _fill(replica: Replica, saved: dict[str, Any]) -> None:
    """Take over saved arrays and recompute the others."""
    expected = {path for path, _ in arrays(replica.state)}
    if missing := expected - set(saved):
        if not missing <= _derived(replica):
            raise LookupError(f"no {', '.join(sorted(missing))}")
        fill(replica.state, saved)
        replica.policy.recompute()
    fill(replica.state, saved)  # saved arrays take precedence over recomputed ones
    check_state(replica.policy)


def _check(replica: Replica, last_row: list[LogRow]) -> None:
    """Raise ValueError if the counts contradict each other or the log."""
    count, totals = replica.roster.arms.count, replica.totals
    for values in (
        replica.asked,
        replica.told,
        replica.history,
        replica.history_sums,
        totals.counts,
        totals.sums,
        totals.squares,
    ):
        table = np.array(values, dtype=np.float64)
        if table.shape != (count,) or not np.isfinite(table).all():
            raise ValueError(f"expected {count} finite numbers, one per arm")
    if not isinstance(totals.anchor, float | None):
        raise ValueError("an anchor that is not a number")
    apart = [replica.changes, replica.histories, replica.corrected, replica.requests]
    whole = [*replica.asked, *replica.told, *replica.history, *apart]
    whole += [replica.issued, replica.defaults, replica.replaced]
    if not all(isinstance(value, int) and 0 <= value <= MAX_COUNT for value in whole):
        raise ValueError("counts that are fractional or too large")
    if [[row[1], row[2], float(row[3])] for row in last_row] != [replica.last_row]:
        raise ValueError(f"it does not match row {replica.last} of the log")
    outcomes = sum(replica.told) + replica.defaults + replica.replaced
    if sum(replica.asked) + outcomes + sum(apart) != replica.last:
        raise ValueError("its counts do not add up to the rows of the log")
    if replica.issued < sum(replica.asked) or len(replica.pending) > sum(replica.asked):
        raise ValueError("more decisions than were made")


def seal(upto: int, text: str) -> Snapshot:
    """A snapshot with a checksum of all its content."""
    return Snapshot(upto, str(FORMAT), f"{_digest(upto, text)}\n{text}")


def unseal(snapshot: Snapshot) -> str:
    """The text of a snapshot; raises ValueError if its checksum is wrong."""
    digest, _, text = snapshot.state.partition("\n")
    if digest != _digest(snapshot.upto, text):
        raise ValueError("its checksum is wrong")
    return text


def _digest(upto: int, text: str) -> str:
    return hashlib.sha256(f"{FORMAT} {upto} {text}".encode()).hexdigest()
