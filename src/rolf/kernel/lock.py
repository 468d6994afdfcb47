"""A lock between the processes of a machine, released when its holder ends."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # no such locks on this system: no process waits
    fcntl = None  # type: ignore[assignment]

#: seconds after which a process proceeds anyway: the holder must be stuck
LONGEST = 600.0


class FileLock:
    """A lock on a file that exists only while processes hold or await the lock."""

    def __init__(self) -> None:
        self._held: tuple[int, Path] | None = None

    def acquire(self, path: Path) -> None:
        """Wait until no other process holds the lock, and take it."""
        self.release()  # if an earlier use failed
        if fcntl is None:
            return
        with suppress(OSError):  # a full disk, say, or a file system without locks
            file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            self._held = file, path
            end = time.monotonic() + LONGEST
            while not _locked(file) and time.monotonic() < end:
                time.sleep(0.05)

    def release(self) -> None:
        """Pass the lock on to the next process."""
        if self._held is not None:
            file, path = self._held
            self._held = None
            with suppress(OSError):
                os.unlink(path)
            os.close(file)


def _locked(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
