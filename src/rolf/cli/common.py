"""What the commands about experiments share: arguments, and how things are said."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from rolf.errors import RolfWarning, UnknownExperiment

URL = Annotated[str, typer.Argument(help="sqlite:///file.db or postgresql://user@host/database.")]
NAME = Annotated[str, typer.Argument(help="The experiment's name.")]
JSON = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def opened(url: str, name: str) -> Any:
    """An experiment that exists; a wrong name is answered with those that there are."""
    import rolf

    try:
        return rolf.open(url, name)
    except UnknownExperiment:
        known = rolf.list_experiments(url)
        more = f" and {len(known) - 20} more" if len(known) > 20 else ""
        there = f"there are {', '.join(known[:20])}{more}" if known else "this database has none"
        raise UnknownExperiment(f"no experiment is called {name!r}; {there}") from None


@contextmanager
def noted() -> Iterator[None]:
    """Print rolf's warnings as notes, apart from the output that programs may read."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", RolfWarning)
        try:
            yield
        finally:
            for each in found:
                if issubclass(each.category, RolfWarning):
                    note(str(each.message))
    for each in found:
        if not issubclass(each.category, RolfWarning):
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)


def note(text: str) -> None:
    console = Console(stderr=True, soft_wrap=True)
    console.print(f"note: {text}", highlight=False, markup=False)


def current(experiment: Any) -> Any:
    """What an experiment knows now, without all else that its status says."""
    with experiment._alone():
        experiment._sync()
        return experiment._replica


def told(experiment: Any) -> int:
    """How many rewards an experiment has."""
    return sum(current(experiment).told)


def labels_of(names: list[str], arms: Any, option: str) -> list[Any]:
    """Arms by what they are called here; in the experiment they may be numbers."""
    known = {str(label): label for label in arms.labels}
    for name in names:
        if name not in known:
            arms.position(name, option)  # says what there is
    return [known[name] for name in names]


def columns(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for place, name in enumerate(columns):
        table.add_column(name, justify="right" if place else "left")
    return table


def number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def say(text: str) -> None:
    Console().print(text, highlight=False, markup=False, soft_wrap=True)


def say_json(data: Any) -> None:
    typer.echo(json.dumps(data, indent=2))
