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
    join_names,
    make_table,
    open_existing,
    open_roster,
    print_json,
    print_table,
    split_names,
    warnings_as_notes,
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
        typer.Option(help="Stop choosing this arm; several separated by commas, or one at a time."),
    ] = None,
    restore: Annotated[
        list[str] | None,
        typer.Option(
            help="Choose this retired arm again; several separated by commas, or one at a time."
        ),
    ] = None,
    columns: Annotated[
        bool, typer.Option("--columns", help="Show only how each column of the table was read.")
    ] = False,
    as_json: JSON = False,
) -> None:
    """Show arms and their features; or add, update, retire and restore arms, in this order.

    Tables have the same form as for rolf new. Each of the four steps is done completely or not at
    all.
    """
    with open_existing(url, name) as experiment:
        with warnings_as_notes():
            for line in _change(experiment, add, update, retire or [], restore or []):
                if not as_json:
                    typer.echo(line)
        if not as_json and (add or update or retire or restore):
            return
        known, records = open_roster(experiment).arms, experiment.arm_table()
    if columns:
        _show_columns(known, as_json)
        return
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
    if known.recipe is not None:
        typer.echo()
        _show_columns(known, as_json)


def _show_columns(arms: Arms, as_json: bool) -> None:
    """Show how each column of the table of arms was read."""
    recipe = arms.recipe
    described = {} if recipe is None else recipe.describe(arms.columns)
    if as_json:
        print_json(described)
        return
    table = make_table(("column", "read as"), described.items(), text=("read as",))
    table.columns[0].no_wrap = True
    print_table(table)


def _change(
    experiment: Experiment,
    add: Path | None,
    update: Path | None,
    retire: list[str],
    restore: list[str],
) -> Iterator[str]:
    """Change the arms step by step, reporting each step; read both tables before the first."""
    from rolf.arms.reading import read_rows

    known = open_roster(experiment).arms
    additions = None if add is None else read_rows(add, known)
    corrections = None if update is None else read_rows(update, known)
    if additions is not None:
        experiment.add_arms(_named_additions(additions, open_roster(experiment)))
        yield f"added: {join_names(additions.labels)}"
    if corrections is not None:
        labels = find_labels(corrections.labels, open_roster(experiment).arms, "--update")
        experiment.update_features(dict(zip(labels, corrections.features, strict=True)))
        yield f"updated: {join_names(corrections.labels)}"
    for given, option, change, done in (
        (retire, "--retire", experiment.retire_arms, "retired"),
        (restore, "--restore", experiment.restore_arms, "restored"),
    ):
        if given:
            known = open_roster(experiment).arms
            names = split_names(given, known)
            change(find_labels(names, known, option))
            yield f"{done}: {join_names(names)}"


def _named_additions(rows: Arms, roster: Roster) -> Arms:
    """New arms, labelled like the existing ones: with text, with numbers, or not at all."""
    arms = roster.arms
    taken = {str(label) for label in arms.labels}
    if repeated := [label for label in rows.labels if label in taken]:
        raise InvalidArgument("--add", repeated, "new arms")
    additions = roster.relabelled(rows)
    if additions.named and not arms.named:
        positions = ", ".join(str(arms.count + place) for place in range(rows.count))
        expected = f"{positions}, since the arms of this experiment have no names"
        raise InvalidArgument("--add", rows.labels, expected)
    return additions


def _describe(arms: Arms, features: list[float]) -> str:
    """The features of an arm as text; of the columns of a category, only the arm's own."""
    if not arms.named:
        return ", ".join(map(format_number, features))
    dummies = {column for column in arms.columns if "=" in column}
    words = []
    for column, value in zip(arms.columns, features, strict=True):
        if column not in dummies or value not in (0.0, 1.0):
            words.append(f"{column} {format_number(value)}")
        elif value:
            words.append(column)
    return ", ".join(words)
