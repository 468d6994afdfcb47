"""``rolf replay``: parsing and printing only."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from rolf.cli.common import noted
from rolf.errors import InvalidArgument, RolfWarning


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command()(replay)


def replay(
    log: Annotated[Path, typer.Argument(help="Logged decisions, CSV or Parquet.")],
    features: Annotated[Path, typer.Argument(help="The arms' features, one row an arm.")],
    policy: Annotated[
        list[str], typer.Option(help="A policy of the catalogue; may be given several times.")
    ],
    options: Annotated[
        str | None, typer.Option(help='Options, as JSON: {"ucb": {"setting": "tuned"}}.')
    ] = None,
    estimator: Annotated[
        list[str] | None, typer.Option(help="replay, ips, snips or dr; all by default.")
    ] = None,
    level: Annotated[float, typer.Option(help="Of the confidence intervals.")] = 0.95,
    split: Annotated[float, typer.Option(help="Share of the log to learn from first.")] = 0.5,
    clip: Annotated[float | None, typer.Option(help="Largest importance weight.")] = None,
    bootstrap: Annotated[bool, typer.Option("--bootstrap", help="Bootstrap intervals.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same numbers.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Write a picture: .png, .svg, .pdf.")] = None,
) -> None:
    """Evaluate policies on logged decisions: what would they have earned?"""
    from rolf.arms.reading import read_arms
    from rolf.evaluation.replay import ESTIMATORS
    from rolf.evaluation.replay import replay as evaluate

    if plot is not None and plot.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise InvalidArgument("--plot", str(plot), "a file that ends in .png, .svg or .pdf")
    given = _options(options, policy)
    with noted():
        arms = read_arms(features)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RolfWarning)  # they are among the notes
        result = evaluate(
            log,
            arms,
            {name: (name, given.get(name, {})) for name in policy},
            estimators=estimator or ESTIMATORS,
            level=level,
            split=split,
            clip=clip,
            interval="bootstrap" if bootstrap else "normal",
            seed=seed,
        )
    if plot is not None:
        result.plot(plot)
    console = Console()
    if as_json:
        typer.echo(json.dumps(result.to_dict(), indent=2))
        return
    console.print(Text(str(result)), soft_wrap=True)
    console.print(
        f"mean reward of a decision, {100 * level:g}% confidence intervals, and how many decisions "
        "each rests on",
        highlight=False,
    )
    for note in result.notes:
        console.print(Text(note))
    if plot is not None:
        console.print(f"written: {plot}", highlight=False)


def _options(text: str | None, names: list[str]) -> dict[str, dict[str, Any]]:
    """Options of each policy, by its name."""
    try:
        data = json.loads(text or "{}")
    except json.JSONDecodeError as error:
        raise InvalidArgument("--options", text, f"JSON ({error})") from None
    wanted = 'an object of objects: {"policy": {"option": value}}'
    if not isinstance(data, dict) or not all(isinstance(each, dict) for each in data.values()):
        raise InvalidArgument("--options", text, wanted)
    if strange := sorted(set(data) - set(names)):
        raise InvalidArgument("--options", strange, "policies among " + ", ".join(names))
    return data
