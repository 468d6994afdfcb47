"""``rolf sweep``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rolf.cli.common import (
    ADDRESS,
    BACKEND,
    JOBS,
    format_number,
    make_table,
    print_table,
    terminated_as_interrupted,
)
from rolf.extras import require

commands = typer.Typer()


@commands.command()
def sweep(
    config: Annotated[Path, typer.Argument(help="A TOML file: problems, policies and grids.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder for the runs; by default out/ and the file's name.")
    ] = None,
    backend: BACKEND = "local",
    address: ADDRESS = None,
    jobs: JOBS = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check the file and count the tasks; play nothing.")
    ] = False,
) -> None:
    """Play policies against problems over grids of their arguments.

    Finished tasks are kept: the same command resumes where it stopped, and after a change plays
    only what changed.
    """
    for module in ("pyarrow", "scipy", "datasketches"):
        require(module, "rolf sweep")
    from rolf.sweeps.run import plan_sweep
    from rolf.sweeps.run import sweep as run

    folder = Path("out") / config.stem if out is None else out
    if dry_run:
        typer.echo(f"{config}: {plan_sweep(config, folder)}")
        return
    with terminated_as_interrupted():
        result = run(config, folder, backend=backend, address=address, jobs=jobs)
    rows = (
        (row["problem"], row["best"], *map(format_number, (row["mean"], row["high"])), row["tied"])
        for row in result.best()
    )
    header = ("problem", "best", "regret", "at most behind", "cannot be told from it")
    title = f"{result.plan.title}: regret after {result.plan.kept_rounds[-1]} rounds"
    print_table(make_table(header, rows, text=(header[1], header[4]), title=title))
    typer.echo(
        "at most behind: the truly best setting. All rows hold at once with 95% confidence; "
        "comparison.csv has all settings."
    )
    written = [
        result.summary().to_csv(folder / "summary.csv"),
        result.compare().to_csv(folder / "comparison.csv"),
    ]
    typer.echo("written: " + ", ".join(map(str, written)))
