"""Workers of a Dask or Ray cluster: join an existing cluster or start one."""

from __future__ import annotations

import atexit
import logging
import os
import socket
import sys
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import Any

from rolf.errors import InvalidArgument, RolfError
from rolf.extras import require
from rolf.parallel.cores import cores
from rolf.parallel.executors import ATTEMPTS, Executor
from rolf.parallel.worker import ONE_THREAD

#: seconds within which a cluster must answer and its first worker must be available
PATIENCE = 10.0
#: bytes of shared memory for results in a Ray cluster started here
RESULTS = 256 * 2**20

#: clusters joined or started here, by (backend, address, jobs): the client, and how to leave
_joined: dict[tuple[str, str | None, int | None], tuple[Any, Callable[[], None]]] = {}


def leave() -> None:
    """Leave all clusters; those started here are stopped."""
    while _joined:
        _, end = _joined.popitem()[1]
        end()


atexit.register(leave)


def _abandon(wanted: tuple[str, str | None, int | None]) -> None:
    """Stop a busy cluster in the background, since that takes seconds."""
    if wanted in _joined:
        threading.Thread(target=_joined.pop(wanted)[1]).start()


# --- Dask ---


class DaskWorkers(Executor):
    """Workers of a Dask cluster. Running tasks finish, unless rolf started the cluster."""

    retries = True

    def __init__(
        self, client: Any, jobs: int, in_flight: int, end: Callable[[], None] | None
    ) -> None:
        from distributed import KilledWorker
        from distributed.client import FutureCancelledError

        super().__init__(jobs, in_flight)
        self.deaths = (KilledWorker,)
        self.losses = (CancelledError, FutureCancelledError)
        self._client = client
        self._end = end

    def submit(self, call: Callable[..., Any], *args: Any) -> Any:
        return self._client.submit(call, *args, pure=False)

    def stop(self, futures: set[Any]) -> None:
        with suppress(Exception):  # the cluster may be gone
            self._client.cancel(list(futures), force=True)
        if self._end is not None:
            self._end()


def dask_workers(jobs: int | None, address: str | None) -> Executor:
    """The workers of the Dask cluster to use for a call."""
    require("distributed", "the backend dask")
    client, end = _dask_client(jobs, address)
    try:
        client.wait_for_workers(1, timeout=PATIENCE)
    except TimeoutError as error:
        raise _unreachable(address, "a Dask scheduler with workers", error) from None
    threads = sum(client.nthreads().values())
    return DaskWorkers(client, jobs or threads, jobs or 2 * threads, end)


def _dask_client(jobs: int | None, address: str | None) -> tuple[Any, Callable[[], None] | None]:
    """A client and, if rolf started the cluster, a function that stops it."""
    import dask
    from distributed import Client, LocalCluster

    address = address or dask.config.get("scheduler-address", None)
    if address is None:
        with suppress(ValueError):  # there is no current client
            return Client.current(), None
    wanted = "dask", address, None if address else jobs
    joined = _joined.get(wanted)
    if joined is not None and joined[0].status == "running":
        return joined[0], None if address else lambda: _abandon(wanted)
    if address is not None:
        client = _connected_dask(address)
        _joined[wanted] = client, client.close
        return client, None
    cluster = LocalCluster(
        n_workers=jobs or cores(),
        threads_per_worker=1,
        dashboard_address="127.0.0.1:0",
        env=ONE_THREAD,
        silence_logs=logging.CRITICAL,
    )
    client = Client(cluster, set_as_default=False)

    def close() -> None:
        client.close()
        cluster.close()

    _joined[wanted] = client, close
    return client, lambda: _abandon(wanted)


def _connected_dask(address: str) -> Any:
    from distributed import Client

    try:
        _probe(address)
        return _soon(lambda: Client(address, timeout=PATIENCE, set_as_default=False))
    except (OSError, ValueError, TypeError) as error:
        raise _unreachable(address, "a Dask scheduler", error) from None


# --- Ray ---


class RayWorkers(Executor):
    """Workers of a Ray cluster."""

    retries = True

    def __init__(self, remote: Any, jobs: int, in_flight: int) -> None:
        from ray import exceptions

        super().__init__(jobs, in_flight)
        self.deaths = (exceptions.WorkerCrashedError, exceptions.OutOfMemoryError)
        self.losses = (exceptions.RaySystemError, exceptions.ObjectLostError)
        self._remote = remote
        self._references: dict[Any, Any] = {}

    def submit(self, call: Callable[..., Any], *args: Any) -> Any:
        reference = self._remote.remote(call, *args)
        future = reference.future()
        self._references[future] = reference
        future.add_done_callback(self._references.pop)
        return future

    def stop(self, futures: set[Any]) -> None:
        import ray

        for future in futures:
            with suppress(Exception):  # it has just finished, or the cluster is gone
                ray.cancel(self._references[future], force=True)


def ray_workers(jobs: int | None, address: str | None) -> Executor:
    """The workers of the Ray cluster to use for a call."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    require("ray", "the backend ray")
    import ray

    here = _join_ray(jobs, address)
    path = {"PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))} if here else {}
    remote = ray.remote(_called).options(
        num_cpus=1, max_retries=ATTEMPTS - 1, runtime_env={"env_vars": {**ONE_THREAD, **path}}
    )
    count = jobs or int(ray.cluster_resources().get("CPU", 1))
    return RayWorkers(remote, count, jobs or 2 * count)


def _called(call: Callable[..., Any], *args: Any) -> Any:
    return call(*args)


def _join_ray(jobs: int | None, address: str | None) -> bool:
    """Join a cluster or start one; return whether it was started here."""
    import ray

    address = address or os.environ.get("RAY_ADDRESS")
    wanted = "ray", address, None if address else jobs
    if ray.is_initialized():
        if wanted in _joined or (address is None and not any(k[0] == "ray" for k in _joined)):
            return address is None and wanted in _joined
        for key in [key for key in _joined if key[0] == "ray"]:
            _joined.pop(key)[1]()
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    try:
        if address is None:
            ray.init(
                address="local",
                num_cpus=jobs or cores(),
                include_dashboard=False,
                object_store_memory=RESULTS,
                **quiet,
            )
        else:
            _probe(address)
            _soon(lambda: ray.init(address=address, **quiet))
    except (OSError, ValueError, RuntimeError, ray.exceptions.RayError) as error:
        what = "a Ray cluster (if it needs a token: set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN)"
        raise _unreachable(address or "local", what, error) from None
    _joined[wanted] = None, ray.shutdown
    return address is None


# --- addresses ---


def _probe(address: str) -> None:
    """Raise an OSError immediately if nothing listens at an address."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), timeout=PATIENCE).close()


def _soon(connect: Callable[[], Any]) -> Any:
    """Call a function with a timeout, since it may hang on the wrong server."""
    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(connect())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future.result(PATIENCE)


def _unreachable(address: str | None, what: str, error: Exception) -> RolfError:
    reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    expected = f"{what} that answers within {PATIENCE:g} seconds ({reason})"
    return InvalidArgument("address", address, expected)
