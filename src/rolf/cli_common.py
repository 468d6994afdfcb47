"""What the commands about experiments share: arguments, and how things are said."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

URL = Annotated[str, typer.Argument(help="sqlite:///file.db or postgresql://user@host/database.")]
NAME = Annotated[str, typer.Argument(help="The experiment's name.")]
JSON = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def opened(url: str, name: str) -> Any:
    import rolf

    return rolf.open(url, name)


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
