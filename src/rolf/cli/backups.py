"""Commands for the experiments of a database: list, delete, back up and restore them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rolf.cli.common import (
    JSON,
    NAME,
    OPTIONS,
    POLICY,
    URL,
    errors_name_options,
    print_json,
    read_options,
)
from rolf.text import counted

commands = typer.Typer()

NAMES = Annotated[
    list[str] | None,
    typer.Option("--name", help="Only this experiment; may be repeated. All by default."),
]


@commands.command("list")
def list_names(url: URL, as_json: JSON = False) -> None:
    """Show the names of all experiments in a database."""
    from rolf.experiments.database import Database

    names = Database(url).names()
    if as_json:
        print_json(names)
    elif names:
        typer.echo("\n".join(names))


@commands.command()
def delete(
    url: URL,
    name: NAME,
    confirm: Annotated[
        str | None, typer.Option(help="The name again, to confirm; prompted for by default.")
    ] = None,
) -> None:
    """Delete an experiment with all its decisions and rewards, even if it is damaged."""
    from rolf.experiments.database import Database

    if confirm is None:
        confirm = typer.prompt(f"This deletes all decisions and rewards. Type {name} to confirm")
    Database(url).delete(name, confirm=confirm)
    typer.echo(f"deleted: {name}")


@commands.command()
def backup(
    url: URL,
    to: Annotated[Path, typer.Argument(help="The backup: a new SQLite file.")],
    names: NAMES = None,
    as_json: JSON = False,
) -> None:
    """Back up the experiments of a database to a file, even while they are in use."""
    from rolf.experiments.database import Database

    _report("written", str(to), Database(url).backup(to, names), as_json)


@commands.command()
def restore(
    backup: Annotated[Path, typer.Argument(help="A file written by rolf backup.")],
    url: URL,
    names: NAMES = None,
    policy: Annotated[
        str | None,
        typer.Option(
            help=f"Continue with another policy, which learns from the whole log. {POLICY}. By "
            "default the policy in the backup."
        ),
    ] = None,
    options: OPTIONS = None,
    as_json: JSON = False,
) -> None:
    """Restore the experiments of a backup to a database; decisions keep their ids."""
    from rolf.experiments.database import Database

    with errors_name_options("policy", "options"):
        restored = Database(url).restore(
            backup, names, policy=policy, options=read_options(options)
        )
    _report("restored", str(backup), restored, as_json)


def _report(done: str, path: str, names: list[str], as_json: bool) -> None:
    if as_json:
        print_json({done: path, "experiments": names})
        return
    count = counted(len(names), "experiment")
    typer.echo(f"{done}: {path}, {count}: {', '.join(names)}" if names else f"{done}: {path}, none")
