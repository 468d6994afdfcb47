"""The command line: parsing and printing only."""

from __future__ import annotations

import inspect
import os
import sys
import tempfile
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

import rolf
from rolf.cli import arms, diagnose, experiments, replay
from rolf.errors import InvalidArgument, RolfError
from rolf.simulation.results import Result, Summary

app = typer.Typer(
    help="Bandits whose features do not tell the whole story.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
console = Console()
for group in (experiments, arms, replay, diagnose):
    group.register(app)

INTERRUPTED = 130  # the exit code into which typer turns Ctrl-C

FAMILIES: dict[str, Callable[..., Any]] = {
    "paper": rolf.environments.paper,
    "synthetic": rolf.environments.synthetic,
    "varying": rolf.environments.varying,
    "two-arms": rolf.environments.two_arms,
    "three-arms": rolf.environments.three_arms,
}


def main() -> None:
    """Run the command line; rolf's own errors are one line, not a traceback."""
    try:
        app()
    except (RolfError, OSError) as error:
        Console(stderr=True, soft_wrap=True).print(
            f"rolf: {error}", style="red", markup=False, highlight=False
        )
        raise SystemExit(1) from None
    except SystemExit as stop:
        if stop.code != INTERRUPTED:
            raise
        more = "; rolf reproduce goes on with --resume" if "reproduce" in sys.argv[1:2] else ""
        Console(stderr=True).print(f"rolf: interrupted{more}")
        os._exit(INTERRUPTED)  # without waiting for what still runs


def writable(folder: Path) -> Path:
    """Make the folder for what will be written, before anything is computed."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InvalidArgument("--out", str(folder), f"a folder to write to ({error})") from None
    return folder


@app.callback(invoke_without_command=True)
def root(
    version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False,
) -> None:
    """Bandits whose features do not tell the whole story."""
    if version:
        console.print(f"rolf {rolf.__version__}", highlight=False)
        raise typer.Exit


@app.command()
def policies(
    name: Annotated[str | None, typer.Argument(help="Show one policy's options.")] = None,
) -> None:
    """List the policies of the catalogue, or the options of one."""
    if name is not None:
        cls = rolf.policy_class(name)
        console.print(f"{cls.__name__} ({cls.name}): {cls.summary}\n", highlight=False)
        console.print(inspect.getdoc(cls) or "", highlight=False, markup=False)
        defaults = [
            f"{p.name}={p.default!r}"
            for p in inspect.signature(cls).parameters.values()
            if p.default is not p.empty
        ]
        console.print("\nDefaults: " + ", ".join(defaults), highlight=False, markup=False)
        return
    table = Table("name", "class", "what it is", "options", box=None, pad_edge=False)
    for cls in rolf.policy_classes():
        options = [p for p in inspect.signature(cls).parameters if p not in ("features", "seed")]
        table.add_row(cls.name, cls.__name__, cls.summary, ", ".join(options))
    console.print(table)


@app.command()
def reproduce(
    out: Annotated[Path, typer.Option(help="Folder for the page, pictures and data.")] = Path(
        "out"
    ),
    figure: Annotated[
        list[str] | None, typer.Option(help="Only this figure; may be given several times.")
    ] = None,
    runs: Annotated[int | None, typer.Option(min=1, help="Runs of every panel.")] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="Horizon of every panel.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same numbers.")] = 0,
    jobs: Annotated[int | None, typer.Option(min=1, help="Workers; all cores by default.")] = None,
    setting: Annotated[str, typer.Option(help="Baselines: paper, tuned or both.")] = "both",
    resume: Annotated[bool, typer.Option("--resume", help="Keep panels already done.")] = False,
) -> None:
    """Reproduce the paper: every figure, every number, and report.html."""
    from rolf.report import reproduce as run

    page = run(
        writable(out),
        figure=figure or None,
        runs=runs,
        rounds=rounds,
        seed=seed,
        jobs=jobs,
        setting=setting,
        resume=resume,
    )
    console.print(
        f"written: {page} and, beside it, the figures (PNG, SVG) and data/", highlight=False
    )


@app.command()
def simulate(
    config: Annotated[Path, typer.Argument(help="A TOML file: problem and policies.")],
    out: Annotated[Path, typer.Option(help="Folder for pictures, tables and data.")] = Path("out"),
    rounds: Annotated[int | None, typer.Option(help="Horizon; overrides the file.")] = None,
    runs: Annotated[int | None, typer.Option(help="Runs; overrides the file.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed; overrides the file.")] = None,
    jobs: Annotated[int | None, typer.Option(help="Workers; all cores by default.")] = None,
) -> None:
    """Play the policies of a TOML file and write a picture, a table and the data."""
    plan = read_plan(config)
    writable(out)
    result = rolf.simulate(
        plan["policies"],
        plan["problem"],
        rounds=rounds if rounds is not None else plan["rounds"],
        runs=runs if runs is not None else plan["runs"],
        seed=seed if seed is not None else plan["seed"],
        jobs=jobs,
    )
    result.config["title"] = plan["title"]
    stem = config.stem
    written = [result.save(out / f"{stem}.parquet"), result.summary().to_csv(out / f"{stem}.csv")]
    for kind in ("png", "svg"):
        result.plot(out / f"{stem}.{kind}", title=plan["title"])
        written.append(out / f"{stem}.{kind}")
    show(result.summary(), plan["title"])
    console.print("written: " + ", ".join(str(path) for path in written), highlight=False)


@app.command()
def plot(
    result: Annotated[Path, typer.Argument(help="A Parquet file written by rolf.")],
    out: Annotated[Path, typer.Option(help="The picture: .png, .svg or .pdf.")] = Path(
        "regret.png"
    ),
    title: Annotated[str | None, typer.Option(help="Above the picture.")] = None,
    logarithmic: Annotated[bool, typer.Option("--log", help="Logarithmic regret.")] = False,
) -> None:
    """Draw a saved result again."""
    loaded: Result = rolf.load(result)
    given = title if title is not None else loaded.config.get("title")
    loaded.plot(out, title=given, logarithmic=logarithmic)
    console.print(f"written: {out}", highlight=False)


@app.command("compile")
def compile_policies(
    names: Annotated[
        list[str] | None, typer.Argument(help="Some policies; all by default.")
    ] = None,
) -> None:
    """Compile policies now, two at a time, so that nothing later has to wait."""
    import subprocess
    import sys

    wanted = names or [cls.name for cls in rolf.policy_classes()]
    for name in wanted:
        rolf.policy_class(name)
    if len(wanted) == 1:
        from rolf.simulation.loop import compile_all

        compile_all(wanted)
        return
    # The lasso takes as long as most of the others together. Numba compiles one thing at a
    # time in a process, so two processes halve the wait.
    halves = [wanted[:1], wanted[1:]]
    code = "import sys; from rolf.simulation.loop import compile_all; compile_all(sys.argv[1:])"
    running = [subprocess.Popen([sys.executable, "-c", code, *half]) for half in halves]
    if max(process.wait() for process in running) != 0:
        raise RolfError("compilation failed; the lines above say why")
    console.print(f"compiled: {', '.join(wanted)}", highlight=False)


def show(summary: Summary, title: str | None) -> None:
    """Print a summary as a table, best policy first."""
    shown = Text(title) if title else None
    table = Table(title=shown, title_justify="left", box=None, pad_edge=False)
    table.add_column("policy")
    for column in ("mean", "std", "stderr", "min", "median", "max"):
        table.add_column(column, justify="right")
    for row in sorted(summary, key=lambda each: each.mean):
        values = (row.mean, row.std, row.stderr, row.min, row.median, row.max)
        table.add_row(row.policy, *(f"{value:.1f}" for value in values))
    console.print(table)
    first = summary[0]
    console.print(f"cumulative regret after {first.rounds} rounds, {first.runs} runs")


def read_plan(path: Path) -> dict[str, Any]:
    """Read and check a TOML file for ``rolf simulate``."""
    try:
        data = tomllib.loads(path.read_text())
    except OSError as error:
        raise RolfError(f"{path}: cannot be read ({error.strerror})") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RolfError(f"{path}: is not valid TOML ({error})") from None
    known = {"title", "rounds", "runs", "seed", "problem", "policies"}
    if unknown := sorted(set(data) - known):
        raise InvalidArgument(f"{path}", unknown, "keys among " + ", ".join(sorted(known)))
    chosen = data.get("policies")
    if not isinstance(chosen, dict) or not chosen:
        raise InvalidArgument(f"{path}: policies", chosen, "a [policies] table")
    entries = {}
    for label, entry in chosen.items():
        if not isinstance(entry, str | dict):
            wanted = 'a policy\'s name, or { policy = "name", option = value }'
            raise InvalidArgument(f"{path}: policies.{label}", entry, wanted)
        options = {"policy": entry} if isinstance(entry, str) else dict(entry)
        entries[label] = (options.pop("policy", label), options)
    if not isinstance(data.get("title", ""), str):
        raise InvalidArgument(f"{path}: title", data["title"], "text")
    problem = data.get("problem", {})
    if not isinstance(problem, dict):
        raise InvalidArgument(f"{path}: problem", problem, "a [problem] table")
    problem = dict(problem)
    family = problem.pop("family", "paper")
    if not isinstance(family, str) or family not in FAMILIES:
        raise InvalidArgument(f"{path}: problem.family", family, "one of " + ", ".join(FAMILIES))
    known = set(inspect.signature(FAMILIES[family]).parameters)
    if extra := sorted(set(problem) - known):
        raise InvalidArgument(f"{path}: problem", extra, "keys among " + ", ".join(sorted(known)))
    try:
        drawn = FAMILIES[family](**problem)
    except TypeError as error:
        raise InvalidArgument(f"{path}: problem", problem, f"numbers and names ({error})") from None
    return {
        "title": data.get("title", path.stem),
        "rounds": data.get("rounds", 1200),
        "runs": data.get("runs", 5),
        "seed": data.get("seed", 0),
        "policies": entries,
        "problem": drawn,
    }
