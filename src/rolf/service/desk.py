"""Asks and rewards of an experiment that wait for each other are served together.

While a thread writes for some, others queue; it then serves all of them with one write. So under
load the database, the check of a key and the way to another thread are shared, and a single
request waits for nobody. What is wrong with one request stays with it.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

from rolf.errors import RolfError, UnknownDecision, UnknownExperiment
from rolf.experiments.asking import Asking
from rolf.experiments.experiment import Experiment
from rolf.experiments.storage.base import Key, Record, Store, check_exists
from rolf.experiments.telling import Telling
from rolf.service.front import Visit
from rolf.service.handles import Handles, unknown
from rolf.service.problems import Problem

#: keys that were looked up just now, by the headers they came in
Known: TypeAlias = dict[str | None, Key | None]

#: threads, each for one experiment at a time
THREADS = 16
#: requests that are served together
MOST = 100


class Job:
    """A request that waits for its result."""

    __slots__ = ("error", "future", "header", "visit", "work")

    def __init__(
        self,
        work: Asking | Telling,
        visit: Visit,
        header: str | None,
        future: asyncio.Future[Any],
    ) -> None:
        self.work = work
        self.visit = visit
        self.header = header
        self.future = future
        self.error: Exception | None = None


class Line:
    """The requests of one experiment that wait."""

    __slots__ = ("busy", "name", "waiting")

    def __init__(self, name: str) -> None:
        self.name = name
        self.waiting: deque[Job] = deque()
        self.busy = False


class Desk:
    """Where asks and rewards queue, by experiment."""

    def __init__(self, handles: Handles, admit: Callable[[Visit, str | None, str, Known], None]):
        self._handles = handles
        self._admit = admit
        self._lock = threading.Lock()
        self._lines: dict[str, Line] = {}
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="rolf-desk")

    async def serve(
        self, name: str, work: Asking | Telling, visit: Visit, header: str | None
    ) -> None:
        """Queue, and wait until the work is done; raises what is wrong with the request."""
        loop = asyncio.get_running_loop()
        job = Job(work, visit, header, loop.create_future())
        with self._lock:
            line = self._lines.setdefault(name, Line(name))
            line.waiting.append(job)
            start, line.busy = not line.busy, True
        if start:
            loop.run_in_executor(self._threads, self._work_off, line, loop)
        await job.future

    def _work_off(self, line: Line, loop: asyncio.AbstractEventLoop) -> None:
        while jobs := self._next(line):
            try:
                self._serve(line.name, jobs)
            except Exception as error:
                for job in jobs:
                    job.error = job.error or error
            loop.call_soon_threadsafe(_deliver, jobs)

    def _next(self, line: Line) -> list[Job]:
        with self._lock:
            jobs = [line.waiting.popleft() for _ in range(min(MOST, len(line.waiting)))]
            if not jobs:
                line.busy = False
                self._lines.pop(line.name, None)
        return jobs

    def _serve(self, name: str, jobs: Sequence[Job]) -> None:
        admitted = []
        keys: Known = {}
        for job in jobs:
            try:
                self._admit(job.visit, job.header, name, keys)
                admitted.append(job)
            except (Problem, RolfError) as error:
                job.error = error
        if not admitted:
            return

        def together(experiment: Experiment) -> None:
            left = [job for job in admitted if isinstance(job.error, UnknownExperiment | None)]
            for job in left:
                job.error = job.work.error = None
            experiment.tell_each([job.work for job in left if isinstance(job.work, Telling)])
            experiment.ask_each([job.work for job in left if isinstance(job.work, Asking)])
            for job in left:
                job.error = job.work.error
            if any(isinstance(job.error, UnknownDecision | UnknownExperiment) for job in left):
                _check_exists(self._handles.store, experiment.record, left)

        try:
            self._handles.use(name, together)
        except UnknownExperiment:
            for job in admitted:
                if isinstance(job.error, UnknownExperiment | None):
                    job.error = unknown(name)
        except RolfError as error:
            for job in admitted:
                job.error = job.error or error

    def close(self) -> None:
        self._threads.shutdown()


def _check_exists(store: Store, record: Record, jobs: Sequence[Job]) -> None:
    """Raise if the experiment is gone; another of the same name may know these decisions."""
    try:
        check_exists(store, record)
    except UnknownExperiment as error:
        for job in jobs:
            if isinstance(job.error, UnknownDecision):
                job.error = error
        raise


def _deliver(jobs: Sequence[Job]) -> None:
    for job in jobs:
        if job.future.done():  # the client is gone
            continue
        if job.error is None:
            job.future.set_result(None)
        else:
            job.future.set_exception(job.error)
