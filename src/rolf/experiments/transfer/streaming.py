"""Stream a log of any length as lines, part by part.

Lines of JSON are decisions in the form of ``LoggedDecision.to_dict``; CSV has the columns of an
exported log, always with ``corrections``.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from typing import Any

from rolf.experiments.experiment import Experiment
from rolf.experiments.log.decisions import LoggedDecision, logged_decisions
from rolf.experiments.storage.contract import check_exists, check_follows
from rolf.experiments.storage.rows import DECISION, Row
from rolf.experiments.transfer.export import columns_of, joined
from rolf.text import harmless


def stream_log(experiment: Experiment, format: str) -> Iterator[str]:
    """The decisions so far with their rewards, as JSON lines or as CSV with a header."""
    with experiment.current() as replica:
        policy, roster, last = replica.policy, replica.roster, replica.last
    record, store = experiment.record, experiment.synced.store
    header = True
    after = 0
    while after < last or header:
        rows = store.read(record.id, after, last or None) if last else []
        check_follows(store, record, after, rows)
        if not rows:
            check_exists(store, record)
        numbers = [row[2] for row in rows if row[1] == DECISION]
        found = sorted(Row(*row) for row in store.find(record.id, numbers))
        if sum(row.kind == DECISION for row in found) < len(numbers):
            check_exists(store, record)
        if format == "csv":
            columns = columns_of(joined(found), policy, roster, record.tag, corrections=True)
            yield _csv(columns, header)
        else:
            yield _json(logged_decisions(found, record, roster, policy.context))
        header = False
        after += len(rows)
        if not rows:
            break
    check_exists(store, record)


def _json(decisions: list[LoggedDecision]) -> str:
    return "".join(json.dumps(each.to_dict()) + "\n" for each in decisions)


def _csv(columns: dict[str, list[Any]], header: bool) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    if header:
        writer.writerow([harmless(name) for name in columns])
    for line in zip(*columns.values(), strict=True):
        writer.writerow([_cell(value) for value in line])
    return out.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return harmless(value)
