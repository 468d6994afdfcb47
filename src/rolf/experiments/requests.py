"""Requests with a key: asking again with the same key gives the same decisions.

The row that names the decisions of a request is appended together with them. Its place in the log
follows from the key, so that whoever asks with the same key at the same time, in another process,
finds the place taken, and reads there what was decided.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from rolf.checks import is_text
from rolf.errors import DifferentRequest, InvalidArgument
from rolf.experiments.storage.base import DECISION, REQUEST, Record, Row, Store

#: characters of a key
MAX_KEY = 255
#: the numbers of requests start here, far above those of decisions
FIRST = 2**62


class Request:
    """A key, and what is asked for with it, as digests."""

    def __init__(self, key: Any, **arguments: Any) -> None:
        good = isinstance(key, str) and key and key.isprintable() and is_text(key)
        if not good or len(key) > MAX_KEY:
            raise InvalidArgument("key", key, f"some text, up to {MAX_KEY} characters")
        self.key = _digest(key)
        self.arguments = _digest(json.dumps(arguments, sort_keys=True, default=_plain))
        # Two keys in a billion may share one of these numbers, but hardly all of them.
        parts = (self.key[start : start + 16] for start in range(0, 64, 16))
        self._numbers = [FIRST + int(part, 16) % FIRST for part in parts]

    def answer(self, store: Store, record: Record) -> list[Row]:
        """The decisions that were made for this request; none if it is new."""
        taken = {row[2]: Row(*row).details for row in store.find(record.id, self._numbers)}
        for details in taken.values():
            if details["key"] != self.key:
                continue
            if details["arguments"] != self.arguments:
                raise DifferentRequest("the key was used before, to ask for something else")
            first, count = details["first"], details["count"]
            rows = [Row(*row) for row in store.find(record.id, range(first, first + count))]
            decisions = [row for row in rows if row.kind == DECISION]
            return sorted(decisions, key=lambda row: row.number)
        self._numbers = [number for number in self._numbers if number not in taken]
        return []

    def row(self, decisions: Sequence[Row]) -> Row:
        """The row that says that these decisions answer this request."""
        first, count = decisions[0], len(decisions)
        details = {"key": self.key, "arguments": self.arguments, "first": first.number}
        text = json.dumps({**details, "count": count})
        return Row(0, REQUEST, self._numbers[0], first.time, features=text)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: Any) -> Any:
    """Arrays, tables and labels as JSON holds them."""
    if hasattr(value, "to_numpy"):
        value = value.to_numpy()
    return value.tolist() if hasattr(value, "tolist") else repr(value)
