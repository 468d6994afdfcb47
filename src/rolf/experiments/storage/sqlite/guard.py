"""Extra protection for a SQLite file: a check before opening it, and a guard while it is open.

SQLite relies on POSIX locks, which belong to a process: closing any descriptor of a file, as when
the same process copies the file, drops all of them. Another process that closes the database then
believes it is the last user and deletes the write-ahead log, or one that opens it believes it is
the first and clears the shared index. The guard holds the two locks that prevent this a second
time, on its own descriptors, in a way that only closing these descriptors undoes.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from rolf.errors import UnusableStorage

try:
    import fcntl

    SET_LOCK: int | None = getattr(fcntl, "F_OFD_SETLK", None)
except ImportError:  # Windows, whose locks do not have this problem
    SET_LOCK = None

MAGIC = b"SQLite format 3\x00"
APPLICATION_ID = 0x524F4C46  # "ROLF", in the header of rolf's files

REOPEN = "close the experiment and open it again"

#: first byte and length of SQLite's locks that mark a database, and its index, as in use
IN_USE = (0x40000002, 510)
INDEX_IN_USE = (128, 1)


class Journal:
    """A descriptor of the write-ahead log, open as long as any thread syncs it."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        close(self.descriptor)  # bound early, since modules are torn down first at exit


class Guard:
    """Descriptors of the database, its write-ahead log and its index, with locks on them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._database = self._index = -1
        self._identity = (0, 0)
        self.journal: Journal | None = None

    def open(self, *, logged: bool) -> None:
        """Open the files; ``logged``: whether there is a write-ahead log."""
        self._database = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        opened = os.fstat(self._database)
        self._identity = opened.st_dev, opened.st_ino
        if logged:
            self.journal = Journal(os.open(f"{self._path}-wal", os.O_RDWR | os.O_CLOEXEC))
            self._index = os.open(f"{self._path}-shm", os.O_RDONLY | os.O_CLOEXEC)
            _lock(self._database, IN_USE)
            _lock(self._index, INDEX_IN_USE)

    def check_in_place(self) -> None:
        """Raise if the open file is no longer the one at its path."""
        try:
            here = os.stat(self._path)
        except OSError:
            raise UnusableStorage(f"{self._path}: was deleted or moved while in use") from None
        if (here.st_dev, here.st_ino) != self._identity:
            raise UnusableStorage(f"{self._path}: was replaced while in use; {REOPEN}")
        if self.journal is not None and not os.fstat(self.journal.descriptor).st_nlink:
            raise UnusableStorage(f"{self._path}-wal: was deleted while in use; {REOPEN}")

    def release(self) -> None:
        """Release the locks so that SQLite can close the file. The descriptors stay open, since
        closing them would drop SQLite's locks."""
        if self._index >= 0:
            _lock(self._database, IN_USE, release=True)
            _lock(self._index, INDEX_IN_USE, release=True)

    def close(self) -> None:
        self.journal = None
        for file in (self._database, self._index):
            if file >= 0:
                os.close(file)


def _lock(file: int, place: tuple[int, int], *, release: bool = False) -> None:
    """Take a shared lock owned by the descriptor, if the file system supports it."""
    if SET_LOCK is not None:
        kind = fcntl.F_UNLCK if release else fcntl.F_RDLCK
        flock = struct.pack("hhqqi4x", kind, os.SEEK_SET, *place, 0)
        with suppress(OSError):
            fcntl.fcntl(file, SET_LOCK, flock)


def inspect(path: Path) -> None:
    """Check a file's header without SQLite, which might write to it."""
    try:
        with open(path, "rb") as file:
            head = file.read(100)
            size = file.seek(0, os.SEEK_END)
    except FileNotFoundError:
        if not path.parent.is_dir():
            raise UnusableStorage(f"{path}: the folder {path.parent} does not exist") from None
        return
    except OSError as error:
        raise UnusableStorage(f"{path}: cannot be opened ({error.strerror})") from None
    if not head:
        return
    if not head.startswith(MAGIC):
        raise UnusableStorage(f"{path}: not a SQLite database")
    if len(head) < 100:
        raise UnusableStorage(f"{path}: damaged, it ends after {len(head)} bytes")
    (page,), (changes, pages) = struct.unpack(">H", head[16:18]), struct.unpack(">II", head[24:32])
    (application_id,), (valid,) = struct.unpack(">I", head[68:72]), struct.unpack(">I", head[92:96])
    expected_size = pages * (65536 if page == 1 else page)
    if application_id != APPLICATION_ID:
        raise UnusableStorage(f"{path}: a SQLite database, but not one of rolf's experiments")
    unfinished = any(Path(f"{path}{end}").exists() for end in ("-wal", "-journal"))
    if changes == valid and size < expected_size and not unfinished:
        raise UnusableStorage(f"{path}: damaged, only {size} of {expected_size} bytes are left")
