"""One loop for all executors: submit batches of tasks as futures, yield results as they finish.

An executor turns a batch into a future: in this thread, in another thread or process, or on a
cluster (``clusters.py``). Everything else is shared: the size of batches, how many are in flight,
what happens when workers die, and that closing never waits.
"""

from __future__ import annotations

import os
import pickle
import secrets
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from itertools import islice
from queue import SimpleQueue
from typing import Any

from rolf.errors import RolfError
from rolf.parallel import sources
from rolf.parallel.cores import cores
from rolf.parallel.worker import (
    ONE_THREAD,
    SOURCE,
    Outcome,
    Parcel,
    call_batch,
    call_pickled_batch,
    pickled,
    this_process,
)

#: how many times to run a task whose workers die
ATTEMPTS = 4
#: target duration of a batch in seconds, long enough to outweigh the cost of submitting it
BATCH = 0.2
#: seconds after which idle processes end
IDLE = 300
#: seconds within which calls reach the queue of these processes
QUEUED = 1.0


class Executor:
    """Where batches of tasks run.

    Attributes:
        jobs: number of batches that run at the same time.
        in_flight: number of batches submitted at the same time.
        pickles: whether function, tasks and results are pickled.
        children: whether workers are child processes, which must end with this process.
        retries: whether the cluster itself retries a batch whose worker died.
        deaths: errors that mean workers died.
        losses: errors that mean the whole cluster is gone.
    """

    pickles = True
    children = False
    retries = False
    deaths: tuple[type[BaseException], ...] = ()
    losses: tuple[type[BaseException], ...] = ()

    def __init__(self, jobs: int, in_flight: int | None = None) -> None:
        self.jobs = jobs
        self.in_flight = 2 * jobs if in_flight is None else in_flight

    def submit(self, call: Callable[..., Any], *args: Any) -> Any:
        """Submit a call; return a future with ``result`` and ``add_done_callback``."""
        raise NotImplementedError

    def stop(self, futures: set[Any]) -> None:
        """Abandon the calls behind these futures without waiting for them."""

    def close(self) -> None:
        """Called when no calls are left."""


class Threads(Executor):
    """Threads of this process. Compiled code cannot be interrupted, so stopping does not wait."""

    pickles = False

    def __init__(self, jobs: int) -> None:
        super().__init__(jobs)
        self._pool = ThreadPoolExecutor(jobs)

    def submit(self, call: Callable[..., Any], *args: Any) -> Future[Any]:
        return self._pool.submit(call, *args)

    def stop(self, futures: set[Any]) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def close(self) -> None:
        self._pool.shutdown(wait=False)


