"""Commands for logs: export and import them, and correct what is in them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

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
from rolf.errors import InvalidArgument
from rolf.text import listed

commands = typer.Typer()


@commands.command()
def export(
    url: URL,
    name: NAME,
    out: Annotated[Path, typer.Argument(help="A .csv or .parquet file.")],
    as_json: JSON = False,
) -> None:
    """Write the log: one row per decision, with its probability and its reward."""
    from rolf.experiments.transfer.export import export_log

    with open_existing(url, name) as experiment, warnings_as_notes():
        count = export_log(experiment, out)
    if as_json:
        print_json({"written": str(out), "decisions": count})
        return
    typer.echo(f"written: {out}, {count} decisions")


@commands.command("import")
def import_experiment(
    url: URL,
    name: NAME,
    log: Annotated[
        Path, typer.Argument(help="An exported log, or one from before; .csv or .parquet.")
    ],
    arm: Annotated[
        str | None, typer.Option(help="Of a log from before: the column with the arm.")
    ] = None,
    reward: Annotated[
        str | None, typer.Option(help="Of a log from before: the column with the reward.")
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            help="What to call a log from before, which counts once; its file by default."
        ),
    ] = None,
    skip_unknown: Annotated[
        bool, typer.Option("--skip-unknown", help="Leave out rows of arms that are unknown.")
    ] = False,
    features: Annotated[Path | None, FEATURES] = None,
    policy: Annotated[
        str | None,
        typer.Option(help=f"{POLICY}; by default as in a Parquet file. A CSV file needs it."),
    ] = None,
    options: OPTIONS = None,
    seed: SEED = None,
    default_reward: DEFAULT_REWARD = None,
    reward_after: REWARD_AFTER = None,
    missing: MISSING = "impute",
    as_json: JSON = False,
) -> None:
    """Create an experiment from an exported log, or learn from a log of before.

    An exported log becomes a new experiment; decisions keep their ids. With --arm and --reward
    any table will do: one that exists learns from it, or, with --features, a new one. The same
    file is learned once, all of it or nothing.
    """
    from rolf.arms.reading import read_arms
    from rolf.experiments.transfer.export import import_log

    with warnings_as_notes(), errors_name_options("missing"):
        arms = None if features is None else read_arms(features, missing=missing)
    settings: dict[str, Any] = {
        "features": arms,
        "policy": policy,
        "options": read_options(options),
        "seed": seed,
        "default_reward": default_reward,
        "reward_after": reward_after,
    }
    with errors_name_options("features", "policy", "options", "default_reward"):
        if arm is not None or reward is not None:
            _learn(url, name, log, arm, reward, source, skip_unknown, settings, as_json)
            return
        if source is not None or skip_unknown:
            expected = "--arm and --reward too: they are about a log from before"
            raise InvalidArgument("--source, --skip-unknown", source, expected)
        experiment = import_log(url, name, log, **settings)
    with experiment:
        if as_json:
            print_json(experiment.status().to_dict())
            return
        now = experiment.counts()
        counts = f"{now.asked} asked, {now.told} told"
        typer.echo(f"imported: {name}, {experiment.policy}; {counts}")


def _learn(
    url: str,
    name: str,
    log: Path,
    arm: str | None,
    reward: str | None,
    source: str | None,
    skip_unknown: bool,
    settings: dict[str, Any],
    as_json: bool,
) -> None:
    """Learn from a log of before."""
    from rolf.experiments.transfer.learn_file import import_history

    if arm is None or reward is None:
        raise InvalidArgument("--arm and --reward", [arm, reward], "the columns of both")
    if settings["features"] is None:
        open_existing(url, name).close()  # raises an error that lists the known ones
    done = import_history(
        url,
        name,
        log,
        arm=arm,
        reward=reward,
        source=source,
        skip_unknown=skip_unknown,
        **settings,
    )
    with done.experiment as experiment:
        history = experiment.status().history
    left_out = sum(done.unknown.values())
    if as_json:
        print_json(
            {
                "imported": name,
                "rows": done.rows,
                "learned": done.learned,
                "unknown": done.unknown,
                "history": history,
            }
        )
        return
    new = f"{done.learned} learned" if done.learned else "nothing new, it was imported before"
    typer.echo(f"imported: {log}, {done.rows} rows, {new}; {history} rounds of history in {name}")
    if done.unknown:
        words = listed([f"{arm} ({count})" for arm, count in done.unknown.items()])
        typer.echo(f"left out: {left_out} rows of unknown arms: {words}")


@commands.command(context_settings={"ignore_unknown_options": True})  # -1 is a reward
def correct(
    url: URL,
    name: NAME,
    id: Annotated[str, typer.Argument(help="The decision.")],
    reward: Annotated[float, typer.Argument(help="The right reward.")],
    reason: Annotated[str, typer.Option(help="Why the reward that was told is wrong.")],
    as_json: JSON = False,
) -> None:
    """Correct the reward of a decision; the log keeps both, and the reason."""
    with open_existing(url, name) as experiment:
        experiment.correct(id, reward, reason)
    if as_json:
        print_json({"corrected": id, "reward": reward})
        return
    typer.echo(f"corrected: {id}, {reward:g}")
