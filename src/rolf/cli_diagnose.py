"""``rolf diagnose``: a log of rewards and a table of features in, a verdict out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from rolf.errors import InvalidArgument
from rolf.experiments.files import read_table
from rolf.policies.inputs import Arms, read_features

if TYPE_CHECKING:
    import pyarrow as pa


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(diagnose)


def diagnose(
    log: Annotated[Path, typer.Argument(help="CSV or Parquet: one row a reward.")],
    features: Annotated[Path, typer.Argument(help="CSV: the arm's name, then its features.")],
    arm: Annotated[str, typer.Option(help="The log's column of arms.")] = "arm",
    reward: Annotated[str, typer.Option(help="The log's column of rewards.")] = "reward",
    level: Annotated[float, typer.Option(help="Of the interval.")] = 0.95,
    as_json: Annotated[bool, typer.Option("--json", help="Plain data, for machines.")] = False,
    plot: Annotated[Path | None, typer.Option(help="A picture: .png, .svg or .pdf.")] = None,
) -> None:
    """Do my features explain the rewards? Rows without a reward are left out."""
    from rolf import diagnostics

    known = _features(features)
    names, values, waiting = _log(log, arm, reward)
    found = diagnostics.diagnose(known, names, values, level=level)
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


def _features(path: Path) -> Arms:
    table = read_table(path, first=True)
    if table.num_columns < 2:
        wanted = "the arm's name and at least one feature"
        raise InvalidArgument(f"{path}", f"columns {table.column_names}", wanted)
    columns = [_numbers(path, table, name) for name in table.column_names[1:]]
    read_features(np.column_stack(columns))  # the same checks as everywhere
    labels = table.column(0).to_pylist()
    if None in labels:
        raise InvalidArgument(f"{path}", f"no name in row {labels.index(None) + 1}", "named arms")
    return Arms(np.column_stack(columns), labels, table.column_names[1:])


def _log(path: Path, arm: str, reward: str) -> tuple[list[Any], np.ndarray[Any, Any], int]:
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
        _numbers(path, kept, reward),
        table.num_rows - kept.num_rows,
    )


def _numbers(path: Path, table: pa.Table, name: str) -> np.ndarray[Any, Any]:
    """A column as numbers, without gaps."""
    import pyarrow as pa

    column = table.column(name)
    if column.null_count:
        raise InvalidArgument(f"{path}: {name}", "an empty cell", "a number in every row")
    try:
        return np.asarray(column.cast(pa.float64()).to_numpy(), dtype=np.float64)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        if pa.types.is_boolean(column.type):
            return np.asarray(column.to_pylist(), dtype=np.float64)
        raise InvalidArgument(f"{path}: {name}", f"{column.type}", "numbers") from None
