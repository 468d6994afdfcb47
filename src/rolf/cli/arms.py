"""``rolf arms``: parsing and printing only."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from rolf.cli.common import (
    JSON,
    NAME,
    URL,
    columns,
    current,
    labels_of,
    number,
    opened,
    say,
    say_json,
)
from rolf.errors import InvalidArgument


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command()(arms)


def arms(
    url: URL,
    name: NAME,
    add: Annotated[
        Path | None, typer.Option(help="Add the arms of this table, CSV or Parquet.")
    ] = None,
    update: Annotated[
        Path | None, typer.Option(help="Correct the features of the arms in this table.")
    ] = None,
    retire: Annotated[
        list[str] | None,
        typer.Option(help="Ask for this arm no more; may be given several times."),
    ] = None,
    as_json: JSON = False,
) -> None:
    """Show the arms with their features; or add, update and retire some, in this order.

    Tables are like that of rolf new. Each of the three is done as a whole or not at all.
    """
    with opened(url, name) as experiment:
        for line in _changes(experiment, add, update, retire or []):
            if not as_json:
                say(line)
        if not as_json and (add or update or retire):
            return
        now = current(experiment)
    known = now.table.arms
    found = zip(known.labels, now.table.active, now.asked, known.features.tolist(), strict=True)
    if as_json:
        say_json(
            [
                {
                    "arm": arm,
                    "active": bool(active),
                    "plays": plays,
                    "features": dict(zip(known.columns, row, strict=True)),
                }
                for arm, active, plays, row in found
            ]
        )
        return
    table = columns("arm", "plays")
    table.add_column("state")
    for column in table.columns:
        column.no_wrap = True
    table.add_column("features", overflow="fold")
    for arm, active, plays, row in found:
        state = "active" if active else "retired"
        cells = (str(arm), str(plays), state, _features(known, row))
        table.add_row(*(Text(cell) for cell in cells))
    Console().print(table)


def _changes(
    experiment: Any, add: Path | None, update: Path | None, retire: list[str]
) -> Iterator[str]:
    """Change the arms, and say so step by step; both tables are read before the first."""
    from rolf.arms.reading import read_rows

    def known() -> Any:
        return experiment._replica.table.arms

    more = None if add is None else read_rows(add, known())
    right = None if update is None else read_rows(update, known())
    if more is not None:
        experiment.add_arms(_additions(more, experiment._replica.table))
        yield f"added: {', '.join(more.labels)}"
    if right is not None:
        labels = labels_of(right.labels, known(), "--update")
        experiment.update_features(dict(zip(labels, right.features, strict=True)))
        yield f"updated: {', '.join(right.labels)}"
    if retire:
        experiment.retire_arms(labels_of(retire, known(), "--retire"))
        yield f"retired: {', '.join(retire)}"


def _additions(rows: Any, table: Any) -> Any:
    """New arms as the experiment takes them: called by text, by numbers, or by their places."""
    arms = table.arms
    taken = {str(label) for label in arms.labels}
    if again := [each for each in rows.labels if each in taken]:
        raise InvalidArgument("--add", again, "arms that are new")
    called = table.called(rows)
    if called.named and not arms.named:
        places = ", ".join(str(arms.count + place) for place in range(rows.count))
        wanted = f"{places}: the arms of this experiment have no names"
        raise InvalidArgument("--add", rows.labels, wanted)
    return called


def _features(arms: Any, row: list[float]) -> str:
    """Features in words; a category only where it holds."""
    if not arms.named:
        return ", ".join(map(number, row))
    categories = {f"{name}={each}" for name, found in arms.categories.items() for each in found}
    out = []
    for column, value in zip(arms.columns, row, strict=True):
        if column not in categories or value not in (0.0, 1.0):
            out.append(f"{column} {number(value)}")
        elif value:
            out.append(column)
    return ", ".join(out)
