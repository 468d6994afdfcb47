"""Independent tasks on the cores of this machine, on a Dask cluster or on Ray.

Functions, tasks and results are pickled and unpickled here, so all backends accept the same
functions and raise the same errors. Backends are imported only when used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from rolf.checks import one_of, whole
from rolf.errors import InvalidArgument

if TYPE_CHECKING:
    from rolf.parallel.executors import Executor

#: processes of this machine, threads of this process, a Dask cluster, a Ray cluster
BACKENDS = ("local", "threads", "dask", "ray")

Task = TypeVar("Task")


def check_backend(backend: str, jobs: int | None = None, address: str | None = None) -> None:
    """Validate these arguments of ``completed``."""
    one_of("backend", backend, *BACKENDS)
    if jobs is not None:
        whole("jobs", jobs, 1)
    if address is None:
        return
    if backend not in ("dask", "ray"):
        expected = f"no address, since the backend {backend!r} is this machine"
        raise InvalidArgument("address", address, expected)
    if not isinstance(address, str) or not address:
        raise InvalidArgument("address", address, "the address of a cluster, such as host:8786")


def completed(
    function: Callable[[Task], Any],
    tasks: Sequence[Task],
    *,
    backend: str = "local",
    jobs: int | None = None,
    address: str | None = None,
) -> Iterator[tuple[int, Any]]:
    """Call a function with every task; yield ``(index of the task, result)`` as they finish.

    Function, tasks and results are pickled, except for threads; cloudpickle also handles functions
    and classes defined in a notebook. A task whose worker dies is retried a few times. An error
    raised by the function stops everything and is raised here. Closing the iterator, or an
    interrupt, stops without waiting for running tasks.

    Args:
        function: takes one task; must return the same result when called again with that task.
        tasks: arguments of the function, one call each.
        backend: "local", processes on this machine; "threads" of this process, for compiled
            code that releases the GIL; "dask"; or "ray".
        jobs: number of tasks that run at the same time; by default the number of cores.
        address: address of a Dask scheduler (``tcp://host:8786``) or a Ray cluster (``host:6379``,
            or ``auto`` for the one on this machine). By default the cluster this process is
            connected to; if there is none, one is started on this machine, which ends with this
            process or with ``shutdown()``.
    """
    check_backend(backend, jobs, address)
    return _completed(function, tasks, backend, jobs, address)


def _completed(
    function: Callable[[Any], Any],
    tasks: Sequence[Any],
    backend: str,
    jobs: int | None,
    address: str | None,
) -> Iterator[tuple[int, Any]]:
    if not len(tasks):
        return
    from rolf.parallel.executors import run_all

    yield from run_all(function, tasks, _executor(backend, jobs, address))


def _executor(backend: str, jobs: int | None, address: str | None) -> Executor:
    if backend in ("local", "threads"):
        from rolf.parallel.cores import cores
        from rolf.parallel.executors import Threads, processes

        return Threads(jobs or cores()) if backend == "threads" else processes(jobs)
    from rolf.parallel.clusters import dask_workers, ray_workers

    return (dask_workers if backend == "dask" else ray_workers)(jobs, address)


def shutdown() -> None:
    """Stop the clusters that rolf started on this machine, and disconnect from others."""
    import sys

    if (clusters := sys.modules.get("rolf.parallel.clusters")) is not None:
        clusters.leave()