class Here(Executor):
    """One batch at a time, in the calling thread."""

    def __init__(self) -> None:
        super().__init__(1, in_flight=1)

    def submit(self, call: Callable[..., Any], *args: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(call(*args))
        return future


class Processes(Executor):
    """Processes on this machine, managed by Loky and reused by later calls."""

    children = True

    def __init__(self, jobs: int) -> None:
        from joblib.externals import loky
        from joblib.externals.loky.process_executor import BrokenProcessPool

        super().__init__(jobs)
        self.deaths = (BrokenProcessPool,)
        self._open = loky.get_reusable_executor
        self._pool: Any = None

    def submit(self, call: Callable[..., Any], *args: Any) -> Any:
        if self._pool is None:
            self._pool = self._open(self.jobs, timeout=IDLE, env=ONE_THREAD)
        return self._pool.submit(call, *args)

    def stop(self, futures: set[Any]) -> None:
        # Loky fails on calls that it has not yet put into its workers' queue. The queue has room
        # for all of them, so this wait is short.
        end = time.monotonic() + QUEUED
        while time.monotonic() < end and not all(each.running() or each.done() for each in futures):
            time.sleep(0.001)
        self._pool.shutdown(kill_workers=True)
        self._pool = None


def processes(jobs: int | None) -> Executor:
    """One process per job; this process itself for a single job, or if it may not start any."""
    import multiprocessing

    count = jobs or cores()
    return Here() if count == 1 or multiprocessing.current_process().daemon else Processes(count)


# --- the loop ----------------------------------------------------------------------------------


class RemoteTraceback(Exception):
    """The traceback of an error in a worker, as text."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def run_all(
    function: Callable[[Any], Any], tasks: Sequence[Any], executor: Executor
) -> Iterator[tuple[int, Any]]:
    """Yield the index and the result of every task as they finish."""
    target: Any = function
    if executor.pickles:
        target = pickle.dumps(_parcel(function, executor.children))
    done = bytearray(len(tasks))
    deaths: Counter[int] = Counter()
    while not all(done):
        left = (number for number, ready in enumerate(done) if not ready)
        running: dict[Any, list[int]] = {}
        try:
            with closing(_outcomes(executor, target, tasks, left, running)) as outcomes:
                for outcome in outcomes:
                    done[outcome.number] = True
                    yield outcome.number, _result(outcome, executor.pickles)
        except executor.deaths as error:
            numbers = [number for batch in running.values() for number in batch]
            deaths.update(numbers or [-1])  # a worker may also die before it has a task
            if executor.retries or max(deaths.values()) >= ATTEMPTS:
                reason = f"{type(error).__name__}: {error}"
                raise RolfError(
                    f"workers died {ATTEMPTS} times running the same task, most likely because it "
                    f"needs more memory than a worker has ({reason})"
                ) from error
        except executor.losses as error:
            reason = f"{type(error).__name__}: {error}"
            raise RolfError(f"lost the connection to the cluster ({reason})") from error


def _parcel(function: Callable[[Any], Any], children: bool) -> Parcel:
    """A function, with what workers must know about this process to call it."""
    folders = [os.path.abspath(each) for each in sys.path]
    return Parcel(
        pickled("function", function),
        [each for each in folders if not sources.installed(each)],
        [each for each in folders if sources.installed(each)],
        sources.imported(),
        SOURCE,
        secrets.token_hex(8),
        this_process(),
        os.getpid() if children else None,
    )


def _outcomes(
    executor: Executor,
    target: Any,
    tasks: Sequence[Any],
    numbers: Iterator[int],
    running: dict[Any, list[int]],
) -> Generator[Outcome, None, None]:
    """The outcomes of the tasks with these numbers; ``running`` holds the batches in flight."""
    finished: SimpleQueue[Any] = SimpleQueue()
    size, left = 1, len(tasks)
    try:
        while True:
            while len(running) < executor.in_flight:
                fair = -(-left // (2 * executor.jobs))  # keep the last batches short
                batch = list(islice(numbers, max(1, min(size, fair))))
                if not batch:
                    break
                left -= len(batch)
                future = _submit(executor, target, tasks, batch)
                running[future] = batch
                future.add_done_callback(lambda _, future=future: finished.put(future))
            if not running:
                return
            future = finished.get()
            seconds, outcomes = future.result()
            count = len(running.pop(future))
            wanted = int(count * BATCH / max(seconds, 1e-9))
            size = max(1, min(2 * count, wanted)) if count == size or wanted < size else size
            yield from outcomes
    finally:
        if running:
            executor.stop(set(running))
        executor.close()


def _submit(executor: Executor, target: Any, tasks: Sequence[Any], batch: list[int]) -> Any:
    if executor.pickles:
        data = [(number, pickled(f"tasks[{number}]", tasks[number])) for number in batch]
        return executor.submit(call_pickled_batch, target, data)
    return executor.submit(call_batch, target, [(number, tasks[number]) for number in batch])


def _result(outcome: Outcome, unpickle: bool) -> Any:
    if outcome.error is None:
        return pickle.loads(outcome.result) if unpickle else outcome.result
    if not unpickle:
        raise outcome.error
    raise pickle.loads(outcome.error) from RemoteTraceback(outcome.trace)
