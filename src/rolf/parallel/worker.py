"""What runs in a worker."""

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

#: seconds between two looks at whether the caller is still there
WATCH = 1.0
#: of rolf, as this process has imported it
SOURCE = sources.digest_of_package()
_TOKEN = secrets.token_hex(8)
_loading = threading.RLock()  # a worker of Dask may have several threads

#: a worker has one core, so the libraries that it uses get one thread each
ONE_THREAD = {
    f"{library}_NUM_THREADS": "1"
    for library in ("OMP", "OPENBLAS", "MKL", "BLIS", "NUMBA", "NUMEXPR")
} | {"VECLIB_MAXIMUM_THREADS": "1"}


class Outcome(NamedTuple):
    """What came of the task with this number: its result, or the error it raised, and where."""

    number: int
    result: Any = None
    error: Any = None
    trace: str = ""


#: how long a batch of tasks took, in seconds, and what came of each of them
Batch = tuple[float, list[Outcome]]


def pickled(what: str, value: Any) -> bytes:
    """A value as it travels to workers; an error that says what cannot."""
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
    """The same; function, tasks, and what comes of them are pickled."""
    for variable, value in ONE_THREAD.items():  # unless another number was set for this worker
        os.environ.setdefault(variable, value)
    return _timed(functools.partial(_call_pickled, function), tasks)


def _timed(call: Callable[[int, Any], Outcome], tasks: list[tuple[int, Any]]) -> Batch:
    started = time.perf_counter()
    outcomes: list[Outcome] = []
    for number, task in tasks:
        outcomes.append(call(number, task))
        if outcomes[-1].error is not None:  # it is raised in the caller, which stops everything
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
        _check(parcel)  # what has been imported meanwhile, too
        return Outcome(number, cloudpickle.dumps(result))
    except Exception as error:
        return _failure(number, error)


class Parcel(NamedTuple):
    """A function on its way to workers, and what the caller has imported."""

    function: bytes
    folders: list[str]  # where the caller has modules of its own
    installed: list[str]  # and those of packages and of Python
    modules: dict[str, str]  # the user's, with the hash of the source that the caller has imported
    source: str  # hash of the caller's rolf
    call: str  # tells calls apart
    caller: tuple[str, int]  # tells processes apart
    parent: int | None  # the caller's process, without which workers are to end


def this_process() -> tuple[str, int]:
    """What no other process has, not even on another machine."""
    return _TOKEN, os.getpid()


@functools.lru_cache(maxsize=2)
def _opened(parcel: bytes) -> Parcel:
    """A parcel, opened once in each worker; then modules whose files have changed are forgotten."""
    out: Parcel = pickle.loads(parcel)
    if out.source != SOURCE:
        raise RolfError(
            "a worker has another version of rolf than this process: install the same on both, "
            "and start the workers again"
        )
    if out.caller == this_process():  # its modules are the caller's, who may hold on to them
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
    """End this process soon after its parent has ended, also if that was killed."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(WATCH)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _follow(parcel: Parcel) -> bool:
    """Look for modules where the caller does, if there are such folders here; whether that is
    elsewhere than before."""
    before = list(sys.path)
    first = [each for each in parcel.folders if os.path.isdir(each)]
    last = [each for each in parcel.installed if each not in before and os.path.isdir(each)]
    sys.path[:] = [*first, *(each for each in before if each not in first), *last]
    return sys.path != before


@functools.lru_cache(maxsize=2)
def _loaded(parcel: bytes) -> Callable[[Any], Any]:
    """A function, unpickled once in each worker rather than for each task."""
    out: Callable[[Any], Any] = pickle.loads(_opened(parcel).function)
    return out


def _check(parcel: Parcel) -> None:
    """Raise an error if a module here is not what the caller has imported."""
    with _loading:
        loaded = sources.imported()
    for name, digest in loaded.items():
        if parcel.modules.get(name, digest) != digest:
            raise RolfError(
                f"a worker has another version of the module {name} than this process: if its "
                "file has changed since it was imported here, reload it or start Python again; "
                "if the worker is on another machine, give it the same file"
            )


def _failure(number: int, error: Exception) -> Outcome:
    """An error that can be raised elsewhere, whatever it holds."""
    import cloudpickle

    try:
        pickled = cloudpickle.dumps(error)
        pickle.loads(pickled)
    except Exception:
        pickled = pickle.dumps(RolfError(f"{type(error).__name__}: {error}"))
    return Outcome(number, error=pickled, trace=traceback.format_exc())
