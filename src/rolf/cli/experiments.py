"""Commands that create and run experiments."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
    find_labels,
    make_table,
    open_existing,
    open_roster,
    print_json,
    print_table,
    read_json,
    read_options,
    split_names,
    warnings_as_notes,
)
from rolf.errors import DecisionError, InvalidArgument
from rolf.policies.catalogue import DEFAULT_POLICY
from rolf.text import counted, format_table

if TYPE_CHECKING:
    from rolf.experiments.experiment import Experiment

commands = typer.Typer()


@commands.command()
def new(
    url: URL,
    name: NAME,
    features: Annotated[Path, FEATURES],
    policy: Annotated[
        str | None, typer.Option(help=f"{POLICY}.", show_default=DEFAULT_POLICY)
    ] = None,
    options: OPTIONS = None,
    context: Annotated[
        str | None,
        typer.Option(help="Names of the entries of each ask's context, separated by commas."),
    ] = None,
    seed: SEED = None,
    default_reward: DEFAULT_REWARD = None,
    reward_after: REWARD_AFTER = None,
    missing: MISSING = "impute",
    as_json: JSON = False,
) -> None:
    """Create an experiment in a database."""
    from rolf.arms.reading import understand
    from rolf.experiments.database import create
    from rolf.experiments.roster import Roster

    policy_options = read_options(options) or {}
    if context is not None:
        policy_options["context"] = [part.strip() for part in context.split(",")]
    with errors_name_options("missing"):
        reading = understand(features, missing=missing)
    with warnings_as_notes():
        reading.warn()
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
    ) as experiment:
        policy, (count, size) = experiment.policy, arms.features.shape
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
        list[str] | None,
        typer.Option(
            help="Choose among these arms only; all by default. Separate them by commas or repeat "
            "the option; quote names that contain commas: '\"red, large\",blue'."
        ),
    ] = None,
    features: Annotated[
        Path | None, typer.Option(help="Features for this round, for policies that need them.")
    ] = None,
    context: Annotated[
        str | None, typer.Option(help='Context for this round, as JSON: {"age": 0.3}.')
    ] = None,
    distinct: Annotated[
        bool, typer.Option("--distinct", help="A slate: -n different arms.")
    ] = False,
    key: Annotated[
        str | None,
        typer.Option(help="Idempotency key: asking again with the same key repeats the decisions."),
    ] = None,
    as_json: JSON = False,
) -> None:
    """Choose the next arm; the decision is stored before it is printed."""
    round_context = None if context is None else read_json("--context", context)
    with open_existing(url, name) as experiment:
        arms = open_roster(experiment).arms
        choice = round_features = None
        if available:
            choice = find_labels(split_names(available, arms), arms, "--available")
        if features is not None:
            from rolf.arms.reading import read_rows

            with warnings_as_notes():
                rows = read_rows(features, arms)
            order = [rows.position(str(label), "--features") for label in arms.labels]
            round_features = rows.features[order]
        with errors_name_options("context", idempotency_key="key"):
            decisions = experiment.ask_many(
                n,
                available=choice,
                features=round_features,
                context=round_context,
                distinct=distinct,
                idempotency_key=key,
            )
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
    """Record the reward of a decision, or all the rewards in a CSV file, all or none."""
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
    typer.echo(f"told: {counted(count, 'reward')}" + f", {fresh} new" * (fresh < count))


@commands.command()
def pause(url: URL, name: NAME) -> None:
    """Make no more decisions until the experiment is resumed; rewards are still accepted."""
    with open_existing(url, name) as experiment:
        experiment.pause()
    typer.echo(f"paused: {name}")


@commands.command()
def resume(url: URL, name: NAME) -> None:
    """Resume making decisions after a pause."""
    with open_existing(url, name) as experiment:
        experiment.resume()
    typer.echo(f"resumed: {name}")


@commands.command()
def status(
    url: URL,
    name: NAME,
    top: Annotated[int | None, typer.Option(min=1, help="Show only the best TOP arms.")] = None,
    control: Annotated[
        str | None,
        typer.Option(help="Arm to compare with; by default an equal share of all arms."),
    ] = None,
    timeline: Annotated[
        bool, typer.Option("--timeline", help="Show rewards over time, from the whole log.")
    ] = False,
    plot: Annotated[
        Path | None,
        typer.Option(help="Plot arms and rewards over time: a .png, .svg or .pdf file."),
    ] = None,
    as_json: JSON = False,
) -> None:
    """Show an experiment: what it earned, and each arm with its probability of being best."""
    from rolf.experiments.status import text as status_text

    with open_existing(url, name) as experiment:
        compared = None
        if control is not None:
            [compared] = find_labels([control], open_roster(experiment).arms, "--control")
        now = experiment.status(control=compared, timeline=timeline or plot is not None)
    if plot is not None:
        now.plot(plot, top=10 if top is None else top)
    if as_json:
        print_json(now.to_dict())
        return
    for line in (status_text.head(now), *status_text.sentences(now)):
        typer.echo(line)
    header, *rows = status_text.table(now, top)
    print_table(make_table(header, rows))
    if more := status_text.rest(now, top):
        typer.echo(more)
    if timeline:
        header, *rows = status_text.over_time(now)
        print_table(make_table(header, rows, title="\nrewards over time"))
    if plot is not None:
        typer.echo(f"written: {plot}")


# --- rewards in a file ---


def _tell_file(experiment: Experiment, path: Path) -> int:
    """Tell the rewards in a file; errors about a decision name its line."""
    rewards = _read_rewards(path)
    try:
        experiment.tell_many(rewards.values())
    except DecisionError as error:
        line = next((line for line, (id, _) in rewards.items() if id == error.decision), None)
        where = f"{path}" if line is None else f"{path}, line {line}"
        raise type(error)(f"{where}: {error}", error.decision) from None
    return len(rewards)


def _read_rewards(path: Path) -> dict[int, tuple[str, float]]:
    """Ids and rewards in a file, by line number."""
    from rolf.tables.cells import written_numbers
    from rolf.tables.csv import read_cells

    cells = read_cells(path)
    if not cells.rows:
        expected = "a header with id and reward, and rows below it"
        raise InvalidArgument(f"{path}", "no rows", expected)
    names = [name.strip() for name in cells.header]
    if not {"id", "reward"} <= {*names}:
        raise InvalidArgument(f"{path}", names, "columns id and reward")
    written = [row[names.index("reward")] for row in cells.rows]
    rewards = {}
    for number, row, reward in zip(
        cells.numbers, cells.rows, written_numbers(written), strict=True
    ):
        if math.isnan(reward):
            raise InvalidArgument(f"{path}, line {number}", row[names.index("reward")], "a reward")
        rewards[number] = row[names.index("id")].strip(), float(reward)
    return rewards
