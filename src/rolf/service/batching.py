"""Asks and rewards of an experiment that wait for each other are served together.

While a thread writes for some, others queue; it then serves all of them with one write. Keys are
checked at the door, by another thread, which looks each key up once for all who have come with it.
So under load the database and the way to another thread are shared, and a single request waits for
nobody. What is wrong with one request stays with it.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

from rolf.errors import RolfError, StorageError, UnknownExperiment
from rolf.experiments.batch import Ask, Tell
from rolf.experiments.experiment import Experiment
from rolf.experiments.storage.contract import Key, Record, Store, check_exists
from rolf.service.http.middleware import Visit
from rolf.service.open_experiments import Handles, unknown

#: keys that were looked up just now, by the headers they came in
Known: TypeAlias = dict[str | None, Key | None]

#: threads, each for one experiment at a time
THREADS = 16
#: requests that are served together
MOST = 100


class Job:
    """A request that waits for its result."""

    __slots__ = ("error", "future", "header", "name", "visit", "work")

    def __init__(
        self,
        name: str,
        work: Ask | Tell,
        visit: Visit,
        header: str | None,
        future: asyncio.Future[Any],
    ) -> None:
        self.name = name
        self.work = work
        self.visit = visit
        self.header = header
        self.future = future
        self.error: Exception | None = None

    def deliver(self) -> None:
        if self.future.done():  # the client is gone
            return
        if self.error is None:
            self.future.set_result(None)
        else:
            self.future.set_exception(self.error)


class Line:
    """Requests that wait for a thread, which serves them until there are no more."""

    __slots__ = ("name", "waiting")

    def __init__(self, name: str | None) -> None:
        self.name = name
        self.waiting: deque[Job] = deque()


class Desk:
    """Where asks and rewards queue: at the door, until their keys are checked, and then by
    experiment."""

    def __init__(self, handles: Handles, admit: Callable[[Visit, str | None, str, Known], None]):
        self._handles = handles
        self._admit = admit
        self._lock = threading.Lock()
        self._lines: dict[str | None, Line] = {}  # that a thread serves; None: at the door
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="rolf-desk")

    async def serve(self, name: str, work: Ask | Tell, visit: Visit, header: str | None) -> None:
        """Queue, and wait until the work is done; raises what is wrong with the request."""
        loop = asyncio.get_running_loop()
        job = Job(name, work, visit, header, loop.create_future())
        door = self._join(None, [job])
        if door is not None:
            self._threads.submit(self._let_in, door, loop)
        await job.future

    def _join(self, name: str | None, jobs: Sequence[Job]) -> Line | None:
        """Queue; returns the line if a thread has to be found that serves it."""
        with self._lock:
            line = self._lines.get(name)
            if line is not None:
                line.waiting.extend(jobs)
                return None
            line = self._lines[name] = Line(name)
            line.waiting.extend(jobs)
            return line

    def _next(self, line: Line) -> list[Job]:
        """Those who are served next; if there are none, the thread may go."""
        with self._lock:
            jobs = [line.waiting.popleft() for _ in range(min(MOST, len(line.waiting)))]
            if not jobs:
                del self._lines[line.name]
        return jobs

    def _let_in(self, door: Line, loop: asyncio.AbstractEventLoop) -> None:
        """Check keys, and send everybody to the line of an experiment. If there is nobody left at
        the door, a line that needs a thread gets this one."""
        new: list[Line] = []
        while jobs := self._next(door):
            for line in new:
                self._threads.submit(self._work_off, line, loop)
            admitted = self._admitted(jobs)
            _deliver(loop, [job for job in jobs if job.error is not None])
            joined = [self._join(name, others) for name, others in admitted.items()]
            new = [line for line in joined if line is not None]
        for line in new[1:]:
            self._threads.submit(self._work_off, line, loop)
        for line in new[:1]:
            self._work_off(line, loop)

    def _admitted(self, jobs: Sequence[Job]) -> dict[str, list[Job]]:
        """Those who may come in, by experiment."""
        keys: Known = {}
        admitted: dict[str, list[Job]] = {}
        failure: StorageError | None = None
        for job in jobs:
            try:
                if failure is not None:  # nobody waits for the database one after the other
                    raise failure
                self._admit(job.visit, job.header, job.name, keys)
                admitted.setdefault(job.name, []).append(job)
            except Exception as error:
                job.error = error
                if isinstance(error, StorageError):
                    failure = error
        return admitted

    def _work_off(self, line: Line, loop: asyncio.AbstractEventLoop) -> None:
        while jobs := self._next(line):
            try:
                self._serve(jobs[0].name, jobs)
            except Exception as error:
                for job in jobs:
                    job.error = job.error or error
            _deliver(loop, jobs)

    def _serve(self, name: str, jobs: Sequence[Job]) -> None:
        def together(experiment: Experiment) -> None:
            left = [job for job in jobs if isinstance(job.error, UnknownExperiment | None)]
            for job in left:
                job.error = job.work.error = None
            experiment.submit(
                [job.work for job in left if isinstance(job.work, Ask)],
                [job.work for job in left if isinstance(job.work, Tell)],
            )
            for job in left:
                job.error = job.work.error
            if any(job.error and not isinstance(job.error, StorageError) for job in left):
                _check_exists(self._handles.store, experiment.record, left)

        try:
            self._handles.use(name, together)
        except UnknownExperiment:
            for job in jobs:
                if isinstance(job.error, UnknownExperiment | None):
                    job.error = unknown(name)
        except RolfError as error:
            for job in jobs:
                job.error = job.error or error

    def close(self) -> None:
        self._threads.shutdown()


def _check_exists(store: Store, record: Record, jobs: Sequence[Job]) -> None:
    """Raise if the experiment is gone; another of the same name may do what this one refused."""
    try:
        check_exists(store, record)
    except UnknownExperiment as error:
        for job in jobs:
            job.error = job.error and error
        raise


def _deliver(loop: asyncio.AbstractEventLoop, jobs: Sequence[Job]) -> None:
    def deliver() -> None:
        for job in jobs:
            job.deliver()

    if jobs:
        loop.call_soon_threadsafe(deliver)
