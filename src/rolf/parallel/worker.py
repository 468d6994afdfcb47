"""The code that runs in a worker: a pickled batch of tasks, once it is sure that the worker has the
caller's sources. A worker ends when its caller does.
"""

from __future__ import annotations

import functools
import os
import pickle
import secrets
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple

from rolf.errors import InvalidArgument, RolfError
from rolf.parallel import sources

#: seconds between checks that the caller is still alive
WATCH = 1.0
#: hash of rolf's sources, as imported by this process
SOURCE = sources.digest_of_package()
_TOKEN = secrets.token_hex(8)
_loading = threading.RLock()  # a Dask worker may have several threads

#: a worker has one core, so the libraries it uses get one thread each
ONE_THREAD = {
    f"{library}_NUM_THREADS": "1"
    for library in ("OMP", "OPENBLAS", "MKL", "BLIS", "NUMBA", "NUMEXPR")
} | {"VECLIB_MAXIMUM_THREADS": "1"}


class Outcome(NamedTuple):
    """The outcome of a task: its number, and its result or its error with the traceback."""

    number: int
    result: Any = None
    error: Any = None
    trace: str = ""


#: how many seconds a batch of tasks took, and the outcome of each
Batch = tuple[float, list[Outcome]]


def pickled(what: str, value: Any) -> bytes:
    """Pickle a value for workers; an error names what cannot be pickled."""
    import cloudpickle

    try:
        out: bytes = cloudpickle.dumps(value)
    except Exception as error:
        expected = f"something that can be pickled ({type(error).__name__}: {error})"
        raise InvalidArgument(what, value, expected) from error
    return out


def call_batch(function: Callable[[Any], Any], tasks: list[tuple[int, Any]]) -> Batch:
    """Call a function with every task of a batch, up to the first error."""
    return _timed(functools.partial(_call, function), tasks)


def call_pickled_batch(function: bytes, tasks: list[tuple[int, bytes]]) -> Batch:
    """The same with pickled function, tasks and outcomes."""
    for variable, value in ONE_THREAD.items():  # unless this worker has its own setting
        os.environ.setdefault(variable, value)
    return _timed(functools.partial(_call_pickled, function), tasks)


def _timed(call: Callable[[int, Any], Outcome], tasks: list[tuple[int, Any]]) -> Batch:
    started = time.perf_counter()
    outcomes: list[Outcome] = []
    for number, task in tasks:
        outcomes.append(call(number, task))
        if outcomes[-1].error is not None:  # the caller raises it and stops everything
            break
    return time.perf_counter() - started, outcomes


def _call(function: Callable[[Any], Any], number: int, task: Any) -> Outcome:
    try:
        return Outcome(number, function(task))
    except Exception as error:
        return Outcome(number, error=error)


def _call_pickled(function: bytes, number: int, task: bytes) -> Outcome:
    import cloudpickle

    try:
        with _loading:
            parcel = _opened(function)
            ready, argument = _loaded(function), pickle.loads(task)
            _check(parcel)
    except RolfError as error:
        return _failure(number, error)
    except Exception as error:
        reason = f"a worker cannot load its task ({type(error).__name__}: {error}): "
        hint = "workers need the packages and modules that this process has imported"
        return _failure(number, RolfError(reason + hint))
    try:
        result = ready(argument)
        _check(parcel)  # including modules imported in the meantime
        return Outcome(number, cloudpickle.dumps(result))
    except Exception as error:
        return _failure(number, error)


class Parcel(NamedTuple):
    """A function to send to workers, with what the caller has imported."""

    function: bytes
    folders: list[str]  # folders with the caller's own modules
    installed: list[str]  # folders of installed packages and of Python
    modules: dict[str, str]  # the user's modules, with the hash of the source the caller imported
    source: str  # hash of the caller's rolf
    call: str  # identifies the call
    caller: tuple[str, int]  # identifies the process
    parent: int | None  # the caller's process; workers end with it


def this_process() -> tuple[str, int]:
    """An identifier that is unique across processes and machines."""
    return _TOKEN, os.getpid()


@functools.lru_cache(maxsize=2)
def _opened(parcel: bytes) -> Parcel:
    """Open a parcel, once per worker, and forget modules whose files have changed."""
    out: Parcel = pickle.loads(parcel)
    if out.source != SOURCE:
        raise RolfError(
            "a worker has another version of rolf than this process: install the same version on "
            "both, and restart the workers"
        )
    if out.caller == this_process():  # the caller may hold its modules
        return out
    if out.parent is not None and out.parent == os.getppid():
        _end_with(out.parent)
    loaded = sources.imported()
    other = any(out.modules.get(name, digest) != digest for name, digest in loaded.items())
    if _follow(out) or other or sources.changed():
        sources.forget()
        _loaded.cache_clear()
    return out


@functools.cache
def _end_with(parent: int) -> None:
    """End this process soon after its parent ends, even if the parent was killed."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(WATCH)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _follow(parcel: Parcel) -> bool:
    """Search for modules in the caller's folders, if they exist here; return whether the path
    changed."""
    before = list(sys.path)
    first = [each for each in parcel.folders if os.path.isdir(each)]
    last = [each for each in parcel.installed if each not in before and os.path.isdir(each)]
    sys.path[:] = [*first, *(each for each in before if each not in first), *last]
    return sys.path != before


@functools.lru_cache(maxsize=2)
def _loaded(parcel: bytes) -> Callable[[Any], Any]:
    """Unpickle the function, once per worker rather than once per task."""
    out: Callable[[Any], Any] = pickle.loads(_opened(parcel).function)
    return out


def _check(parcel: Parcel) -> None:
    """Raise an error if a module here differs from the one the caller imported."""
    with _loading:
        loaded = sources.imported()
    for name, digest in loaded.items():
        if parcel.modules.get(name, digest) != digest:
            raise RolfError(
                f"a worker has another version of the module {name} than this process: if its "
                "file has changed since it was imported here, reload it or restart Python; "
                "if the worker is on another machine, give it the same file"
            )


def _failure(number: int, error: Exception) -> Outcome:
    """The outcome of a failed task, with an error that can be pickled in any case."""
    import cloudpickle

    try:
        pickled = cloudpickle.dumps(error)
        pickle.loads(pickled)
    except Exception:
        pickled = pickle.dumps(RolfError(f"{type(error).__name__}: {error}"))
    return Outcome(number, error=pickled, trace=traceback.format_exc())
