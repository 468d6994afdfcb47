"""Run the plan: play every panel, draw every figure, write data and page."""

from __future__ import annotations

import csv
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from rolf.checks import one_of
from rolf.errors import InvalidArgument, RolfError, RolfWarning
from rolf.paper import page
from rolf.paper.claims import judge
from rolf.paper.constants import compare
from rolf.paper.figures import Figure, Panel, figures
from rolf.paper.theorems import judge_theory
from rolf.parallel import check_backend
from rolf.plots import regret as plots
from rolf.plots.style import save
from rolf.progress import labelled, progress_bar
from rolf.simulation.entries import describe, read_policies
from rolf.simulation.result import Result, Row, load_result, versions
from rolf.simulation.simulate import simulate
from rolf.tables.result_table import ResultTable
from rolf.text import harmless, write_csv

#: panels have offsets below this
SEEDS = 1000


class Played(NamedTuple):
    """What is kept of a panel once its data are on disk."""

    curves: plots.Curves
    summary: ResultTable[Row]
    config: dict[str, Any]


Results = dict[str, dict[str, Played]]


def reproduce(
    out: str | Path = "out",
    *,
    figure: Iterable[str] | None = None,
    runs: int | None = None,
    rounds: int | None = None,
    seed: int = 0,
    jobs: int | None = None,
    setting: str = "both",
    resume: bool = False,
    progress: bool | None = None,
    backend: str = "local",
    address: str | None = None,
    band: str = "quantiles",
) -> Path:
    """Reproduce the paper: data, figures and ``report.html`` in the folder ``out``.

    Args:
        out: folder, created if needed.
        figure: keys of the figures; by default all, and the verdicts on the theorems.
        runs: runs of every panel; by default five for the paper's figures and 10 to 50 for ours.
        rounds: horizon of every panel; by default 1200, and 3000 for learnability.
        seed: same seed, same numbers, on any number of workers.
        jobs: workers; all cores by default.
        setting: "paper", "tuned" or "both": which of the paper's panels.
        resume: keep the panels that an interrupted run with the same arguments finished.
        progress: show a progress bar; by default on a terminal.
        backend: where runs are played, as in ``rolf.simulate``; same numbers.
        address: of a Dask scheduler or a Ray cluster.
        band: around the curves: "quantiles", which hold most of the runs, or "deviation", one
            standard deviation, as in the paper.

    Returns the path of the page.
    """
    chosen = choose_figures(figure, setting)
    check_backend(backend, jobs, address)
    one_of("band", band, *plots.BANDS)
    workers = {"backend": backend, "jobs": jobs, "address": address}
    folder = Path(out)
    (folder / "data").mkdir(parents=True, exist_ok=True)
    tasks = sum(
        (runs or plan.runs) * len(panel.policies) for plan in chosen for panel in plan.panels
    )
    done: Results = {}
    with progress_bar(progress, tasks, "reproducing") as advance:
        for plan in chosen:
            done[plan.key] = {}
            for panel in plan.panels:
                result = play_panel(
                    plan,
                    panel,
                    folder / "data" / f"{plan.key}-{panel.key}.parquet",
                    runs=runs or plan.runs,
                    rounds=rounds or plan.rounds,
                    seed=seed,
                    resume=resume,
                    advance=advance,
                    workers=workers,
                )
                played = Played(result.curves(), result.summary(), result.config)
                done[plan.key][panel.key] = played
                write_curves(played.curves, folder / "data" / f"{plan.key}-{panel.key}.csv")
            draw(plan, done[plan.key], folder, band)
    write_summaries(chosen, done, folder / "data" / "summary.csv")
    target = folder / "report.html"
    about = {"seed": seed, "versions": versions(), "setting": setting}
    claims = judge(done) + (judge_theory(seed) if figure is None else [])
    target.write_text(page.render(chosen, done, claims, compare(done), folder, about))
    return target


