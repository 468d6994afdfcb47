"""Asks and tells of an experiment that come at the same time are served with one write.

Keys first: while a thread authenticates some requests, others queue; it then authenticates those,
with one lookup per key and batch. Authorized requests queue by experiment: while a thread writes
for some, others wait, and are served together next. So under load the database and the way to
another thread are shared, and a single request never waits for others. What is wrong with one
request stays with it.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from rolf.errors import StorageError, UnknownExperiment
from rolf.experiments.batch import Ask, Tell
from rolf.experiments.experiment import Experiment
from rolf.experiments.storage.contract import check_exists
from rolf.service.auth import ApiKey, Auth, Credentials, note
from rolf.service.http.errors import unknown_experiment
from rolf.service.open_experiments import OpenExperiments

#: threads, each for one experiment at a time
THREADS = 16
#: requests that are served together
MOST = 100


class Job:
    """A request that waits for its result."""

    __slots__ = ("credentials", "error", "future", "name", "work")

    def __init__(
        self,
        name: str,
        work: Ask | Tell,
        credentials: Credentials,
        future: asyncio.Future[Any],
    ) -> None:
        self.name = name
        self.work = work
        self.credentials = credentials
        self.future = future
        self.error: Exception | None = None

    def deliver(self) -> None:
        if self.future.done():  # the client is gone
            return
        if self.error is None:
            self.future.set_result(None)
        else:
            self.future.set_exception(self.error)


class Queue:
    """Requests that one thread serves, until there are no more."""

    __slots__ = ("jobs", "name")

    def __init__(self, name: str | None) -> None:
        self.name = name
        self.jobs: deque[Job] = deque()


class Batcher:
    """Serves asks and tells in batches: a queue for authentication, then one per experiment."""

    def __init__(self, auth: Auth, experiments: OpenExperiments) -> None:
        self._auth = auth
        self._experiments = experiments
        self._lock = threading.Lock()
        self._queues: dict[str | None, Queue] = {}  # those in use; None: for authentication
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="rolf-batch")

    def submit(self, name: str, work: Ask | Tell, credentials: Credentials) -> asyncio.Future[Any]:
        """Have work done; the future ends with it, or raises what is wrong with the request."""
        loop = asyncio.get_running_loop()
        job = Job(name, work, credentials, loop.create_future())
        queue = self._add(None, [job])
        if queue is not None:
            self._threads.submit(self._authenticate, queue, loop)
        return job.future

    def _add(self, name: str | None, jobs: Sequence[Job]) -> Queue | None:
        """Queue requests; returns the queue if it is a new one, which needs a thread."""
        with self._lock:
            queue = self._queues.get(name)
            new = queue is None
            if queue is None:
                queue = self._queues[name] = Queue(name)
            queue.jobs.extend(jobs)
        return queue if new else None

    def _next(self, queue: Queue) -> list[Job]:
        """The next batch. If it is empty, the queue is gone, and its thread may end."""
        with self._lock:
            batch = [queue.jobs.popleft() for _ in range(min(MOST, len(queue.jobs)))]
            if not batch:
                del self._queues[queue.name]
        return batch

    def _authenticate(self, queue: Queue, loop: asyncio.AbstractEventLoop) -> None:
        """Authenticate requests and add them to the queues of their experiments. At the end this
        thread serves one of the queues that need a thread."""
        new: list[Queue] = []
        while batch := self._next(queue):
            for other in new:
                self._threads.submit(self._serve_all, other, loop)
            authorized = self._authorized(batch)
            _deliver(loop, [job for job in batch if job.error is not None])
            added = [self._add(name, jobs) for name, jobs in authorized.items()]
            new = [each for each in added if each is not None]
        for other in new[1:]:
            self._threads.submit(self._serve_all, other, loop)
        for other in new[:1]:
            self._serve_all(other, loop)

    def _authorized(self, batch: Sequence[Job]) -> dict[str, list[Job]]:
        """The requests that are allowed, by experiment."""
        keys = self._keys(batch)
        authorized: dict[str, list[Job]] = {}
        for job in batch:
            sent = job.credentials
            try:
                key = keys[sent.header]
                if isinstance(key, Exception):
                    raise key
                note(sent.info, key, job.name)
                self._auth.authorize(key, sent.scope, job.name)
                authorized.setdefault(job.name, []).append(job)
            except Exception as error:
                job.error = error
        return authorized

    def _keys(self, batch: Sequence[Job]) -> dict[str | None, ApiKey | Exception]:
        """The key in each header, or what is wrong with it. If the database fails once, it is not
        tried again for the rest of the batch."""
        keys: dict[str | None, ApiKey | Exception] = {}
        failure: StorageError | None = None
        for job in batch:
            header = job.credentials.header
            if header in keys:
                continue
            try:
                if failure is not None:
                    raise failure
                keys[header] = self._auth.authenticate(header)
            except Exception as error:
                keys[header] = error
                if isinstance(error, StorageError):
                    failure = error
        return keys

    def _serve_all(self, queue: Queue, loop: asyncio.AbstractEventLoop) -> None:
        while batch := self._next(queue):
            try:
                self._serve(batch[0].name, batch)
            except Exception as error:
                for job in batch:
                    job.error = job.error or error
            _deliver(loop, batch)

    def _serve(self, name: str, batch: Sequence[Job]) -> None:
        refused = list(batch)
        with suppress(UnknownExperiment):
            experiment, fresh = self._experiments.get(name)
            refused = self._write(experiment, batch)
            if refused and not fresh:  # another may have its name now
                refused = self._write(self._experiments.reopen(name, experiment), refused)
        for job in refused:
            job.error = unknown_experiment(name)

    def _write(self, experiment: Experiment, batch: Sequence[Job]) -> list[Job]:
        """Serve requests with one write where possible; returns those of a deleted experiment."""
        for job in batch:
            job.error = job.work.error = None
        experiment.submit(
            [job.work for job in batch if isinstance(job.work, Ask)],
            [job.work for job in batch if isinstance(job.work, Tell)],
        )
        wrong = [job for job in batch if job.work.error is not None]
        for job in wrong:
            job.error = job.work.error
        if any(not isinstance(job.error, StorageError) for job in wrong):
            try:  # what a deleted experiment refuses, another of its name may do
                check_exists(self._experiments.store, experiment.record)
            except UnknownExperiment:
                return wrong
            except StorageError as error:  # so it is unknown whether that is right
                for job in wrong:
                    job.error = error
        return [job for job in wrong if isinstance(job.error, UnknownExperiment)]

    def close(self) -> None:
        self._threads.shutdown()


def _deliver(loop: asyncio.AbstractEventLoop, jobs: Sequence[Job]) -> None:
    def deliver() -> None:
        for job in jobs:
            job.deliver()

    if jobs:
        loop.call_soon_threadsafe(deliver)
