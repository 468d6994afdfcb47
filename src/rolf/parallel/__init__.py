"""Stand-in until the real package is merged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any


def check_backend(backend: str, jobs: int | None = None, address: str | None = None) -> None:
    pass


def completed(
    function: Callable[[Any], Any],
    tasks: Sequence[Any],
    *,
    backend: str = "local",
    jobs: int | None = None,
    address: str | None = None,
) -> Iterator[tuple[int, Any]]:
    from joblib import Parallel, delayed

    def call(index: int, task: Any) -> tuple[int, Any]:
        return index, function(task)

    yield from Parallel(
        n_jobs=jobs or -1,
        prefer="threads" if backend == "threads" else None,
        return_as="generator_unordered",
    )(delayed(call)(index, task) for index, task in enumerate(tasks))
