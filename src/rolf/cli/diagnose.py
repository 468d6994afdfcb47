"""``rolf diagnose``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from rolf.cli.common import (
    JSON,
    LOG_FEATURES,
    MISSING,
    PLOT,
    errors_name_options,
    print_json,
    warnings_as_notes,
)
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
    probability: Annotated[
        str | None,
        typer.Option(
            help="The column with the chance of each choice; 'probability' if there is one. "
            "Where it shows that arms were chosen at random, there are tests as well."
        ),
    ] = None,
    randomised: Annotated[
        bool, typer.Option("--randomised", help="Arms were chosen at random: show tests as well.")
    ] = False,
    level: Annotated[
        float, typer.Option(help="Level of the interval, and chance at which a verdict is sure.")
    ] = 0.95,
    missing: MISSING = "impute",
    as_json: JSON = False,
    plot: PLOT = None,
) -> None:
    """Do my features explain the rewards? Rows without a reward are left out.

    The answer holds for logs of any policy. Rewards of 0 and 1 are taken for clicks.
    """
    from rolf.arms.reading import read_arms
    from rolf.diagnosis import diagnose as explain

    with warnings_as_notes(), errors_name_options("missing"):
        known = read_arms(features, missing=missing)
    played, rewards, chances, waiting = _read_log(log, arm, reward, probability)
    diagnosis = explain(
        known, played, rewards, level=level, randomised=randomised, probabilities=chances
    )
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


def _read_log(
    path: Path, arm: str, reward: str, probability: str | None
) -> tuple[list[Any], FloatArray, FloatArray | None, int]:
    """Arms, rewards and, if there are any, chances of the rows that have a reward, and how many
    rows have none."""
    from rolf.arms.files import check_columns, numbers, read_table

    table = read_table(path, (arm,))
    check_columns(path, table.column_names)
    named = {"--arm": arm, "--reward": reward}
    if probability is not None:
        named["--probability"] = probability
    for option, name in named.items():
        if name not in table.column_names:
            columns = ", ".join(table.column_names)
            raise InvalidArgument(option, name, f"a column of {path}: {columns}")
    rewarded = table.filter(table.column(reward).is_valid())
    if not rewarded.num_rows:
        raise InvalidArgument(f"{path}", "no row with a reward", "rewards")
    chances = None
    usual = "probability"
    if probability is None and usual in table.column_names:
        probability = None if rewarded.column(usual).null_count else usual
    if probability is not None:
        chances = numbers(path, rewarded, probability)
    return (
        rewarded.column(arm).to_pylist(),
        numbers(path, rewarded, reward),
        chances,
        table.num_rows - rewarded.num_rows,
    )
