"""Workers as joblib sees them.

joblib's own backend for Dask waits for ever for a task that Dask gives up; Ray's own backend
loses the tasks of a worker that dies, and changes a class of joblib for the rest of the process.
Those here hand every batch of tasks to the cluster as a task of its kind, which the cluster runs
again elsewhere if its worker dies.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from queue import Empty
from typing import Any, NamedTuple

from joblib.parallel import AutoBatchingMixin, LokyBackend, ParallelBackendBase

#: how often a task is run whose workers die
ATTEMPTS = 4


class Workers(NamedTuple):
    """Where tasks run, and how many at a time."""

    backend: Callable[[], ParallelBackendBase]  # a new one for every attempt
    jobs: int
    in_flight: int
    pickles: bool = True
    children: bool = False  # whether they are processes of this one, and to end with it
    retries: bool = False  # whether they themselves run a task again whose worker died
    deaths: tuple[type[BaseException], ...] = ()  # errors that say that workers died
    losses: tuple[type[BaseException], ...] = ()  # and that the whole cluster is gone


class _Futures(AutoBatchingMixin, ParallelBackendBase):  # type: ignore[misc]
    """Batches of tasks that are handed in and give futures."""

    supports_retrieve_callback = True

    def __init__(self, workers: int) -> None:
        super().__init__(nesting_level=0)
        self._count = workers
        self._futures: set[Any] = set()

    def effective_n_jobs(self, n_jobs: int) -> int:
        return max(2, self._count)  # for one job joblib itself would run the tasks, right here

    def submit(self, func: Callable[[], Any], callback: Any = None) -> Any:
        future = self._start(func)
        self._futures.add(future)

        def finished(done: Any) -> None:
            self._futures.discard(future)
            callback(done)

        future.add_done_callback(finished)
        return future

    def retrieve_result_callback(self, out: Any) -> Any:
        return out.result()

    def abort_everything(self, ensure_ready: bool = True) -> None:
        left, self._futures = self._futures, set()
        self._cancel(left)

    def _start(self, batch: Callable[[], Any]) -> Any:
        raise NotImplementedError

    def _cancel(self, futures: set[Any]) -> None:
        raise NotImplementedError


class Threads(_Futures):
    """Threads of this process. Compiled code cannot be stopped, so nobody waits for it."""

    def __init__(self, workers: int) -> None:
        super().__init__(workers)
        self._pool = ThreadPoolExecutor(workers)

    def _start(self, batch: Callable[[], Any]) -> Future[Any]:
        return self._pool.submit(batch)

    def _cancel(self, futures: set[Any]) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def terminate(self) -> None:
        self._pool.shutdown(wait=False)


class Processes(LokyBackend):  # type: ignore[misc]
    """Processes of this machine."""

    def abort_everything(self, ensure_ready: bool = True) -> None:
        # loky forgets its tasks, but not that they wait for a worker, and may stumble over that
        with suppress(AttributeError, Empty):
            while True:
                self._workers._work_ids.get_nowait()
        super().abort_everything(ensure_ready)


class Dask(_Futures):
    """Workers of a Dask cluster. They finish the tasks that run, unless they are ours to end."""

    def __init__(self, client: Any, workers: int, end: Callable[[], None] | None) -> None:
        super().__init__(workers)
        self._client = client
        self._end = end

    def _start(self, batch: Callable[[], Any]) -> Any:
        return self._client.submit(batch, pure=False)

    def _cancel(self, futures: set[Any]) -> None:
        with suppress(Exception):  # the cluster may be gone
            self._client.cancel(list(futures), force=True)
        if futures and self._end is not None:
            self._end()


class Ray(_Futures):
    """Workers of a Ray cluster."""

    def __init__(self, remote: Any, workers: int) -> None:
        super().__init__(workers)
        self._remote = remote
        self._references: dict[Any, Any] = {}

    def _start(self, batch: Callable[[], Any]) -> Any:
        reference = self._remote.remote(batch)
        future = reference.future()
        self._references[future] = reference
        future.add_done_callback(self._references.pop)
        return future

    def _cancel(self, futures: set[Any]) -> None:
        import ray

        for future in futures:
            with suppress(Exception):  # it has just finished, or the cluster is gone
                ray.cancel(self._references[future], force=True)
