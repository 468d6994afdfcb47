"""``rolf arms``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rolf.cli.common import (
    JSON,
    NAME,
    URL,
    find_labels,
    format_number,
    make_table,
    open_existing,
    print_json,
    print_table,
)
from rolf.errors import InvalidArgument

if TYPE_CHECKING:
    from rolf.arms.table import Arms
    from rolf.experiments.experiment import Experiment
    from rolf.experiments.roster import Roster

commands = typer.Typer()


@commands.command()
def arms(
    url: URL,
    name: NAME,
    add: Annotated[
        Path | None, typer.Option(help="Add the arms in this table, CSV or Parquet.")
    ] = None,
    update: Annotated[
        Path | None, typer.Option(help="Correct the features of the arms in this table.")
    ] = None,
    retire: Annotated[
        list[str] | None,
        typer.Option(help="Never choose this arm again; may be given several times."),
    ] = None,
    as_json: JSON = False,
) -> None:
    """Show the arms with their features; or add, update and retire arms, in this order.

    The tables look like the one for rolf new. Each of the three steps is done completely or not
    at all.
    """
    with open_existing(url, name) as experiment:
        for line in _change(experiment, add, update, retire or []):
            if not as_json:
                typer.echo(line)
        if not as_json and (add or update or retire):
            return
        known, records = experiment.roster().arms, experiment.arms()
    if as_json:
        keys = ("arm", "active", "plays", "features")
        print_json([{key: getattr(record, key) for key in keys} for record in records])
        return
    table = make_table(
        ("arm", "plays", "state", "features"),
        (
            (
                record.arm,
                record.plays,
                "active" if record.active else "retired",
                _describe(known, list(record.features.values())),
            )
            for record in records
        ),
        text=("state", "features"),
    )
    *others, last = table.columns
    for column in others:
        column.no_wrap = True
    last.overflow = "fold"
    print_table(table)


def _change(
    experiment: Experiment, add: Path | None, update: Path | None, retire: list[str]
) -> Iterator[str]:
    """Change the arms step by step and report each step; both tables are read before the first."""
    from rolf.arms.reading import read_rows

    known = experiment.roster().arms
    additions = None if add is None else read_rows(add, known)
    corrections = None if update is None else read_rows(update, known)
    if additions is not None:
        experiment.add_arms(_named_additions(additions, experiment.roster()))
        yield f"added: {', '.join(additions.labels)}"
    if corrections is not None:
        labels = find_labels(corrections.labels, experiment.roster().arms, "--update")
        experiment.update_features(dict(zip(labels, corrections.features, strict=True)))
        yield f"updated: {', '.join(corrections.labels)}"
    if retire:
        experiment.retire_arms(find_labels(retire, experiment.roster().arms, "--retire"))
        yield f"retired: {', '.join(retire)}"


def _named_additions(rows: Arms, roster: Roster) -> Arms:
    """New arms with labels like those of the experiment: text, numbers, or none."""
    arms = roster.arms
    taken = {str(label) for label in arms.labels}
    if repeated := [label for label in rows.labels if label in taken]:
        raise InvalidArgument("--add", repeated, "arms that are new")
    additions = roster.relabelled(rows)
    if additions.named and not arms.named:
        positions = ", ".join(str(arms.count + place) for place in range(rows.count))
        expected = f"{positions}: the arms of this experiment have no names"
        raise InvalidArgument("--add", rows.labels, expected)
    return additions


def _describe(arms: Arms, features: list[float]) -> str:
    """The features of an arm as text; of columns that stand for categories, only the arm's own."""
    if not arms.named:
        return ", ".join(map(format_number, features))
    dummies = {
        f"{name}={category}" for name, known in arms.categories.items() for category in known
    }
    words = []
    for column, value in zip(arms.columns, features, strict=True):
        if column not in dummies or value not in (0.0, 1.0):
            words.append(f"{column} {format_number(value)}")
        elif value:
            words.append(column)
    return ", ".join(words)
