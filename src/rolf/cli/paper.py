"""``rolf reproduce``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rolf.cli.common import ADDRESS, BACKEND, JOBS, writable_folder
from rolf.extras import require

commands = typer.Typer()


@commands.command()
def reproduce(
    out: Annotated[Path, typer.Option(help="Folder for the page, pictures and data.")] = Path(
        "out"
    ),
    figure: Annotated[
        list[str] | None, typer.Option(help="Only this figure; may be repeated.")
    ] = None,
    runs: Annotated[int | None, typer.Option(min=1, help="Runs per panel.")] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="Horizon of each panel.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same numbers.")] = 0,
    jobs: JOBS = None,
    backend: BACKEND = "local",
    address: ADDRESS = None,
    setting: Annotated[str, typer.Option(help="Baselines: paper, tuned or both.")] = "both",
    band: Annotated[
        str,
        typer.Option(help="Around the curves: quantiles, or deviation (one, as in the paper)."),
    ] = "quantiles",
    resume: Annotated[bool, typer.Option("--resume", help="Keep finished panels.")] = False,
) -> None:
    """Reproduce the paper: every figure, every number, and report.html."""
    for module in ("pyarrow", "matplotlib", "scipy"):
        require(module, "rolf reproduce")
    from rolf.paper.reproduce import reproduce as run

    page = run(
        writable_folder(out),
        figure=figure or None,
        runs=runs,
        rounds=rounds,
        seed=seed,
        jobs=jobs,
        backend=backend,
        address=address,
        setting=setting,
        resume=resume,
        band=band,
    )
    typer.echo(f"written: {page}, with the figures (PNG, SVG) and data/ beside it")
