"""``rolf diagnose``: a log of rewards and a table of features in, a verdict out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from rolf.arms.files import numbers, read_table
from rolf.cli.common import noted
from rolf.errors import InvalidArgument
from rolf.types import FloatArray


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(diagnose)


def diagnose(
    log: Annotated[Path, typer.Argument(help="CSV or Parquet: one row a reward.")],
    features: Annotated[Path, typer.Argument(help="The arms' features, one row an arm.")],
    arm: Annotated[str, typer.Option(help="The log's column of arms.")] = "arm",
    reward: Annotated[str, typer.Option(help="The log's column of rewards.")] = "reward",
    level: Annotated[float, typer.Option(help="Of the interval.")] = 0.95,
    as_json: Annotated[bool, typer.Option("--json", help="Plain data, for machines.")] = False,
    plot: Annotated[Path | None, typer.Option(help="A picture: .png, .svg or .pdf.")] = None,
) -> None:
    """Do my features explain the rewards? Rows without a reward are left out."""
    from rolf.arms.reading import read_arms
    from rolf.diagnosis import diagnose as explain

    with noted():
        known = read_arms(features)
    names, values, waiting = _log(log, arm, reward)
    found = explain(known, names, values, level=level)
    if plot is not None:
        found.plot(plot)
    if as_json:
        typer.echo(json.dumps({**found.to_dict(), "without_reward": waiting}, indent=2))
        return
    typer.echo(str(found))
    if waiting:
        typer.echo(f"\n{waiting} rows of the log have no reward and were left out")
    if plot is not None:
        typer.echo(f"\nwritten: {plot}")


def _log(path: Path, arm: str, reward: str) -> tuple[list[Any], FloatArray, int]:
    """Arms and rewards of the rows that have a reward, and how many have none."""
    table = read_table(path, (arm,))
    for option, name in (("--arm", arm), ("--reward", reward)):
        if name not in table.column_names:
            columns = ", ".join(table.column_names)
            raise InvalidArgument(option, name, f"a column of {path}: {columns}")
    told = table.column(reward).is_valid()
    kept = table.filter(told)
    if not kept.num_rows:
        raise InvalidArgument(f"{path}", "no row with a reward", "rewards")
    return (
        kept.column(arm).to_pylist(),
        numbers(path, kept, reward),
        table.num_rows - kept.num_rows,
    )
