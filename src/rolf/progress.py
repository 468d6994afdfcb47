"""A progress bar with the time left; silent without a terminal."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

#: whether to show a progress bar, by default only on a terminal; or what to call in its place
Progress: TypeAlias = bool | Callable[[str], None] | None
#: steps of a bar that counts rows
STEPS = 200


@contextmanager
def progress_bar(
    progress: Progress, total: int, what: str = "playing"
) -> Iterator[Callable[[str], None]]:
    """A function to call after each step, with a label to show.

    Args:
        progress: whether to show a bar; by default only on a terminal. A function is used in
            place of the bar.
        total: the number of steps.
        what: the activity, for the label.
    """
    if callable(progress):
        yield progress
        return
    if not (sys.stderr.isatty() if progress is None else progress):
        yield lambda label: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.table import Column

    label = Column(ratio=2, no_wrap=True, overflow="ellipsis")  # gives way to what follows
    columns = (
        TextColumn("{task.description}", markup=False, table_column=label),
        BarColumn(bar_width=None, table_column=Column(ratio=1)),
        MofNCompleteColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), expand=True) as bar:
        task = bar.add_task(what, total=total)
        with _log_shown(bar, task):
            yield lambda label: bar.update(task, advance=1, description=f"{what} {label}")


class _Shown(logging.Handler):
    """Shows what rolf logs: what is being compiled, while the bar waits for it, in place of the
    label; anything else above the bar."""

    def __init__(self, bar: Any, task: Any) -> None:
        super().__init__(logging.WARNING)
        self._bar, self._task = bar, task

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if message.startswith("compiling "):
            self._bar.update(self._task, description=message)
        else:
            self._bar.console.print(message, markup=False, highlight=False)


@contextmanager
def _log_shown(bar: Any, task: Any) -> Iterator[None]:
    logger, handler = logging.getLogger("rolf"), _Shown(bar, task)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


def labelled(advance: Callable[[str], None], label: str) -> Callable[[str], None]:
    """A function to call after each step of a part, which shows the part's label instead."""
    return lambda _: advance(label)


@contextmanager
def counting_bar(progress: Progress, total: int, what: str) -> Iterator[Callable[[int], None]]:
    """A function to call after some of ``total`` rows, with their number."""
    steps = min(total, STEPS)
    with progress_bar(progress, steps, what) as advance:
        done = seen = 0

        def count(rows: int) -> None:
            nonlocal done, seen
            seen += rows
            while done < steps * seen // total:
                done += 1
                advance(f"{seen:,} rows")

        yield count
