"""``rolf replay``."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from rolf.cli.common import (
    ADDRESS,
    BACKEND,
    JOBS,
    JSON,
    LOG_FEATURES,
    MISSING,
    PLOT,
    POLICY,
    errors_name_options,
    print_json,
    read_options,
    warnings_as_notes,
)
from rolf.errors import InvalidArgument, RolfWarning

commands = typer.Typer()


@commands.command()
def replay(
    log: Annotated[
        Path, typer.Argument(help="Logged decisions: CSV, Parquet, or a folder of Parquet files.")
    ],
    features: LOG_FEATURES,
    policy: Annotated[list[str], typer.Option(help=f"{POLICY}; may be repeated.")],
    options: Annotated[
        str | None,
        typer.Option(help='Options of the policies, as JSON: {"ucb": {"setting": "tuned"}}.'),
    ] = None,
    estimator: Annotated[
        list[str] | None, typer.Option(help="replay, ips, snips or dr; all by default.")
    ] = None,
    level: Annotated[float, typer.Option(help="Level of the confidence intervals.")] = 0.95,
    split: Annotated[float, typer.Option(help="Share of the log to learn from first.")] = 0.5,
    clip: Annotated[float | None, typer.Option(help="Largest importance weight.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same numbers.")] = 0,
    missing: MISSING = "impute",
    as_json: JSON = False,
    plot: PLOT = None,
    backend: BACKEND = "local",
    address: ADDRESS = None,
    jobs: JOBS = None,
) -> None:
    """Estimate from logged decisions what other policies would have earned."""
    from rolf.arms.reading import read_arms
    from rolf.evaluation.replay import ESTIMATORS
    from rolf.evaluation.replay import replay as evaluate
    from rolf.plots.style import check_picture

    if plot is not None:
        check_picture("--plot", plot)
    by_policy = _options_by_policy(options, policy)
    with warnings_as_notes(), errors_name_options("missing"):
        arms = read_arms(features, missing=missing)
    with warnings.catch_warnings(), errors_name_options("backend", "jobs", "address"):
        warnings.simplefilter("ignore", RolfWarning)  # the result's notes repeat them
        result = evaluate(
            log,
            arms,
            {name: (name, by_policy.get(name, {})) for name in policy},
            estimators=estimator or ESTIMATORS,
            level=level,
            split=split,
            clip=clip,
            seed=seed,
            backend=backend,
            jobs=jobs,
            address=address,
        )
    if plot is not None:
        result.plot(plot)
    if as_json:
        print_json(result.to_dict())
        return
    typer.echo(str(result))
    typer.echo(
        f"mean reward per decision, with {100 * level:g}% confidence intervals and the number of "
        "decisions behind each"
    )
    for note in result.notes:
        typer.echo(note)
    if plot is not None:
        typer.echo(f"written: {plot}")


def _options_by_policy(text: str | None, names: list[str]) -> dict[str, dict[str, Any]]:
    by_policy = read_options(text) or {}
    if not all(isinstance(options, dict) for options in by_policy.values()):
        expected = 'an object of objects: {"policy": {"option": value}}'
        raise InvalidArgument("--options", text, expected)
    if unknown := sorted(set(by_policy) - set(names)):
        raise InvalidArgument("--options", unknown, "policies among " + ", ".join(names))
    return by_policy
