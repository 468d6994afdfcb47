"""Experiments on the command line: parsing and printing only."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from rolf.cli.common import (
    JSON,
    NAME,
    URL,
    columns,
    current,
    labels_of,
    noted,
    number,
    opened,
    say,
    say_json,
    told,
)
from rolf.errors import DecisionError, InvalidArgument, RolfError

TABLE = typer.Option(help="Table of the arms, CSV or Parquet: their names, and their features.")
OPTIONS = Annotated[str | None, typer.Option(help='The policy\'s options, as JSON: {"p": 0.7}.')]
SEED = Annotated[int | None, typer.Option(min=0, help="Of all draws.")]
DEFAULT = Annotated[
    float | None, typer.Option(help="What a decision counts for whose reward does not come.")
]
AFTER = Annotated[float | None, typer.Option(help="After how many seconds it does so.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    for command in (new, ask, status, export):
        app.command()(command)
    app.command(context_settings={"ignore_unknown_options": True})(tell)  # -1 is a reward
    app.command("import")(import_)


def new(
    url: URL,
    name: NAME,
    features: Annotated[Path, TABLE],
    policy: Annotated[str, typer.Option(help="A policy of the catalogue.")] = "rolf-lasso",
    options: OPTIONS = None,
    seed: SEED = None,
    default_reward: DEFAULT = None,
    reward_after: AFTER = None,
    as_json: JSON = False,
) -> None:
    """Create an experiment in a database."""
    from rolf.arms.reading import understand
    from rolf.experiments.opening import create
    from rolf.experiments.roster import Table as Arms
    from rolf.policies.registry import check_options, policy_class

    given = _options(options)
    check_options(policy_class(policy), given or {})
    with noted():
        read = understand(features)
    table = Arms.read(read.arms)
    with create(
        url,
        name,
        table,
        policy=policy,
        options=given,
        seed=seed,
        default_reward=default_reward,
        reward_after=reward_after,
    ):
        count, size = table.arms.features.shape
    if as_json:
        say_json({"created": name, "policy": policy, "arms": table.arms.labels, "features": size})
        return
    say(f"created: {name}, {policy}, {count} arms with {size} features")
    say(str(read))


def ask(
    url: URL,
    name: NAME,
    n: Annotated[int, typer.Option("-n", min=1, help="How many decisions.")] = 1,
    available: Annotated[
        str | None, typer.Option(help="Choose among these arms, by commas; all by default.")
    ] = None,
    features: Annotated[
        Path | None, typer.Option(help="Features of the round, for policies that take them.")
    ] = None,
    as_json: JSON = False,
) -> None:
    """Decide which arm to play next; the decision is stored before it is printed."""
    with opened(url, name) as experiment:
        arms = experiment._replica.table.arms
        wanted = None
        if available is not None:
            names = [part.strip() for part in available.split(",")]
            wanted = labels_of(names, arms, "--available")
        given: dict[str, Any] = {}
        if features is not None:
            from rolf.arms.reading import read_rows

            now = read_rows(features, arms)
            order = [now.position(str(each), "--features") for each in arms.labels]
            given["features"] = now.features[order]
        decisions = experiment.ask(n, available=wanted, **given)
    if as_json:
        say_json([each.to_dict() for each in decisions])
        return
    table = columns("id", "arm", "probability")
    for each in decisions:
        table.add_row(each.id, Text(str(each.arm)), f"{each.probability:.4f}")
    Console().print(table)


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
    """Record the reward of a decision, or of all decisions in a CSV file, all or none."""
    if id is not None and id.startswith("--"):
        raise typer.BadParameter(f"no such option: {id}")
    if (table is None) == (id is None or reward is None):
        raise InvalidArgument("ID REWARD", [id, reward], "an id and a reward, or --csv")
    with opened(url, name) as experiment:
        before = told(experiment)
        count = 1
        if table is None:
            experiment.tell(id, reward)
        else:
            count = _tell_file(experiment, table)
        new = min(told(experiment) - before, count)
    if as_json:
        say_json({"told": count, "new": new})
        return
    words = f"told: {count} reward" + "s" * (count != 1)
    say(words + f", {new} new" * (new < count))


def status(url: URL, name: NAME, as_json: JSON = False) -> None:
    """Show how an experiment stands: arms, plays, estimates, the best arm's probability."""
    with opened(url, name) as experiment:
        now = experiment.status()
    if as_json:
        say_json(now.to_dict())
        return
    say(
        f"{now.name}: {now.policy}; {now.asked} asked, {now.told} told, {now.waiting} waiting"
        + (f", {now.defaults} by default" if now.defaults else "")
    )
    posterior = any(each.best is not None for each in now.arms)
    table = columns("arm", "plays", "told", "estimate")
    if posterior:
        table.add_column("90% interval", justify="right")
        table.add_column("best", justify="right")
    ranked = sorted(
        now.arms, key=lambda each: (not each.active, -(each.estimate or 0.0), -each.plays)
    )
    for each in ranked:
        label = str(each.arm) if each.active else f"{each.arm} (retired)"
        row = [label, str(each.plays), str(each.told), number(each.estimate)]
        if posterior:
            known = each.low is not None and each.high is not None
            row.append(f"{number(each.low)} to {number(each.high)}" if known else "any")
            row.append("" if each.best is None else f"{each.best:.1%}")
        table.add_row(*(Text(cell) for cell in row))
    Console().print(table)


