"""A progress bar with the time left; nothing where nobody looks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(
    progress: bool | Callable[[str], None] | None, total: int, what: str = "playing"
) -> Iterator[Callable[[str], None]]:
    """Give a function that counts one step on, with a label to show.

    Args:
        progress: show a bar; by default on a terminal. A function is given back as it is.
        total: how many steps there are.
        what: is being done, in words.
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

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(what, total=total)
        yield lambda label: bar.update(task, advance=1, description=f"{what} {label}")
