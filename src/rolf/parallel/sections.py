"""Split tables into tasks, each a range of rows of one part, and run them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any, NamedTuple, TypeVar

import numpy as np

from rolf.parallel import check_backend, completed
from rolf.parallel.cores import cores

#: number of rows below which parts are read one after the other
FEW = 500_000

Item = TypeVar("Item")
Task = TypeVar("Task")
Result = TypeVar("Result")


class Section(NamedTuple):
    """A range of rows within a part, numbered as the reader numbers them."""

    part: Any
    start: int
    stop: int


def sections(sizes: Sequence[int], parts: Sequence[Any], start: int, stop: int) -> list[Section]:
    """The sections that cover rows ``start`` to ``stop`` of parts with these sizes.

    >>> [(each.part, each.start, each.stop) for each in sections([4, 3, 2], "abc", 2, 8)]
    [('a', 2, 4), ('b', 0, 3), ('c', 0, 1)]
    """
    ends = np.cumsum(sizes).tolist()
    out = []
    for part, size, end in zip(parts, sizes, ends, strict=True):
        first, last = max(start - (end - size), 0), min(stop - (end - size), size)
        if first < last:
            out.append(Section(part, first, last))
    return out


def read_ahead(items: Iterator[Item]) -> Iterator[Item]:
    """The same items; while one is used, another thread produces the next.

    >>> "".join(read_ahead(iter("abc")))
    'abc'
    """
    with ThreadPoolExecutor(1) as thread:
        following = thread.submit(lambda: list(islice(items, 1)))
        while item := following.result():
            following = thread.submit(lambda: list(islice(items, 1)))
            yield item[0]


class Workers(NamedTuple):
    """Where tasks run; fields as in ``rolf.parallel.completed``."""

    backend: str = "local"
    jobs: int | None = None
    address: str | None = None

    @classmethod
    def checked(cls, backend: str, jobs: int | None, address: str | None) -> Workers:
        check_backend(backend, jobs, address)
        return cls(backend, jobs, address)

    @property
    def here(self) -> bool:
        return self.backend in ("local", "threads")

    def leaves_cores(self, tasks: int, rows: int) -> bool:
        """Whether the tasks leave cores of this machine idle, with enough rows to use them."""
        return self.here and rows >= FEW and tasks < (self.jobs or cores())

    def results(
        self, function: Callable[[Task], Result], tasks: Sequence[Task], rows: int
    ) -> Iterator[Result]:
        """The results of all tasks, in order; a small table runs in this thread.

        On this machine tasks run in threads, since reading and summing is compiled code.
        """
        if self.here and (rows < FEW or self.jobs == 1 or len(tasks) < 2):
            yield from map(function, tasks)
            return
        backend = "threads" if self.here else self.backend
        waiting: dict[int, Result] = {}
        following = 0
        for index, result in completed(
            function, tasks, backend=backend, jobs=self.jobs, address=self.address
        ):
            waiting[index] = result
            while following in waiting:
                yield waiting.pop(following)
                following += 1
