"""Which rows of the log a process knows, where they may become visible out of order.

Transactions overlap, so a row may become visible after one with a higher sequence number. A
transaction gets its own number before its rows get their sequence numbers. So once a process knows
a row, then writes one of its own, and later finds that all transactions up to its own have ended,
no row before the known one can still appear: it need not read there again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, TypeAlias

from rolf.experiments.storage.base import LogRow, Reader
from rolf.experiments.storage.postgres_wire import Wire, log_row

MAX_UNSETTLED = 500  # rows known after the base before the store settles them

#: a row, and the number of the transaction that added it
Added: TypeAlias = tuple[Any, int]


class PostgresReader(Reader):
    """``base``: all rows up to it are known; ``seen``: the rows after it that are known."""

    def __init__(self, experiment: int, after: int) -> None:
        super().__init__(experiment)
        self.base = self.highest = after
        self.seen: set[int] = set()
        self.max_unsettled = MAX_UNSETTLED
        #: this process's transactions, each with the highest row known before it
        self.transactions: deque[tuple[int, int]] = deque()

    def wrote(self, added: Sequence[Added]) -> list[LogRow]:
        """The rows to apply now that a transaction of this process has added some."""
        rows = [row for row, _ in added]
        if added:
            self.transactions.append((added[0][1], self.highest))  # as before these rows
            self.highest = max(self.highest, rows[-1][0])
        (self.own_unread if self.contended else self.seen).update(row[0] for row in rows)
        return [] if self.contended else rows

    def unseen(self, fetched: list[Wire], upto: int | None = None) -> list[LogRow]:
        """The new ones among all rows after the base; from now on they count as seen."""
        rows = [log_row(values)[:-1] for values in fetched if int(values[0]) not in self.seen]
        self.seen.update(row[0] for row in rows)
        if rows:
            self.highest = max(self.highest, rows[-1][0])
        if upto is not None:
            self._advance(upto)
        elif fetched:
            self.ended(int(fetched[0][-1]))
        return rows

    def ended(self, before: int) -> None:
        """All transactions before this one had ended when the rows were read."""
        base = self.base
        while self.transactions and self.transactions[0][0] < before:
            base = max(base, self.transactions.popleft()[1])
        self._advance(base)

    def _advance(self, base: int) -> None:
        if base > self.base:
            self.base = base
            self.seen = {seq for seq in self.seen if seq > base}
            while self.transactions and self.transactions[0][1] <= base:
                self.transactions.popleft()