def choose_figures(keys: Iterable[str] | None, setting: str) -> list[Figure]:
    """The figures of a setting with these keys, or all of them, in the order of the plan."""
    one_of("setting", setting, "paper", "tuned", "both")
    plan = figures()
    possible = [f for f in plan.values() if f.setting in ("both", setting) or setting == "both"]
    if keys is None:
        return possible
    chosen = list(keys)
    for key in chosen:
        if key not in plan:
            raise InvalidArgument("figure", key, "one of " + ", ".join(plan))
    if excluded := [key for key in chosen if plan[key] not in possible]:
        raise InvalidArgument("figure", excluded, f"figures of the setting {setting!r}")
    return [figure for figure in possible if figure.key in chosen]


def play_panel(
    figure: Figure,
    panel: Panel,
    path: Path,
    *,
    runs: int,
    rounds: int,
    seed: int,
    resume: bool,
    advance: Callable[[str], None],
    workers: dict[str, Any],
) -> Result:
    """Play one panel, or load it from the file of an earlier run with the same plan."""
    config = {
        "problem": panel.problem.describe(),
        "rounds": rounds,
        "runs": runs,
        "seed": panel_seed(seed, panel),
        "versions": versions(),
        "policies": describe(read_policies(panel.policies)),
    }
    if resume and path.exists():
        try:
            kept = load_result(path)
        except RolfError:
            kept = None  # cut off while it was written
        if (
            kept is not None
            and kept.labels == list(panel.policies)
            and all(kept.config.get(key) == value for key, value in config.items())
        ):
            for label in kept.labels * runs:
                advance(label)
            return kept
    with warnings.catch_warnings():  # a plan may explore beyond a short horizon
        warnings.simplefilter("ignore", RolfWarning)
        result = simulate(
            panel.policies,
            panel.problem,
            rounds=rounds,
            runs=runs,
            seed=panel_seed(seed, panel),
            **workers,
            progress=labelled(advance, f"{figure.key}, {panel.title}"),
        )
    partial = path.with_suffix(".part.parquet")
    result.save(partial)
    partial.replace(path)  # a file is whole or absent
    return result


def panel_seed(seed: int, panel: Panel) -> int:
    """Of a panel: no two panels with an offset of their own share it, for any two seeds."""
    return SEEDS * seed + panel.offset


def write_curves(curves: plots.Curves, path: Path) -> None:
    """Mean, spread and quantiles of every policy in every round."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        low, high = (f"q{100 * share:g}" for share in plots.BAND)
        writer.writerow(["policy", "round", "mean", "std", low, high, "runs"])
        arrays = (curves.mean, curves.std, curves.low, curves.high)
        for label, *lines in zip(curves.labels, *arrays, strict=True):
            for round, *values in zip(curves.rounds, *lines, strict=True):
                numbers = [f"{value:.10g}" for value in values]
                writer.writerow([harmless(label), round, *numbers, curves.runs])


def write_summaries(chosen: list[Figure], done: Results, path: Path) -> None:
    """The final regret of every policy in every panel, as one table."""
    rows: list[dict[str, Any]] = []
    for figure in chosen:
        for panel in figure.panels:
            for row in done[figure.key][panel.key].summary.to_dicts():
                rows.append({"figure": figure.key, "panel": panel.key, "x": panel.x, **row})
    write_csv(path, list(rows[0]), rows)


def draw(
    figure: Figure, played: Mapping[str, Played], folder: Path, band: str = "quantiles"
) -> None:
    """PNG and SVG of one figure, and a PNG for narrow screens."""
    for stacked, endings in ((False, (".png", ".svg")), (True, (page.NARROW,))):
        drawn = _drawn(figure, played, stacked, band)
        for ending in endings:
            save(drawn, folder / f"{figure.key}{ending}")


def _drawn(figure: Figure, played: Mapping[str, Played], stacked: bool, band: str) -> Any:
    if figure.kind == "sweep":
        return plots.setting_figure(
            {panel.x: played[panel.key].curves for panel in figure.panels},
            title=figure.title,
            xlabel=figure.xlabel,
            logarithmic=figure.logx,
            stacked=stacked,
        )
    return plots.panels_figure(
        [(panel.title, played[panel.key].curves) for panel in figure.panels],
        title=figure.title,
        bounds=[figure.bounds.get(panel.key) for panel in figure.panels],
        logarithmic=figure.logy,
        stacked=stacked,
        band=band,
    )
