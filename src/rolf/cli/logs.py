"""Commands for logs: export them, learn from them, and correct rewards."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rolf.cli.common import (
    DEFAULT_REWARD,
    FEATURES,
    JSON,
    MISSING,
    NAME,
    OPTIONS,
    POLICY,
    REWARD_AFTER,
    SEED,
    URL,
    errors_name_options,
    open_existing,
    print_json,
    read_options,
    warnings_as_notes,
)
from rolf.text import counted, listed

if TYPE_CHECKING:
    from rolf.arms.table import Arms
    from rolf.experiments.experiment import Experiment
    from rolf.experiments.transfer.learn_file import Learned

commands = typer.Typer()


@commands.command()
def export(
    url: URL,
    name: NAME,
    out: Annotated[Path, typer.Argument(help="A .csv or .parquet file.")],
    as_json: JSON = False,
) -> None:
    """Write the log: one row per decision, with its probability and its reward."""
    with open_existing(url, name) as experiment:
        count = experiment.export(out)
    if as_json:
        print_json({"written": str(out), "decisions": count})
        return
    typer.echo(f"written: {out}, {count} decisions")


@commands.command("import")
def import_file(
    url: URL,
    name: NAME,
    log: Annotated[
        Path,
        typer.Argument(
            help="Past decisions, one per row: CSV, Parquet, or a folder of Parquet files."
        ),
    ],
    arm: Annotated[str, typer.Option(help="Column with the arms.")] = "arm",
    reward: Annotated[str, typer.Option(help="Column with the rewards.")] = "reward",
    source: Annotated[
        str | None,
        typer.Option(help="Name of these rounds, which are learned once; by default the file."),
    ] = None,
    skip_unknown: Annotated[
        bool, typer.Option("--skip-unknown", help="Leave out rows of unknown arms.")
    ] = False,
    features: Annotated[Path | None, FEATURES] = None,
    policy: Annotated[str | None, typer.Option(help=f"{POLICY}, for a new experiment.")] = None,
    options: OPTIONS = None,
    seed: SEED = None,
    default_reward: DEFAULT_REWARD = None,
    reward_after: REWARD_AFTER = None,
    missing: MISSING = "impute",
    as_json: JSON = False,
) -> None:
    """Learn from a table of past decisions and their rewards.

    An existing experiment learns from it or, with --features, a new one is created. The same file
    is learned only once, completely or not at all.
    """
    from rolf.arms.reading import read_arms

    with warnings_as_notes(), errors_name_options("missing"):
        arms = None if features is None else read_arms(features, missing=missing)
    settings: dict[str, Any] = {
        "policy": policy,
        "options": read_options(options),
        "seed": seed,
        "default_reward": default_reward,
        "reward_after": reward_after,
    }
    with errors_name_options("features", "policy", "options", "default_reward"):
        experiment, done = _learn(
            url, name, log, arm, reward, arms, settings, source=source, skip_unknown=skip_unknown
        )
    with experiment:
        history = experiment.status().history
    if as_json:
        print_json({"imported": name, **done._asdict(), "history": history})
        return
    new = f"{done.learned} learned" if done.learned else "nothing new, already imported"
    typer.echo(f"imported: {log}, {done.rows} rows, {new}; {history} rounds of history in {name}")
    if done.pending:
        typer.echo(f"left out: {counted(done.pending, 'row')} without a reward")
    if done.unknown:
        words = listed([f"{arm} ({count})" for arm, count in done.unknown.items()])
        count = sum(done.unknown.values())
        typer.echo(f"left out: {count} rows of unknown arms: {words}")


def _learn(
    url: str,
    name: str,
    log: Path,
    arm: str,
    reward: str,
    arms: Arms | None,
    settings: dict[str, Any],
    **options: Any,
) -> tuple[Experiment, Learned]:
    """Learn from a file; create a new experiment only if the file can be learned."""
    from rolf.experiments.database import Database, create_from_file, open_experiment

    if arms is not None and name not in Database(url).names():
        return create_from_file(url, name, log, arm, reward, features=arms, **settings, **options)
    if arms is None:
        open_existing(url, name).close()  # raises an error that lists the known ones
    experiment = open_experiment(url, name, features=arms, **settings)
    try:
        return experiment, experiment.learn_file(log, arm, reward, **options)
    except BaseException:
        experiment.close()
        raise


@commands.command(context_settings={"ignore_unknown_options": True})  # -1 is a reward
def correct(
    url: URL,
    name: NAME,
    id: Annotated[str, typer.Argument(help="The id of the decision.")],
    reward: Annotated[float, typer.Argument(help="The correct reward.")],
    reason: Annotated[str, typer.Option(help="Why the recorded reward is wrong.")],
    as_json: JSON = False,
) -> None:
    """Correct the reward of a decision; the log keeps both rewards and the reason."""
    with open_existing(url, name) as experiment:
        experiment.correct(id, reward, reason)
    if as_json:
        print_json({"corrected": id, "reward": reward})
        return
    typer.echo(f"corrected: {id}, {reward:g}")
