"""``rolf diagnose``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from rolf.cli.common import JSON, LOG_FEATURES, PLOT, print_json, warnings_as_notes
from rolf.errors import InvalidArgument
from rolf.types import FloatArray

commands = typer.Typer()


@commands.command()
def diagnose(
    log: Annotated[Path, typer.Argument(help="Logged rewards, CSV or Parquet: one per row.")],
    features: LOG_FEATURES,
    arm: Annotated[str, typer.Option(help="The column of the log that holds arms.")] = "arm",
    reward: Annotated[
        str, typer.Option(help="The column of the log that holds rewards.")
    ] = "reward",
    level: Annotated[float, typer.Option(help="Level of the confidence interval.")] = 0.95,
    as_json: JSON = False,
    plot: PLOT = None,
) -> None:
    """Do my features explain the rewards? Rows without a reward are left out."""
    from rolf.arms.reading import read_arms
    from rolf.diagnosis import diagnose as explain

    with warnings_as_notes():
        known = read_arms(features)
    played, rewards, waiting = _read_log(log, arm, reward)
    diagnosis = explain(known, played, rewards, level=level)
    if plot is not None:
        diagnosis.plot(plot)
    if as_json:
        print_json({**diagnosis.to_dict(), "without_reward": waiting})
        return
    typer.echo(str(diagnosis))
    if waiting:
        typer.echo(f"\n{waiting} rows of the log have no reward and were left out")
    if plot is not None:
        typer.echo(f"\nwritten: {plot}")


def _read_log(path: Path, arm: str, reward: str) -> tuple[list[Any], FloatArray, int]:
    """Arms and rewards of the rows that have a reward, and how many rows have none."""
    from rolf.arms.files import check_columns, numbers, read_table

    table = read_table(path, (arm,))
    check_columns(path, table.column_names)
    for option, name in (("--arm", arm), ("--reward", reward)):
        if name not in table.column_names:
            columns = ", ".join(table.column_names)
            raise InvalidArgument(option, name, f"a column of {path}: {columns}")
    rewarded = table.filter(table.column(reward).is_valid())
    if not rewarded.num_rows:
        raise InvalidArgument(f"{path}", "no row with a reward", "rewards")
    return (
        rewarded.column(arm).to_pylist(),
        numbers(path, rewarded, reward),
        table.num_rows - rewarded.num_rows,
    )
