"""Idempotency keys: asking again with the same key returns the same decisions.

The row that lists the decisions of a request is appended together with them. Its place in the log
is derived from the key, so another process that asks with the same key at the same time finds the
place taken, and reads the decisions from that row.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeAlias

from rolf.checks import MAX_KEY, is_text
from rolf.errors import DifferentRequest, InvalidArgument, UnusableStorage
from rolf.experiments.storage.contract import Store, check_exists
from rolf.experiments.storage.rows import DECISION, IDEMPOTENCY, Record, Row

#: numbers of requests start here, far above numbers of decisions
FIRST = 2**62


class Request:
    """A key and the content of its request, as digests."""

    def __init__(self, key: Any, *, available: Any = None, **others: Any) -> None:
        good = isinstance(key, str) and key and key.isprintable() and is_text(key)
        if not good or len(key) > MAX_KEY:
            raise InvalidArgument("idempotency_key", key, f"text of up to {MAX_KEY} characters")
        self.key = _digest(key)
        self._others, self._available = others, available
        # Two keys in a billion may share one of these numbers, but hardly all of them.
        parts = (self.key[start : start + 16] for start in range(0, 64, 16))
        self.numbers = [FIRST + int(part, 16) % FIRST for part in parts]

    @cached_property
    def arguments(self) -> str:
        """Computed only when compared or recorded, since that is slow with many features."""
        arguments = {**self._others, "available": _in_order(self._available)}
        try:
            text = json.dumps(arguments, sort_keys=True, default=plain)
        except (TypeError, ValueError):  # the decision itself will report the error
            text = json.dumps(repr(arguments))
        as_numbers = json.loads(text, parse_int=float)  # 1 and 1.0 are the same request
        return _digest(json.dumps(as_numbers, sort_keys=True))

    def found(self, taken: Mapping[int, Row]) -> tuple[int, int] | None:
        """The first decision for this request and the number of decisions; None if the request is
        new. ``taken``: the rows of requests at any of its numbers."""
        for number in self.numbers:
            details = taken[number].parsed if number in taken else {}
            if details.get("key") != self.key:
                continue
            if details["arguments"] != self.arguments:
                raise DifferentRequest("the key was used before for a different request")
            return details["first"], details["count"]
        self.numbers = [number for number in self.numbers if number not in taken]
        return None

    def row(self, decisions: Sequence[Row]) -> Row:
        """The row that records these decisions as the answer to this request."""
        first, count = decisions[0], len(decisions)
        details = {"key": self.key, "arguments": self.arguments, "first": first.number}
        text = json.dumps({**details, "count": count})
        return Row(0, IDEMPOTENCY, self.numbers[0], first.time, details=text)


Answer: TypeAlias = list[Row] | DifferentRequest


def answers(store: Store, record: Record, requests: Sequence[Request]) -> dict[Request, Answer]:
    """The decisions already made for requests; new requests are left out."""
    numbers = [number for request in requests for number in request.numbers]
    if not numbers:
        return {}
    taken = {row[2]: Row(*row) for row in store.find(record.id, numbers)}
    places: dict[Request, range] = {}
    out: dict[Request, Answer] = {}
    for request in requests:
        try:
            found = request.found(taken)
        except DifferentRequest as error:
            out[request] = error
        else:
            if found is not None:
                first, count = found
                places[request] = range(first, first + count)
    wanted = sorted({number for place in places.values() for number in place})
    rows = (Row(*row) for row in store.find(record.id, wanted)) if wanted else ()
    decisions = {row.number: row for row in rows if row.kind == DECISION}
    if len(decisions) < len(wanted):
        check_exists(store, record)
        raise UnusableStorage(f"experiment {record.name!r} is damaged (decisions are missing)")
    return out | {
        request: [decisions[number] for number in place] for request, place in places.items()
    }


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _in_order(available: Any) -> Any:
    """The arms to choose from, sorted, since the order of a set differs between processes."""
    if isinstance(available, str) or not isinstance(available, Iterable):
        return available
    listed = available.tolist() if hasattr(available, "tolist") else list(available)
    return listed if any(isinstance(each, bool) for each in listed) else sorted(listed, key=repr)


def plain(value: Any) -> Any:
    """Convert arrays, tables and labels to data for JSON."""
    if hasattr(value, "to_numpy"):
        value = value.to_numpy()
    return value.tolist() if hasattr(value, "tolist") else repr(value)
