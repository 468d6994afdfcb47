"""Where compiled code is kept.

Numba's disk cache does not notice edits in other files, so its folder is named after a hash of all
sources of compiled code. Only the latest few folders are kept.

Code is read from folders that only this user and root can write to (``trust.py``), and written to
the first one that this user owns:

1. ``ROLF_CACHE_DIR``. It may be read-only, as in a container image with code compiled by root; code
   written there is readable by others.
2. ``rolf`` in the user's cache folder.
3. ``rolf-<user id>`` in the folder for temporary files.
"""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:  # modules for compiling are imported when needed, not with rolf
    from pathlib import Path

#: the sources of compiled code in this package; only edits of these recompile it
SOURCES = (
    "types.py",
    "kernel",
    "linalg.py",
    "theory.py",
    "estimators",
    "policies/core",
    "policies/rivals",
    "environments/problem.py",
    "environments/varying_problems.py",
    "simulation/loop.py",
)
#: how many folders to keep, the latest first
KEPT = 32
#: permissions of new folders: the user's own, and ROLF_CACHE_DIR
PRIVATE, READABLE = 0o700, 0o755


class Folders(NamedTuple):
    """Folders to read compiled code from, the one to write to, and why others are refused."""

    read: list[Path]
    write: Path | None
    refused: list[str]


class Root(NamedTuple):
    """A folder that may hold compiled code, and the permissions of new folders in it."""

    path: Path
    access: int


def roots() -> list[Root]:
    """Possible places for compiled code, the preferred one first."""
    import tempfile
    from pathlib import Path

    out = []
    chosen, base = os.environ.get("ROLF_CACHE_DIR"), os.environ.get("XDG_CACHE_HOME")
    if chosen:
        out.append(Root(Path(chosen), READABLE))
    with suppress(KeyError, RuntimeError):  # this user has no home
        out.append(Root((Path(base) if base else Path.home() / ".cache") / "rolf", PRIVATE))
    with suppress(OSError):  # there is no folder for temporary files
        user = os.geteuid() if hasattr(os, "geteuid") else "user"
        out.append(Root(Path(tempfile.gettempdir()) / f"rolf-{user}", PRIVATE))
    return out


def cache_folders(classes: set[str], called: set[str]) -> Folders | None:
    """The folders for code compiled for classes of these modules; None if it cannot be kept.

    ``called`` are the modules of all functions that compiled code may call. Outside this package,
    the files of the classes count, and those that their modules refer to.
    """
    name = _folder_name(classes, called)
    if name is None:
        return None
    folders = Folders([], None, [])
    for root in roots():
        folder = root.path / name
        try:
            writable = _open_folder(folder, root.access, folders)
        except OSError as error:
            folders.refused.append(f"{folder}: {error.strerror or error}")
            continue
        if writable:
            with suppress(OSError):
                evict(root.path, keep=folder)
            return folders._replace(write=folder)
    return folders


def _open_folder(folder: Path, access: int, folders: Folders) -> bool:
    """Add a folder to read from if no one else can change it. Returns whether it is writable,
    too."""
    from rolf.kernel.trust import owned, weakness

    reason = weakness(_existing(folder), above=True)
    if reason is None:
        with suppress(PermissionError):
            _create(folder, access)
        reason = weakness(folder)
    if reason is not None:
        folders.refused.append(reason)
        return False
    folders.read.append(folder)
    if not owned(folder):
        folders.refused.append(f"{folder} is read-only")
        return False
    return True


def _existing(folder: Path) -> Path:
    """A folder, or its nearest parent that exists."""
    while not os.path.lexists(folder):
        folder = folder.parent
    return folder


def _create(folder: Path, access: int) -> None:
    """Create a folder and its parents, writable by this user alone, whatever the umask."""
    if folder.exists():
        return
    _create(folder.parent, access)
    with suppress(FileExistsError):
        folder.mkdir(access)


def _folder_name(classes: set[str], called: set[str]) -> str | None:
    """A hash of all sources; None if one of them has no readable file."""
    import hashlib
    from pathlib import Path

    digest = hashlib.sha256(hash_sources().encode())
    for name in sorted(_modules_used(classes, called)):
        file = getattr(sys.modules.get(name), "__file__", None)
        if file is None or name == "__main__":
            return None
        try:
            digest.update(Path(file).read_bytes())
        except OSError:  # deleted, say, or not readable by this user
            return None
    return digest.hexdigest()[:20]


def _modules_used(classes: set[str], called: set[str]) -> set[str]:
    """The modules outside this package whose functions compiled code of these classes may call:
    those of the classes, and those in ``called`` that they refer to, directly or not."""
    used: set[str] = set()
    left = set(filter(outside, classes))
    while left:
        name = left.pop()
        used.add(name)
        named = {_module_of(value) for value in vars(sys.modules.get(name) or object).values()}
        left |= {each for each in named & called if outside(each)} - used
    return used


def _module_of(value: Any) -> str:
    """The module of a function, class or object; a module itself."""
    if isinstance(value, ModuleType):
        return value.__name__
    known = value if isinstance(value, type | FunctionType) else type(value)
    return str(known.__module__)


@functools.cache
def hash_sources(sources: tuple[str, ...] = SOURCES) -> str:
    """A hash of parts of this package, and of the version of Python."""
    import hashlib
    from pathlib import Path

    digest = hashlib.sha256(sys.version.encode())
    package = Path(__file__).parent.parent
    for file in files_of(sources):
        digest.update(str(file.relative_to(package)).encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()


def files_of(sources: Iterable[str]) -> Iterator[Path]:
    """The files of parts of this package."""
    from pathlib import Path

    for source in sources:
        path = Path(__file__).parent.parent / source
        yield from sorted(path.rglob("*.py")) if path.is_dir() else [path]


def outside(module: str) -> bool:
    return module.split(".")[0] != __name__.split(".")[0]


def evict(root: Path, keep: Path) -> None:
    """Remove all but the folders of the latest few versions, and only those this user owns."""
    import shutil

    os.utime(keep)
    named = [folder for folder in root.iterdir() if re.fullmatch("[0-9a-f]{20}", folder.name)]
    ours = [folder for folder in named if any(folder.glob("*.code"))]
    for folder in sorted(ours, key=_modified, reverse=True)[KEPT:]:
        shutil.rmtree(folder, ignore_errors=True)


def _modified(folder: Path) -> float:
    try:
        return folder.stat().st_mtime
    except OSError:
        return 0.0
