"""Who could change a file or a folder.

Compiled code is loaded from disk and runs as this user, so it may come only from places where no
one but this user and root can write.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

#: mode bits that let others write
OTHERS = stat.S_IWGRP | stat.S_IWOTH


def weakness(path: Path, *, above: bool = False) -> str | None:
    """Why another user could change or replace what is at ``path``; None if no one can.

    Every parent folder and every symbolic link on the way counts. With ``above``, the question is
    whether this user's files in the folder ``path`` are safe. Raises OSError if ``path`` does not
    exist.
    """
    path.stat()  # raises OSError for circular links, which would never end below
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
    """Whether a file belongs to this user or root, and only its owner can write to it."""
    return stat.S_ISREG(info.st_mode) and _ours(info) and _closed(info, above=False)


def owned(path: Path) -> bool:
    """Whether this user owns a folder and can write to it."""
    if not hasattr(os, "geteuid"):
        return os.access(path, os.W_OK)
    access = os.access(
        path, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids
    )
    return access and path.stat().st_uid == os.geteuid()


def _ours(info: os.stat_result) -> bool:
    return not hasattr(os, "geteuid") or info.st_uid in (0, os.geteuid())


def _closed(info: os.stat_result, *, above: bool) -> bool:
    """Whether no one else can replace a folder's entries, or a file's content.

    In a sticky folder such as /tmp, only the owner can rename or remove a file.
    """
    if not hasattr(os, "geteuid"):
        return True
    sticky = above and bool(info.st_mode & stat.S_ISVTX)
    return sticky or not info.st_mode & OTHERS
