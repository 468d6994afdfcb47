"""The command line: only parsing and printing, one file per group of commands."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from rolf import __version__
from rolf.cli import (
    arms,
    backups,
    diagnose,
    experiments,
    logs,
    paper,
    policies,
    replay,
    service,
    simulate,
    sweep,
)
from rolf.cli.common import log_shown
from rolf.errors import RolfError

__all__ = ["app", "main"]

INTERRUPTED = 130  # the exit code into which typer turns Ctrl-C
#: commands that can be resumed, and how
RESUMING = {
    "reproduce": "; rolf reproduce --resume continues",
    "sweep": "; the same command continues",
}

app = typer.Typer(
    help="Bandits whose features do not tell the whole story.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for group in (
    experiments,
    logs,
    arms,
    backups,
    replay,
    diagnose,
    policies,
    simulate,
    sweep,
    paper,
    service,
):
    app.registered_commands += group.commands.registered_commands
    app.registered_groups += group.commands.registered_groups


@app.callback(invoke_without_command=True)
def root(
    version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False,
) -> None:
    """Bandits whose features do not tell the whole story."""
    if version:
        typer.echo(f"rolf {__version__}")
        raise typer.Exit


def main() -> None:
    """Run the command line; print rolf's own errors as one line instead of a traceback."""
    if "" not in sys.path:
        # for policies in the working directory; last, so that no file there shadows a module
        sys.path.append("")
    try:
        with log_shown():
            app()
    except (RolfError, OSError) as error:
        typer.secho(f"rolf: {error}", fg="red", err=True)
        raise SystemExit(1) from None
    except SystemExit as stop:
        if stop.code != INTERRUPTED:
            raise
        hint = RESUMING.get("".join(sys.argv[1:2]), "")
        typer.echo(f"rolf: interrupted{hint}", err=True)
        os._exit(INTERRUPTED)  # without waiting for running threads
