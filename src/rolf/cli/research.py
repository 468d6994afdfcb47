"""``rolf reproduce``, ``rolf simulate`` and ``rolf plot``."""

from __future__ import annotations

import inspect
import tempfile
import tomllib
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

import rolf
from rolf.cli.common import ADDRESS, BACKEND, JOBS, make_table, print_table
from rolf.errors import InvalidArgument, RolfError
from rolf.extras import require

if TYPE_CHECKING:
    from rolf.simulation.results import Summary

commands = typer.Typer()

#: kinds of problems, and what of ``rolf.environments`` makes them
FAMILIES = {
    "problem": "Problem",
    "paper": "paper",
    "synthetic": "synthetic",
    "varying": "varying",
    "two-arms": "two_arms",
    "three-arms": "three_arms",
}


@commands.command()
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
    jobs: JOBS = None,
    backend: BACKEND = "local",
    address: ADDRESS = None,
    setting: Annotated[str, typer.Option(help="Baselines: paper, tuned or both.")] = "both",
    resume: Annotated[bool, typer.Option("--resume", help="Keep panels already done.")] = False,
) -> None:
    """Reproduce the paper: every figure, every number, and report.html."""
    from rolf.report import reproduce as run

    for module in ("pyarrow", "matplotlib", "scipy"):
        require(module, "rolf reproduce")

    page = run(
        _writable(out),
        figure=figure or None,
        runs=runs,
        rounds=rounds,
        seed=seed,
        jobs=jobs,
        backend=backend,
        address=address,
        setting=setting,
        resume=resume,
    )
    typer.echo(f"written: {page} and, beside it, the figures (PNG, SVG) and data/")


@commands.command()
def simulate(
    config: Annotated[Path, typer.Argument(help="A TOML file: problem and policies.")],
    out: Annotated[Path, typer.Option(help="Folder for pictures, tables and data.")] = Path("out"),
    rounds: Annotated[int | None, typer.Option(help="Horizon; overrides the file.")] = None,
    runs: Annotated[int | None, typer.Option(help="Runs; overrides the file.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed; overrides the file.")] = None,
    points: Annotated[
        int | None, typer.Option(min=1, help="Keep only so many rounds, evenly spread.")
    ] = None,
    jobs: JOBS = None,
    backend: BACKEND = "local",
    address: ADDRESS = None,
) -> None:
    """Play the policies in a TOML file and write a picture, a table and the data.

    The file names policies as elsewhere: by catalogue name, entry point or package.module:Class.
    """
    require("pyarrow", "rolf simulate")
    require("matplotlib", "rolf simulate")
    plan = _read_plan(config)
    _writable(out)
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
    result: Annotated[Path, typer.Argument(help="A Parquet file written by rolf.")],
    out: Annotated[Path, typer.Option(help="The picture: .png, .svg or .pdf.")] = Path(
        "regret.png"
    ),
    title: Annotated[str | None, typer.Option(help="Title above the picture.")] = None,
    logarithmic: Annotated[bool, typer.Option("--log", help="Logarithmic regret.")] = False,
) -> None:
    """Draw a saved result again."""
    loaded = rolf.load_result(result)
    title = loaded.config.get("title") if title is None else title
    loaded.plot(out, title=title, logarithmic=logarithmic)
    typer.echo(f"written: {out}")


def _writable(folder: Path) -> Path:
    """Create the folder for the output if needed, before anything is computed."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InvalidArgument("--out", str(folder), f"a folder to write to ({error})") from None
    return folder


def _show(summary: Summary, title: str) -> None:
    """Print a summary as a table, best policy first."""
    statistics = ("mean", "std", "stderr", "min", "median", "max")
    rows = (
        (row.policy, *(f"{getattr(row, name):.1f}" for name in statistics))
        for row in sorted(summary, key=lambda row: row.mean)
    )
    print_table(make_table(("policy", *statistics), rows, title=title))
    first = summary[0]
    typer.echo(f"cumulative regret after {first.rounds} rounds, {first.runs} runs")


# --- the TOML file of a simulation ---


class Plan(NamedTuple):
    """What a TOML file tells ``rolf simulate`` to play."""

    title: str
    rounds: Any
    runs: Any
    seed: Any
    policies: dict[str, tuple[Any, dict[str, Any]]]
    problem: Any


def _read_plan(path: Path) -> Plan:
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RolfError(f"{path}: cannot be read ({error.strerror})") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RolfError(f"{path}: is not valid TOML ({error})") from None
    _check_keys(f"{path}", data, Plan._fields)
    title = data.get("title", path.stem)
    if not isinstance(title, str):
        raise InvalidArgument(f"{path}: title", title, "text")
    return Plan(
        title,
        rounds=data.get("rounds", 1200),
        runs=data.get("runs", 5),
        seed=data.get("seed", 0),
        policies=_read_policies(path, data.get("policies")),
        problem=_read_problem(path, data.get("problem", {})),
    )


def _read_policies(path: Path, table: Any) -> dict[str, tuple[Any, dict[str, Any]]]:
    """For each label a policy and its options."""
    if not isinstance(table, dict) or not table:
        raise InvalidArgument(f"{path}: policies", table, "a [policies] table")
    policies = {}
    for label, entry in table.items():
        if not isinstance(entry, str | dict):
            expected = 'a policy\'s name, or { policy = "name", option = value }'
            raise InvalidArgument(f"{path}: policies.{label}", entry, expected)
        options = {"policy": entry} if isinstance(entry, str) else dict(entry)
        policies[label] = (options.pop("policy", label), options)
    return policies


def _read_problem(path: Path, table: Any) -> Any:
    """The problem or family of problems."""
    if not isinstance(table, dict):
        raise InvalidArgument(f"{path}: problem", table, "a [problem] table")
    arguments = dict(table)
    family = arguments.pop("family", "paper")
    if isinstance(family, str) and ":" in family:
        build = _imported(path, family)
    elif isinstance(family, str) and family in FAMILIES:
        build = getattr(rolf.environments, FAMILIES[family])
    else:
        expected = f"package.module:function, or one of {', '.join(FAMILIES)}"
        raise InvalidArgument(f"{path}: problem.family", family, expected)
    _check_keys(f"{path}: problem", arguments, inspect.signature(build).parameters)
    try:
        return build(**arguments)
    except TypeError as error:
        expected = f"numbers and names ({error})"
        raise InvalidArgument(f"{path}: problem", arguments, expected) from None


def _imported(path: Path, reference: str) -> Callable[..., Any]:
    """A function or class of the user's that makes a problem or a family."""
    module, _, name = reference.partition(":")
    try:
        build: Callable[..., Any] = getattr(import_module(module), name)
        inspect.signature(build)
    except Exception as error:  # whatever a module of the user's may raise
        expected = f"a function that can be imported here ({type(error).__name__}: {error})"
        raise InvalidArgument(f"{path}: problem.family", reference, expected) from None
    return build


def _check_keys(where: str, table: dict[str, Any], known: Iterable[str]) -> None:
    if unknown := sorted(set(table) - set(known)):
        raise InvalidArgument(where, unknown, "keys among " + ", ".join(sorted(known)))
