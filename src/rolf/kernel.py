"""One definition, two ways to run it: as Python online, compiled in the engine.

Algorithm code is written once, as plain functions over arrays and NamedTuples:

* ``@kernel`` declares an operation (choose, update, ...) that picks its body by the
  class of its first argument; ``@implements(operation, Params)`` gives it a body.
* ``@shared`` marks a helper that kernels call.
* ``@primitive(loops)`` marks a whole-array NumPy helper whose compiled form is the
  loop ``loops``: a matrix product or a rank-one update, never an algorithm.
* ``@looped`` marks code that is a scalar loop by nature; online calls go to the
  compiled function too.

Python calls run the functions as they stand, without Numba. ``compiled`` hands out
the Numba version of a function. Kernels are found through ``overload`` on the class
of the params, because functions passed as arguments or closures miss Numba's disk
cache in every new process. That cache does not notice an edit in another file, so
its directory is named after a hash of the sources.
"""

from __future__ import annotations

import functools
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from rolf.errors import RolfError

if TYPE_CHECKING:  # what is needed to compile is imported then, not with rolf
    from pathlib import Path

P = ParamSpec("P")
R = TypeVar("R")
Body = TypeVar("Body", bound=Callable[..., Any])

# Sums may be reordered so that they vectorise; NaN and infinity keep their meaning.
FAST = {"reassoc", "contract", "nsz"}

_bodies: dict[Any, dict[type, Callable[..., Any]]] = {}
_registered: list[tuple[Callable[..., Any], Callable[..., Any]]] = []
_active = False
_lock = threading.RLock()


def kernel(stub: Callable[P, R]) -> Callable[P, R]:
    """An operation whose body is found by the class of its first argument."""
    bodies: dict[type, Callable[..., Any]] = {}

    @functools.wraps(stub)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        result: R = bodies[type(args[0])](*args, **kwargs)
        return result

    _bodies[call] = bodies
    _register(call, lambda params, *_: bodies.get(getattr(params, "instance_class", None)))  # type: ignore[arg-type]
    return call


def implements(operation: Callable[..., Any], params: type) -> Callable[[Body], Body]:
    """Give ``operation`` its body for first arguments of class ``params``."""

    def decorate(body: Body) -> Body:
        _bodies[operation][params] = body
        return body

    return decorate


def body_of(operation: Callable[P, R], params: type) -> Callable[P, R]:
    """The body of ``operation`` for first arguments of class ``params``, to call directly."""
    if params not in _bodies[operation]:
        where = f"{params.__module__}.{params.__qualname__}"
        name = getattr(operation, "__name__", "operation")
        raise RolfError(
            f"{where} has no body for {name}: decorate one with @implements({name}, ...)"
        )
    return _bodies[operation][params]


def shared(function: Callable[P, R]) -> Callable[P, R]:
    """A helper that is compiled as it stands when a compiled function calls it."""
    _register(function, lambda *_: function)
    return function


