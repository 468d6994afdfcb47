"""Who could change a file or a folder.

Compiled code is loaded from disk and runs as us, so it may come only from where no one but us
and root can put it.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

#: bits that let others write
OTHERS = stat.S_IWGRP | stat.S_IWOTH


def weakness(path: Path, *, above: bool = False) -> str | None:
    """Why somebody else could change or swap what is at ``path``; None if no one can.

    Every folder above it counts, and so does every symbolic link on the way. With ``above``, the
    question is whether something of ours in the folder ``path`` is safe. Raises OSError if there
    is nothing at ``path``.
    """
    path.stat()  # a circle of links, which would be followed without end, is an OSError here
    path = path.absolute()
    for place in (*reversed(path.parents), path):
        info = place.lstat()
        if not _ours(info):
            return f"{place} belongs to somebody else"
        if stat.S_ISLNK(info.st_mode):
            reason = weakness(place.parent / os.readlink(place), above=above or place != path)
        else:
            closed = _closed(info, above=above or place != path)
            reason = None if closed else f"others can write to {place}"
        if reason is not None:
            return reason
    return None


def is_private(info: os.stat_result) -> bool:
    """Whether a file is ours or root's, and only its owner can write to it."""
    return stat.S_ISREG(info.st_mode) and _ours(info) and _closed(info, above=False)


def owned(path: Path) -> bool:
    """Whether a folder is ours to write to."""
    if not hasattr(os, "geteuid"):
        return os.access(path, os.W_OK)
    access = os.access(
        path, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids
    )
    return access and path.stat().st_uid == os.geteuid()


def _ours(info: os.stat_result) -> bool:
    return not hasattr(os, "geteuid") or info.st_uid in (0, os.geteuid())


def _closed(info: os.stat_result, *, above: bool) -> bool:
    """Whether others cannot swap what is in a folder, or, of a file, what it holds.

    In a sticky folder, such as /tmp, no one else can rename or remove what is ours.
    """
    if not hasattr(os, "geteuid"):
        return True
    sticky = above and bool(info.st_mode & stat.S_ISVTX)
    return sticky or not info.st_mode & OTHERS
