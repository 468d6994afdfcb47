"""Changes of the roster, and history, as rows of the log."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from typing import Any, TypeVar

from rolf.errors import RolfError
from rolf.experiments.log.history import HistoryEntry, check_source
from rolf.experiments.log.replica import Replica
from rolf.experiments.log.synced import SyncedReplica
from rolf.experiments.roster import Roster
from rolf.experiments.storage.rows import HISTORY, ROSTER, Row
from rolf.policies.contract import check_growth

T = TypeVar("T")


def change_roster(
    log: SyncedReplica, describe: Callable[[Roster], dict[str, Any]]
) -> tuple[Roster, Roster]:
    """Record a change unless it is empty; return the rosters before and after it."""

    def change(replica: Replica) -> tuple[tuple[Roster, Roster], list[Row]]:
        before = replica.roster
        change = describe(before)
        after = before.changed(change)
        if not change:
            return (before, after), []
        if after.arms.count > before.arms.count:
            check_growth(replica.policy)
        Replica(log.record._replace(features=after.dumps()))  # raises if the policy objects
        text = json.dumps(change)
        return (before, after), [Row(0, ROSTER, replica.changes + 1, log.now(), details=text)]

    return _append(log, change)


def learn(log: SyncedReplica, make: Callable[[Replica], HistoryEntry], source: str | None) -> int:
    """Learn a history made for the current arms; return the number of new rounds."""

    def history(replica: Replica) -> tuple[int, list[Row]]:
        past = make(replica)
        text = past.dumps(source)
        if check_source(replica.sources, source, json.loads(text)):
            return 0, []
        past.check_fits(replica.policy)
        return past.size, [Row(0, HISTORY, replica.histories + 1, log.now(), details=text)]

    return _append(log, history)


def _append(log: SyncedReplica, rows_for: Callable[[Replica], tuple[T, list[Row]]]) -> T:
    """Append the rows made from a replica; return the value made with them."""
    with closing(log.attempts()) as attempts:
        for attempt in attempts:
            try:
                result, rows = rows_for(attempt.replica)
            except RolfError:  # the replica may be out of date
                if attempt.certain:
                    raise
                continue
            attempt.append(rows)
    log.sync()
    return result
