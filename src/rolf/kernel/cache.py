"""Where compiled code is kept.

Numba's disk cache does not notice an edit in another file, so its folder is named after a hash
of every source that compiled code can come from. Only the latest few folders are kept.
"""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # what is needed to compile is imported then, not with rolf
    from pathlib import Path

#: the parts of this package that hold compiled code; no other edit has to compile it again
SOURCES = (
    "types.py",
    "kernel",
    "linalg.py",
    "theory.py",
    "estimators",
    "policies",
    "environments",
    "simulation/loop.py",
)
#: how many folders are kept, the latest first
KEPT = 32


def cache_root() -> Path:
    """The folder of compiled code: ``ROLF_CACHE_DIR``, or the user's cache folder."""
    from pathlib import Path

    chosen = os.environ.get("ROLF_CACHE_DIR")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "rolf"


def cache_folder(classes: set[str], called: set[str]) -> Path | None:
    """The folder for code that is compiled for classes of these modules; None for no folder.

    ``called`` are the modules of all functions that compiled code may call: if one of the
    classes lives outside this package, any of them may be called, and all their files count.
    """
    import hashlib
    import tempfile
    from pathlib import Path

    digest = hashlib.sha256(_package_sources().encode())
    if any(map(_outside, classes)):
        for name in sorted(filter(_outside, classes | called)):
            file = getattr(sys.modules.get(name), "__file__", None)
            if file is None or name == "__main__":
                return None
            digest.update(Path(file).read_bytes())
    name = digest.hexdigest()[:20]
    for root in (cache_root(), Path(tempfile.gettempdir()) / f"rolf-{_user()}"):
        folder = root / name
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError:
            continue
        evict(root, keep=folder)
        return folder
    return None


@functools.cache
def _package_sources() -> str:
    import hashlib
    from pathlib import Path

    digest = hashlib.sha256(sys.version.encode())
    package = Path(__file__).parent.parent
    for source in SOURCES:
        path = package / source
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            digest.update(str(file.relative_to(package)).encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()


def _outside(module: str) -> bool:
    return module.split(".")[0] != __name__.split(".")[0]


def _user() -> str:
    return str(os.getuid()) if hasattr(os, "getuid") else "user"


def evict(root: Path, keep: Path) -> None:
    """Keep the folders of the latest few versions only; touch nothing that is not ours."""
    import shutil

    os.utime(keep)
    named = [folder for folder in root.iterdir() if re.fullmatch("[0-9a-f]{20}", folder.name)]
    ours = [folder for folder in named if any(folder.glob("*.compiled"))]
    for folder in sorted(ours, key=_modified, reverse=True)[KEPT:]:
        shutil.rmtree(folder, ignore_errors=True)


def _modified(folder: Path) -> float:
    try:
        return folder.stat().st_mtime
    except OSError:
        return 0.0


@contextmanager
def numba_cache(folder: Path | None) -> Iterator[None]:
    """Numba reads its cache folder when a function is decorated, from a global."""
    from numba.core import config

    before = config.CACHE_DIR
    config.CACHE_DIR = str(folder) if folder else before
    try:
        yield
    finally:
        config.CACHE_DIR = before
