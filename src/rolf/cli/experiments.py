"""Commands that create and run experiments."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rolf.cli.common import (
    JSON,
    NAME,
    POLICY,
    URL,
    errors_name_options,
    find_labels,
    format_number,
    make_table,
    open_existing,
    print_json,
    print_table,
    read_options,
    warnings_as_notes,
)
from rolf.errors import DecisionError, InvalidArgument, RolfError
from rolf.policies.catalogue import DEFAULT_POLICY
from rolf.text import as_written, format_table

if TYPE_CHECKING:
    from rolf.experiments.experiment import Experiment

commands = typer.Typer()

FEATURES = typer.Option(
    help="Table of the arms, CSV or Parquet: one row per arm, with its name and its features."
)
OPTIONS = Annotated[
    str | None, typer.Option(help='The policy\'s options, as JSON: {"width": 2.0}.')
]
SEED = Annotated[int | None, typer.Option(min=0, help="Seed of all random draws.")]
DEFAULT_REWARD = Annotated[
    float | None, typer.Option(help="The reward of a decision that is never told one.")
]
REWARD_AFTER = Annotated[
    float | None, typer.Option(help="Seconds until a decision gets the default reward.")
]


@commands.command()
def new(
    url: URL,
    name: NAME,
    features: Annotated[Path, FEATURES],
    policy: Annotated[str, typer.Option(help=f"{POLICY}.")] = DEFAULT_POLICY,
    options: OPTIONS = None,
    seed: SEED = None,
    default_reward: DEFAULT_REWARD = None,
    reward_after: REWARD_AFTER = None,
    as_json: JSON = False,
) -> None:
    """Create an experiment in a database."""
    from rolf.arms.reading import understand
    from rolf.experiments.opening import create
    from rolf.experiments.roster import Roster

    policy_options = read_options(options)
    with warnings_as_notes():
        reading = understand(features)
    arms = reading.arms
    with create(
        url,
        name,
        Roster.read(arms),
        policy=policy,
        options=policy_options,
        seed=seed,
        default_reward=default_reward,
        reward_after=reward_after,
    ):
        count, size = arms.features.shape
    if as_json:
        print_json({"created": name, "policy": policy, "arms": arms.labels, "features": size})
        return
    typer.echo(f"created: {name}, {policy}, {count} arms with {size} features")
    typer.echo(str(reading))


@commands.command()
def ask(
    url: URL,
    name: NAME,
    n: Annotated[int, typer.Option("-n", min=1, help="How many decisions.")] = 1,
    available: Annotated[
        str | None, typer.Option(help="Choose among these arms, separated by commas; else all.")
    ] = None,
    features: Annotated[
        Path | None, typer.Option(help="Features of this round, for policies that need them.")
    ] = None,
    as_json: JSON = False,
) -> None:
    """Decide which arm to play next; the decision is stored before it is printed."""
    with open_existing(url, name) as experiment:
        arms = experiment.roster().arms
        choice = round_features = None
        if available is not None:
            names = [part.strip() for part in available.split(",")]
            choice = find_labels(names, arms, "--available")
        if features is not None:
            from rolf.arms.reading import read_rows

            rows = read_rows(features, arms)
            order = [rows.position(str(label), "--features") for label in arms.labels]
            round_features = rows.features[order]
        decisions = experiment.ask(n, available=choice, features=round_features)
    if as_json:
        print_json([decision.to_dict() for decision in decisions])
        return
    cells = [[each.id, str(each.arm), f"{each.probability:.4f}"] for each in decisions]
    typer.echo(format_table([["id", "arm", "probability"], *cells]))


@commands.command(context_settings={"ignore_unknown_options": True})  # -1 is a reward
def tell(
    url: URL,
    name: NAME,
    id: Annotated[str | None, typer.Argument(help="The decision.")] = None,
    reward: Annotated[float | None, typer.Argument(help="Its reward.")] = None,
    table: Annotated[
        Path | None, typer.Option("--csv", help="Many rewards: a file with columns id and reward.")
    ] = None,
    as_json: JSON = False,
) -> None:
    """Record the reward of a decision, or all rewards in a CSV file, all or none."""
    if id is not None and id.startswith("--"):
        raise typer.BadParameter(f"no such option: {id}")
    if (table is None) == (id is None or reward is None):
        raise InvalidArgument("ID REWARD", [id, reward], "an id and a reward, or --csv")
    with open_existing(url, name) as experiment:
        before = experiment.counts().told
        count = 1
        if table is not None:
            count = _tell_file(experiment, table)
        elif id is not None and reward is not None:
            experiment.tell(id, reward)
        fresh = min(experiment.counts().told - before, count)
    if as_json:
        print_json({"told": count, "new": fresh})
        return
    rewards = f"{count} reward" + "s" * (count != 1)
    typer.echo(f"told: {rewards}" + f", {fresh} new" * (fresh < count))


@commands.command()
def status(url: URL, name: NAME, as_json: JSON = False) -> None:
    """Show an experiment: its arms, plays, estimates, and each arm's chance of being best."""
    with open_existing(url, name) as experiment:
        now = experiment.status()
    if as_json:
        print_json(now.to_dict())
        return
    typer.echo(
        f"{now.name}: {now.policy}; {now.asked} asked, {now.told} told, {now.waiting} waiting"
        + (f", {now.defaults} by default" if now.defaults else "")
    )
    if now.model is not None:
        typer.echo(f"model of the rewards: {now.model}")
    for note in now.notes:
        typer.echo(f"note: {note}")
    posterior = any(arm.best is not None for arm in now.arms)
    rows = []
    for arm in sorted(
        now.arms, key=lambda arm: (not arm.active, -(arm.estimate or 0.0), -arm.plays)
    ):
        label = str(arm.arm) if arm.active else f"{arm.arm} (retired)"
        row = [label, arm.plays, arm.told, format_number(arm.estimate)]
        if posterior:
            bounded = arm.low is not None and arm.high is not None
            ends = f"{format_number(arm.low)} to {format_number(arm.high)}"
            row += [ends if bounded else "any", "" if arm.best is None else f"{arm.best:.1%}"]
        rows.append(row)
    header = ("arm", "plays", "told", "estimate", *(("90% interval", "best") * posterior))
    print_table(make_table(header, rows))


