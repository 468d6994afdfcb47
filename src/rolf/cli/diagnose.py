"""``rolf diagnose``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rolf.cli.common import (
    ADDRESS,
    BACKEND,
    JOBS,
    JSON,
    LOG_FEATURES,
    MISSING,
    PLOT,
    errors_name_options,
    print_json,
    warnings_as_notes,
)

commands = typer.Typer()


@commands.command()
def diagnose(
    log: Annotated[
        Path,
        typer.Argument(
            help="Logged rewards, one per row: CSV, Parquet, or a folder of Parquet files."
        ),
    ],
    features: LOG_FEATURES,
    arm: Annotated[
        str | None, typer.Option(help="Column of the log with the arms; 'arm' by default.")
    ] = None,
    reward: Annotated[
        str | None,
        typer.Option(help="Column of the log with the rewards; 'reward' by default."),
    ] = None,
    probability: Annotated[
        str | None,
        typer.Option(
            help="Column with the probability of each choice; 'probability' if it exists. If it "
            "shows that arms were chosen at random, tests are shown as well."
        ),
    ] = None,
    randomised: Annotated[
        bool, typer.Option("--randomised", help="Arms were chosen at random: show tests as well.")
    ] = False,
    level: Annotated[
        float,
        typer.Option(help="Level of the interval, and probability required for a verdict."),
    ] = 0.95,
    missing: MISSING = "impute",
    as_json: JSON = False,
    plot: PLOT = None,
    backend: BACKEND = "local",
    address: ADDRESS = None,
    jobs: JOBS = None,
) -> None:
    """Check whether your features explain the rewards. Rows without a reward are left out.

    The answer holds for logs of any policy. Rewards of 0 and 1 are treated as clicks.
    """
    from rolf.arms.reading import read_arms
    from rolf.diagnosis.diagnose import diagnose as find_out

    with warnings_as_notes(), errors_name_options("missing"):
        known = read_arms(features, missing=missing)
    with errors_name_options("arm", "reward", "probability", "backend", "jobs", "address"):
        diagnosis = find_out(
            log,
            known,
            arm=arm,
            reward=reward,
            probability=probability,
            level=level,
            randomised=randomised,
            backend=backend,
            jobs=jobs,
            address=address,
        )
    if plot is not None:
        diagnosis.plot(plot)
    if as_json:
        print_json(diagnosis.to_dict())
        return
    typer.echo(str(diagnosis))
    if diagnosis.without_reward:
        typer.echo(f"\n{diagnosis.without_reward} rows of the log have no reward and were left out")
    if plot is not None:
        typer.echo(f"\nwritten: {plot}")
