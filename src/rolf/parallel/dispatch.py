"""Tasks to workers, and results back, until every task has one."""

from __future__ import annotations

import os
import pickle
import secrets
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from typing import Any

from joblib import Parallel, delayed

from rolf.errors import RolfError
from rolf.parallel import pickled as to_bytes
from rolf.parallel import sources
from rolf.parallel.backends import ATTEMPTS, Workers
from rolf.parallel.worker import SOURCE, Outcome, Parcel, call, call_pickled, this_process


class RemoteTraceback(Exception):
    """Where a worker raised an error: its traceback, as text."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def run_all(
    function: Callable[[Any], Any], tasks: Sequence[Any], workers: Workers
) -> Iterator[tuple[int, Any]]:
    """The index and the result of every task, as they finish."""
    target: Any = function
    if workers.pickles:
        folders = [os.path.abspath(each) for each in sys.path]
        parcel = Parcel(
            to_bytes("function", function),
            [each for each in folders if not sources.installed(each)],
            [each for each in folders if sources.installed(each)],
            sources.imported(),
            SOURCE,
            secrets.token_hex(8),
            this_process(),
            os.getpid() if workers.children else None,
        )
        target = pickle.dumps(parcel)
    done = bytearray(len(tasks))
    deaths: Counter[int] = Counter()
    while not all(done):
        started: set[int] = set()
        left = (number for number, ready in enumerate(done) if not ready)
        calls = _calls(target, tasks, left, started)
        try:
            with closing(_outcomes(calls, workers)) as outcomes:
                for outcome in outcomes:
                    started.discard(outcome.number)
                    done[outcome.number] = True
                    yield outcome.number, _result(outcome, workers.pickles)
        except workers.deaths as error:
            deaths.update(list(started))
            if workers.retries or max(deaths.values(), default=ATTEMPTS) >= ATTEMPTS:
                reason = f"{type(error).__name__}: {error}"
                raise RolfError(
                    f"workers died {ATTEMPTS} times over the same task, most likely because it "
                    f"needs more memory than a worker has ({reason})"
                ) from error
        except workers.losses as error:
            reason = f"{type(error).__name__}: {error}"
            raise RolfError(f"the connection to the cluster is lost ({reason})") from error


def _calls(
    target: Any, tasks: Sequence[Any], numbers: Iterator[int], started: set[int]
) -> Iterator[Any]:
    """What joblib is to call, made as it asks for it."""
    for number in numbers:
        started.add(number)
        if isinstance(target, bytes):
            task = to_bytes(f"tasks[{number}]", tasks[number])
            yield delayed(call_pickled)(target, number, task)
        else:
            yield delayed(call)(target, number, tasks[number])


def _outcomes(calls: Iterator[Any], workers: Workers) -> Generator[Outcome, None, None]:
    outputs = Parallel(
        n_jobs=workers.jobs,
        backend=workers.backend(),
        return_as="generator_unordered",
        pre_dispatch=workers.in_flight,
        max_nbytes=None,
    )(calls)
    try:
        for outcome in outputs:  # noqa: UP028, so that joblib is closed below, quietly
            yield outcome
    finally:
        with warnings.catch_warnings():  # joblib's, that results are not used
            warnings.simplefilter("ignore", UserWarning)
            outputs.close()


def _result(outcome: Outcome, pickled: bool) -> Any:
    error = outcome.error
    if error is not None:
        if pickled:
            raise pickle.loads(error) from RemoteTraceback(outcome.trace)
        raise error
    return pickle.loads(outcome.result) if pickled else outcome.result
