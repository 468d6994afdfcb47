"""A cache of results that take long to compute."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class Results:
    """Keeps slow results for five times as long as they took to compute.

    Threads that want the same result wait for the one that computes it.
    """

    LONG = 0.1
    MOST = 20  # they may be large

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._computing: dict[Any, threading.Lock] = {}
        self._known: dict[Any, tuple[float, Any]] = {}  # until when it is good, and the result

    def get(self, key: Any, compute: Callable[[], T]) -> T:
        with self._lock:
            known = self._fresh(key)
            if known is not None:
                return known[0]  # type: ignore[no-any-return]
            computing = self._computing.setdefault(key, threading.Lock())
        with computing:
            with self._lock:
                known = self._fresh(key)
            if known is not None:
                return known[0]  # type: ignore[no-any-return]
            began = time.monotonic()
            try:
                result = compute()
                took = time.monotonic() - began
                with self._lock:
                    now = time.monotonic()
                    self._known = {k: v for k, v in self._known.items() if v[0] > now and k != key}
                    if took > self.LONG:
                        self._known[key] = (now + 5.0 * took, result)
                    while len(self._known) > self.MOST:
                        self._known.pop(next(iter(self._known)))
                return result
            finally:
                with self._lock:
                    self._computing.pop(key, None)

    def _fresh(self, key: Any) -> tuple[Any] | None:
        until, result = self._known.get(key, (0.0, None))
        return (result,) if until > time.monotonic() else None