def primitive(loops: Callable[..., Any]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Whole-array NumPy online, ``loops`` when compiled. For linear algebra only."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        _register(function, lambda *_: loops)
        return function

    return decorate


def looped(function: Callable[P, R]) -> Callable[P, R]:
    """A scalar loop by nature: compiled online as well."""
    ready: list[Callable[P, R]] = []

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if not ready:
            title = function.__name__.strip("_").replace("_", " ") + ", online"
            ready.append(compiled(function, title=title))
        return ready[0](*args, **kwargs)

    _register(call, lambda *_: function)
    return call


def _register(call: Callable[..., Any], find: Callable[..., Any]) -> None:
    _registered.append((call, find))
    if _active:
        _overload(call, find)


def _overload(call: Callable[..., Any], find: Callable[..., Any]) -> None:
    from numba.extending import overload

    overload(call, jit_options={"fastmath": FAST}, strict=False)(find)


def activate() -> None:
    """Tell Numba about everything registered so far and from now on."""
    global _active
    with _lock:
        if not _active:
            for call, find in _registered:
                _overload(call, find)
            _active = True


def compiled(function: Callable[P, R], *classes: type, title: str) -> Callable[P, R]:
    """The Numba version of ``function``, kept on disk between processes.

    ``classes`` are the params classes that decide which kernels it will call. If one
    of them lives outside this package, its file counts as a source too; if it has
    no file (a notebook, a prompt), nothing is kept on disk.
    """
    with _lock:
        activate()
        import numba

        folder = _cache_folder(classes)
        with _numba_cache(folder):
            dispatcher = numba.njit(function, cache=folder is not None, nogil=True, fastmath=FAST)
        marker = folder / f"{title}.compiled" if folder else None
        if marker is not None and marker.exists():
            return dispatcher  # type: ignore[no-any-return]

    done: list[bool] = []

    @functools.wraps(function)
    def first(*args: P.args, **kwargs: P.kwargs) -> R:
        if done:
            result: R = dispatcher(*args, **kwargs)
            return result
        with _lock:
            if not done:
                print(f"rolf: compiling {title} (once) ...", file=sys.stderr, flush=True)
            start = time.perf_counter()
            if not done:
                dispatcher.compile(tuple(numba.typeof(value) for value in args))
                took = time.perf_counter() - start
                print(f"rolf: {title} compiled in {took:.1f} s", file=sys.stderr, flush=True)
                if marker is not None:
                    marker.touch()
                done.append(True)
        again: R = dispatcher(*args, **kwargs)
        return again

    return first


# --- where compiled code is kept ---------------------------------------------------


def cache_root() -> Path:
    """The folder of compiled code: ``ROLF_CACHE_DIR``, or the user's cache folder."""
    from pathlib import Path

    chosen = os.environ.get("ROLF_CACHE_DIR")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "rolf"


@functools.cache
def _package_sources() -> str:
    import hashlib
    from pathlib import Path

    digest = hashlib.sha256(sys.version.encode())
    here = Path(__file__).parent
    for path in sorted(here.rglob("*.py")):
        digest.update(str(path.relative_to(here)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _cache_folder(classes: tuple[type, ...]) -> Path | None:
    import hashlib
    import tempfile
    from pathlib import Path

    digest = hashlib.sha256(_package_sources().encode())
    if any(_outside(cls.__module__) for cls in classes):
        # Any function registered outside the package may be called: all their files count.
        names = {cls.__module__ for cls in classes}
        names |= {call.__module__ for call, _ in _registered}
        names |= {body.__module__ for bodies in _bodies.values() for body in bodies.values()}
        for name in sorted(filter(_outside, names)):
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
        _forget_old(root, keep=folder)
        return folder
    return None


def _outside(module: str) -> bool:
    return module.split(".")[0] != __name__.split(".")[0]


def _user() -> str:
    return str(os.getuid()) if hasattr(os, "getuid") else "user"


def _forget_old(root: Path, keep: Path, most: int = 32) -> None:
    """Keep the folders of the latest few versions only; touch nothing that is not ours."""
    import shutil

    os.utime(keep)
    named = [f for f in root.iterdir() if re.fullmatch("[0-9a-f]{20}", f.name)]
    ours = [f for f in named if any(f.glob("*.compiled"))]
    for folder in sorted(ours, key=_modified, reverse=True)[most:]:
        shutil.rmtree(folder, ignore_errors=True)


def _modified(folder: Path) -> float:
    try:
        return folder.stat().st_mtime
    except OSError:
        return 0.0


@contextmanager
def _numba_cache(folder: Path | None) -> Iterator[None]:
    """Numba reads its cache folder when a function is decorated, from a global."""
    from numba.core import config

    before = config.CACHE_DIR
    config.CACHE_DIR = str(folder) if folder else before
    try:
        yield
    finally:
        config.CACHE_DIR = before