@commands.command()
def export(
    url: URL,
    name: NAME,
    out: Annotated[Path, typer.Argument(help="A .csv or .parquet file.")],
    as_json: JSON = False,
) -> None:
    """Write the log: one row per decision, with its probability and its reward."""
    from rolf.experiments.transfer import export_log

    with open_existing(url, name) as experiment:
        count = export_log(experiment, out)
    if as_json:
        print_json({"written": str(out), "decisions": count})
        return
    typer.echo(f"written: {out}, {count} decisions")


@commands.command("import")
def import_experiment(
    url: URL,
    name: NAME,
    log: Annotated[Path, typer.Argument(help="An exported log, .csv or .parquet.")],
    features: Annotated[Path | None, FEATURES] = None,
    policy: Annotated[
        str | None,
        typer.Option(help=f"{POLICY}; by default as in a Parquet file. A CSV file needs it."),
    ] = None,
    options: OPTIONS = None,
    seed: SEED = None,
    default_reward: DEFAULT_REWARD = None,
    reward_after: REWARD_AFTER = None,
    as_json: JSON = False,
) -> None:
    """Create a new experiment from an exported log; decisions keep their ids."""
    from rolf.arms.reading import read_arms
    from rolf.experiments.transfer import import_log

    with warnings_as_notes():
        arms = None if features is None else read_arms(features)
    with errors_name_options("features", "policy", "options", "default_reward"):
        experiment = import_log(
            url,
            name,
            log,
            features=arms,
            policy=policy,
            options=read_options(options),
            seed=seed,
            default_reward=default_reward,
            reward_after=reward_after,
        )
    with experiment:
        if as_json:
            print_json(experiment.status().to_dict())
            return
        now = experiment.counts()
        counts = f"{now.asked} asked, {now.told} told"
        typer.echo(f"imported: {name}, {experiment.policy}; {counts}")


# --- rewards in a file ---


def _tell_file(experiment: Experiment, path: Path) -> int:
    """Tell the rewards in a file; an error about a decision names its line."""
    rewards = _read_rewards(path)
    try:
        experiment.tell_many(rewards.values())
    except DecisionError as error:
        lines = [line for line, (id, _) in rewards.items() if f"decision {id!r} " in str(error)]
        where = f"{path}, line {lines[0]}" if lines else f"{path}"
        raise type(error)(f"{where}: {error}") from None
    return len(rewards)


def _read_rewards(path: Path) -> dict[int, tuple[str, float]]:
    """Ids and rewards in a file, by the numbers of their lines."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, restval="")
            reader.fieldnames = [name.strip() for name in reader.fieldnames or []]
            rows: list[tuple[int, dict[str, Any]]] = [(reader.line_num, row) for row in reader]
    except OSError as error:
        raise RolfError(f"{path}: cannot be read ({error.strerror})") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise RolfError(f"{path}: is not text ({error})") from None
    if not rows:
        expected = "a header with id and reward, and rows below it"
        raise InvalidArgument(f"{path}", "no rows", expected)
    rewards = {}
    for line, row in rows:
        try:
            rewards[line] = as_written(row["id"].strip()), float(row["reward"])
        except KeyError:
            raise InvalidArgument(f"{path}", list(row), "columns id and reward") from None
        except ValueError:
            raise InvalidArgument(f"{path}, line {line}", row["reward"], "a reward") from None
    return rewards
