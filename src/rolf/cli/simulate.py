"""``rolf simulate``, and ``rolf plot`` for its results and those of sweeps."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import rolf
from rolf.cli.common import (
    ADDRESS,
    BACKEND,
    JOBS,
    errors_name_options,
    make_table,
    print_table,
    writable_folder,
)
from rolf.errors import InvalidArgument
from rolf.extras import require

if TYPE_CHECKING:
    from rolf.simulation.result import Row
    from rolf.tables.result_table import ResultTable

commands = typer.Typer()


@commands.command()
def simulate(
    config: Annotated[Path, typer.Argument(help="A TOML file: problem and policies.")],
    out: Annotated[Path, typer.Option(help="Folder for pictures, tables and data.")] = Path("out"),
    rounds: Annotated[int | None, typer.Option(help="Horizon; overrides the file.")] = None,
    runs: Annotated[int | None, typer.Option(help="Runs; overrides the file.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed; overrides the file.")] = None,
    points: Annotated[
        int | None, typer.Option(min=1, help="Keep only this many rounds, evenly spread.")
    ] = None,
    jobs: JOBS = None,
    backend: BACKEND = "local",
    address: ADDRESS = None,
) -> None:
    """Play the policies in a TOML file; write a picture, a table and the data.

    Policies are named by catalogue name, entry point or package.module:Class.
    """
    require("pyarrow", "rolf simulate")
    require("matplotlib", "rolf simulate")
    from rolf.simulation.config import read_plan

    plan = read_plan(config)
    writable_folder(out)
    result = rolf.simulate(
        plan.policies,
        plan.problem,
        rounds=plan.rounds if rounds is None else rounds,
        runs=plan.runs if runs is None else runs,
        seed=plan.seed if seed is None else seed,
        points=points,
        jobs=jobs,
        backend=backend,
        address=address,
    )
    result.config["title"] = plan.title
    summary, stem = result.summary(), config.stem
    written = [result.save(out / f"{stem}.parquet"), summary.to_csv(out / f"{stem}.csv")]
    for kind in ("png", "svg"):
        result.plot(out / f"{stem}.{kind}", title=plan.title)
        written.append(out / f"{stem}.{kind}")
    _show(summary, plan.title)
    typer.echo("written: " + ", ".join(str(path) for path in written))


@commands.command()
def plot(
    result: Annotated[
        Path, typer.Argument(help="A Parquet file from rolf simulate, or a folder from rolf sweep.")
    ],
    out: Annotated[Path, typer.Option(help="The picture: .png, .svg or .pdf.")] = Path(
        "regret.png"
    ),
    title: Annotated[str | None, typer.Option(help="Title of the picture.")] = None,
    logarithmic: Annotated[bool, typer.Option("--log", help="Logarithmic regret axis.")] = False,
    x: Annotated[
        str | None, typer.Option(help="For a sweep: the argument to plot regret against.")
    ] = None,
    facet: Annotated[
        list[str] | None,
        typer.Option(help="For a sweep: one panel per value of this column; may be repeated."),
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(help="For a sweep: only cells with NAME=VALUE; may be repeated."),
    ] = None,
    round: Annotated[
        int | None, typer.Option(help="For a sweep: plot regret after this round.")
    ] = None,
) -> None:
    """Plot a saved result or a sweep: over rounds, or against a swept argument."""
    if result.is_dir():
        with errors_name_options("x", "facet", "where", "round"):
            sweep = rolf.load_sweep(result)
            sweep.plot(
                out,
                x=x or "round",
                facet=facet or None,
                where=dict(_equation(text) for text in where or ()),
                round=round,
                title=title,
                logarithmic=logarithmic,
            )
        if sweep.progress:
            typer.echo(f"{result}: not finished, {sweep.progress}")
    elif x or facet or where or round:
        wanted = "the folder of a sweep, for --x, --facet, --where and --round"
        raise InvalidArgument("result", str(result), wanted)
    else:
        loaded = rolf.load_result(result)
        title = loaded.config.get("title") if title is None else title
        loaded.plot(out, title=title, logarithmic=logarithmic)
    typer.echo(f"written: {out}")


def _equation(text: str) -> tuple[str, str]:
    """Split NAME=VALUE."""
    name, equals, value = text.partition("=")
    if not equals:
        raise InvalidArgument("where", text, "NAME=VALUE")
    return name, value


def _show(summary: ResultTable[Row], title: str) -> None:
    """Print a summary as a table, best policy first."""
    statistics = ("mean", "std", "stderr", "min", "median", "max")
    rows = (
        (row.policy, *(f"{getattr(row, name):.1f}" for name in statistics))
        for row in sorted(summary, key=lambda row: row.mean)
    )
    print_table(make_table(("policy", *statistics), rows, title=title))
    first = summary[0]
    typer.echo(f"cumulative regret after {first.rounds} rounds, {first.runs} runs")
