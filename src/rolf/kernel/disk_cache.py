"""Compiled code on disk: one file per function and argument types.

Numba's own cache keeps an index per function, which two processes that compile at the same time can
overwrite, and it loads whatever it finds. Here a file's name identifies its content, files are
written atomically, and each starts with a checksum: a damaged file counts as missing. If several
processes need the same code at the same time, one compiles it and the others wait for its file.
"""

from __future__ import annotations

import functools
import hashlib
import io
import logging
import os
import pickle
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numba
from numba.core import environment
from numba.core.caching import NullCache
from numba.core.compiler import CompileResult
from numba.core.runtime import rtsys
from numba.core.serialize import dumps

from rolf.kernel.compiler import Needed, be_called, load, needed_by, spell, tried
from rolf.kernel.folders import PRIVATE, Folders
from rolf.kernel.lock import FileLock
from rolf.kernel.trust import is_private

#: bytes of the checksum
CHECKSUM = hashlib.sha256().digest_size

logger = logging.getLogger("rolf")
#: titles of the functions that this process has compiled, one per combination of argument types
compilations: list[str] = []
_warned: list[bool] = []


class DiskCache(NullCache):  # type: ignore[misc]
    """The compiled forms of one function, as the cache of a Numba dispatcher."""

    def __init__(
        self,
        function: Callable[..., Any],
        folders: Callable[[], Folders | None],
        title: str,
        *,
        ours: bool,
        before_compiling: Callable[[], None],
        by_symbol: bool = False,
        loop_of: Callable[[str, str], Any],
    ) -> None:
        self._function = function
        self._by_symbol = by_symbol  # whether compiled code may call it by its symbol
        self._loop_of = loop_of  # finds the dispatcher of a loop that it calls by its symbol
        self._ours = ours  # whether all its code is in this package
        self._before_compiling = before_compiling
        self._find_folders = folders
        self._title = title
        self._started = 0.0
        self._lock = FileLock()

    @functools.cached_property
    def _folders(self) -> Folders:
        folders = self._find_folders()
        self._kept = folders is not None  # code from a notebook is not
        return folders or Folders([], None, [])

    @property
    def cache_path(self) -> str | None:
        write = self._folders.write
        return None if write is None else str(write)

    def load_overload(self, signature: Any, target: Any) -> Any:
        """The code for these argument types; None if there is no usable file."""
        if self._ours:  # enough for loading; the rest of a refresh takes a third of a second
            rtsys.initialize(target)
        else:
            target.refresh()
        key = self._key(signature, target.codegen())
        found = self._find(key, target)
        if found is None and self._folders.write is not None:
            self._lock.acquire(self._folders.write / f"{self._file_name(key)}.lock")
            found = self._find(key, target)  # another process may have been faster
        if found is not None:
            self._lock.release()
            return found
        self._before_compiling()
        logger.warning("compiling %s (once) ...", self._title)  # a user may be waiting
        self._started = time.perf_counter()
        return None

    def _find(self, key: tuple[Any, ...], target: Any) -> Any:
        for folder in self._folders.read:
            content = _read(folder / self._file_name(key))
            if content is None:
                continue
            with suppress(Exception):  # loading a foreign file may raise anything
                stored, needed, payload = _Loader(io.BytesIO(content)).load()
                if stored == key:
                    found = load(target, payload, {each: self._ready(each) for each in needed})
                    if self._by_symbol:
                        be_called(found, self._function)
                    return found
        return None

    def _ready(self, needed: Needed) -> CompileResult:
        """Load or compile the loops that this code calls by symbol."""
        loop = self._loop_of(needed.module, needed.name)
        loop.compile(needed.arguments)
        return loop.overloads[needed.arguments]

    def save_overload(self, signature: Any, result: Any) -> None:
        """Keep code that has just been compiled."""
        try:
            self._save(signature, result)
        finally:
            self._lock.release()

    def _save(self, signature: Any, result: Any) -> None:
        compilations.append(self._title)
        logger.info("%s compiled in %.1f s", self._title, time.perf_counter() - self._started)
        folder = self._folders.write
        if folder is None:
            if self._kept:
                _warn_once(self._folders.refused)
            return
        if result.lifted or result.library.has_dynamic_globals:
            return
        key = self._key(signature, result.codegen)
        with suppress(OSError):  # a full disk, say; this process has its code anyway
            _write(folder / self._file_name(key), dumps((key, needed_by(result), result._reduce())))

    def _key(self, signature: Any, codegen: Any) -> tuple[Any, ...]:
        """What the code depends on besides the sources, which name the folder."""
        function = self._function
        where = function.__module__, function.__qualname__, function.__code__.co_firstlineno
        return where, signature, codegen.magic_tuple(), numba.__version__, tried()

    def _file_name(self, key: tuple[Any, ...]) -> str:
        where, signature, *rest = key
        spelled = "\n".join([*spell(signature), repr((where, rest))])
        digest = hashlib.sha256(spelled.encode()).hexdigest()[:32]
        return f"{self._function.__name__.strip('<>')}-{digest}.code"


class _Loader(pickle.Unpickler):
    """Unpickles code without importing the Numba modules it was compiled from.

    An environment holds a module's names for interpreted code only, and there is none here.
    Importing Numba's array modules would also import scipy, if installed.
    """

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == (environment.__name__, "_rebuild_env"):
            return _environment
        return super().find_class(module, name)


def _environment(module: str, constants: Any, name: str) -> Any:
    if not module.startswith("numba.") or module in sys.modules:
        return environment._rebuild_env(module, constants, name)
    known = environment.lookup_environment(name)
    if known is None:
        known = environment.Environment({"__name__": module})
        known.consts[:] = constants
        known.env_name = name
        environment.Environment._memo[name] = known
    return known


def _read(path: Path) -> bytes | None:
    """The content of a file; None if it is missing, damaged, or writable by another user."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    try:
        with open(os.open(path, flags), "rb") as file:
            if not is_private(os.fstat(file.fileno())):
                return None
            checksum, content = file.read(CHECKSUM), file.read()
    except OSError:
        return None
    return content if hashlib.sha256(content).digest() == checksum else None


def _write(path: Path, content: bytes) -> None:
    """Write a file atomically, readable by everyone who can read its folder."""
    handle, temporary = tempfile.mkstemp(dir=path.parent)
    try:
        with open(handle, "wb") as file:
            file.write(hashlib.sha256(content).digest() + content)
        shared = path.parent.stat().st_mode & ~PRIVATE & 0o044
        os.chmod(temporary, 0o600 | shared)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def _warn_once(refused: list[str]) -> None:
    """Log once that code cannot be kept. A Python warning would break asking and telling where
    warnings are errors."""
    if _warned:
        return
    _warned.append(True)
    logger.warning(
        "compiled code cannot be kept, so every process compiles again (%s): set ROLF_CACHE_DIR to "
        "a folder that only you can write to",
        "; ".join(refused) or "this user has no home, and there is no folder for temporary files",
    )