def export(
    url: URL,
    name: NAME,
    out: Annotated[Path, typer.Argument(help="A .csv or .parquet file.")],
    as_json: JSON = False,
) -> None:
    """Write the log: one row a decision, with its probability and its reward."""
    from rolf.experiments.transfer import export_log

    with opened(url, name) as experiment:
        count = export_log(experiment, out)
    if as_json:
        say_json({"written": str(out), "decisions": count})
        return
    say(f"written: {out}, {count} decisions")


def import_(
    url: URL,
    name: NAME,
    log: Annotated[Path, typer.Argument(help="A log that was exported, .csv or .parquet.")],
    features: Annotated[Path | None, TABLE] = None,
    policy: Annotated[
        str | None, typer.Option(help="As in the log by default, if it is a Parquet file.")
    ] = None,
    options: OPTIONS = None,
    seed: SEED = None,
    default_reward: DEFAULT = None,
    reward_after: AFTER = None,
    as_json: JSON = False,
) -> None:
    """Make a new experiment of an exported log; decisions keep their ids."""
    from rolf.arms.reading import read_arms
    from rolf.experiments.transfer import import_log

    with noted():
        table = None if features is None else read_arms(features)
    with import_log(
        url,
        name,
        log,
        features=table,
        policy=policy,
        options=_options(options),
        seed=seed,
        default_reward=default_reward,
        reward_after=reward_after,
    ) as experiment:
        if as_json:
            say_json(experiment.status().to_dict())
            return
        now = current(experiment)
        asked, rewards = sum(now.asked), sum(now.told)
        say(f"imported: {name}, {experiment.policy}; {asked} asked, {rewards} told")


# --- helpers ---


def _options(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        out = json.loads(text)
    except json.JSONDecodeError as error:
        raise InvalidArgument("--options", text, f"JSON ({error})") from None
    if not isinstance(out, dict):
        raise InvalidArgument("--options", text, 'a JSON object: {"p": 0.7}')
    return out


def _rewards(path: Path) -> dict[int, tuple[str, float]]:
    """Ids and rewards of a file, by its lines."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, restval="")
            reader.fieldnames = [each.strip() for each in reader.fieldnames or []]
            rows = [(reader.line_num, row) for row in reader]
    except OSError as error:
        raise RolfError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        raise RolfError(f"{path}: is not text ({error})") from None
    if not rows:
        raise InvalidArgument(f"{path}", "no rows", "a line of names, id and reward, then rewards")
    out = {}
    for line, row in rows:
        try:
            out[line] = row["id"].strip(), float(row["reward"])
        except KeyError:
            raise InvalidArgument(f"{path}", list(row), "columns id and reward") from None
        except ValueError:
            raise InvalidArgument(f"{path}, line {line}", row["reward"], "a reward") from None
    return out


def _tell_file(experiment: Any, path: Path) -> int:
    """Tell the rewards of a file; an error names the line of the decision that it is about."""
    rewards = _rewards(path)
    try:
        experiment.tell_many(rewards.values())
    except DecisionError as error:
        lines = [each for each, (id, _) in rewards.items() if f"decision {id!r} " in str(error)]
        where = f"{path}, line {lines[0]}" if lines else f"{path}"
        raise type(error)(f"{where}: {error}") from None
    return len(rewards)
