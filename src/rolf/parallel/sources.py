"""The source files of a user's modules: their content when imported, and their content now.

A process keeps a module as imported even if its file changes. A result may be stored under the hash
of a source only if that source is the imported one.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import sys
import sysconfig
from contextlib import suppress
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

#: folders of installed packages
INSTALLED = {"site-packages", "dist-packages"}
_STDLIB = sysconfig.get_path("stdlib") + os.sep
_SCRIPTS = {"__main__", "__mp_main__"}  # their definitions are pickled by value


class _Import(NamedTuple):
    """A module when first seen after an import or a reload."""

    module: ModuleType
    spec: Any
    file: Path
    digest: str


_imports: dict[str, _Import] = {}
_others: dict[str, ModuleType] = {}  # modules that are not the user's


def imported() -> dict[str, str]:
    """The user's imported modules, each with the hash of the source it was imported from."""
    for name, module in list(sys.modules.items()):
        if _others.get(name) is module:
            continue
        known, spec = _imports.get(name), getattr(module, "__spec__", None)
        if known is not None and known.module is module and known.spec is spec:
            continue
        file = _file(name, module)
        if file is None:
            _others[name] = module
        else:
            digest = "" if _older_than_file(spec) else digest_of(file)
            _imports[name] = _Import(module, spec, file, digest)
    for name in _imports.keys() - sys.modules.keys():
        del _imports[name]
    return {name: each.digest for name, each in _imports.items()}


def changed() -> dict[str, Path]:
    """The user's modules whose files have changed since they were imported."""
    imported()
    return {
        name: each.file for name, each in _imports.items() if each.digest != digest_of(each.file)
    }


def forget() -> None:
    """Forget all of the user's modules, so that they are imported again."""
    for name, each in list(_imports.items()):
        sys.modules.pop(name, None)
        if cached := getattr(each.spec, "cached", None):
            with suppress(OSError):  # a change within a second leaves it looking current
                os.unlink(cached)
    _imports.clear()
    importlib.invalidate_caches()


def digest_of(file: Path) -> str:
    """A hash of a file's content; a missing file counts as empty."""
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError:
        return hashlib.sha256().hexdigest()


def installed(path: str) -> bool:
    """Whether a file or folder belongs to Python or to an installed package."""
    return f"{path}{os.sep}".startswith(_STDLIB) or not INSTALLED.isdisjoint(Path(path).parts)


def _file(name: str, module: ModuleType) -> Path | None:
    """The source of one of the user's modules; None for those of installed packages."""
    file = getattr(module, "__file__", None)
    ours = name.partition(".")[0] == "rolf" or name in _SCRIPTS
    if ours or not isinstance(file, str) or not file.endswith(".py") or installed(file):
        return None
    return Path(file)


def _older_than_file(spec: Any) -> bool:
    """Whether a module is certainly older than its file: its bytecode has another timestamp."""
    if type(getattr(spec, "loader", None)) is not SourceFileLoader or sys.dont_write_bytecode:
        return False
    try:
        header = Path(spec.cached).read_bytes()[:16]
        writable = os.access(Path(spec.cached).parent, os.W_OK)
        time = int(os.stat(spec.origin).st_mtime) & 0xFFFFFFFF
    except (OSError, TypeError):
        return False
    by_time = header[4:8] == bytes(4)
    return writable and by_time and int.from_bytes(header[8:12], "little") != time


def digest_of_package() -> str:
    """A hash of all sources of rolf."""
    root, digest = Path(__file__).parents[1], hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()
