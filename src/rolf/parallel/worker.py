"""What runs in a worker."""

from __future__ import annotations

import functools
import os
import pickle
import sys
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple

from rolf.errors import RolfError

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


def call(function: Callable[[Any], Any], number: int, task: Any) -> Outcome:
    """Call a function with a task."""
    try:
        return Outcome(number, function(task))
    except Exception as error:
        return Outcome(number, error=error)


def call_pickled(function: bytes, number: int, task: bytes) -> Outcome:
    """Call a function with a task; both, and what comes of it, are pickled."""
    import cloudpickle

    for variable, value in ONE_THREAD.items():  # unless whoever started this worker chose
        os.environ.setdefault(variable, value)
    try:
        ready, argument = _loaded(function), pickle.loads(task)
    except Exception as error:
        reason = f"a worker cannot load its task ({type(error).__name__}: {error}): "
        hint = "workers need the packages and modules that this process has imported"
        return _failure(number, RolfError(reason + hint))
    try:
        return Outcome(number, cloudpickle.dumps(ready(argument)))
    except Exception as error:
        return _failure(number, error)


@functools.lru_cache(maxsize=2)
def _loaded(function: bytes) -> Callable[[Any], Any]:
    """A function, unpickled once in each worker rather than for each task.

    Modules are looked for where the caller has them too, if there is such a folder here.
    """
    folders, pickled = pickle.loads(function)
    sys.path += [each for each in folders if each not in sys.path and os.path.isdir(each)]
    out: Callable[[Any], Any] = pickle.loads(pickled)
    return out


def _failure(number: int, error: Exception) -> Outcome:
    """An error that can be raised elsewhere, whatever it holds."""
    import cloudpickle

    try:
        pickled = cloudpickle.dumps(error)
        pickle.loads(pickled)
    except Exception:
        pickled = pickle.dumps(RolfError(f"{type(error).__name__}: {error}"))
    return Outcome(number, error=pickled, trace=traceback.format_exc())
