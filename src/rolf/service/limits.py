"""How many requests a key may make: a bucket of tokens per key, filled at a steady rate."""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

#: keys whose buckets are kept
MOST = 10_000


class Buckets:
    """The buckets of all keys; each holds up to ``burst`` tokens, and gets ``rate`` a second."""

    def __init__(
        self, rate: float, burst: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._lock = threading.Lock()
        self._filled: OrderedDict[str, tuple[float, float]] = OrderedDict()  # tokens, and when

    def wait_for(self, key: str) -> int:
        """Take a token; 0 if there is one, otherwise the seconds until there is."""
        if self._rate == 0.0:
            return 0
        now = self._clock()
        with self._lock:
            tokens, then = self._filled.pop(key, (float(self._burst), now))
            tokens = min(float(self._burst), tokens + (now - then) * self._rate)
            enough = tokens >= 1.0
            self._filled[key] = (tokens - 1.0 if enough else tokens, now)
            if len(self._filled) > MOST:
                self._filled.popitem(last=False)
        return 0 if enough else max(1, math.ceil((1.0 - tokens) / self._rate))
