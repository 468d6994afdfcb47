"""Run a sweep: play its missing tasks, and store each as it finishes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from rolf import parallel
from rolf.extras import require
from rolf.progress import progress_bar
from rolf.simulation.result import versions
from rolf.simulation.runs import Runs
from rolf.sweeps.config import Players, read_config
from rolf.sweeps.plan import SweepPlan
from rolf.sweeps.result import Sweep
from rolf.sweeps.store import Block, SweepStore
from rolf.sweeps.task import Task, play_task
from rolf.text import counted


class Agenda(NamedTuple):
    """The work of a sweep: its plan, the players of each cell, and the missing blocks."""

    plan: SweepPlan
    players: list[Players]
    missing: list[tuple[int, Block]]

    @property
    def runs(self) -> int:
        """Runs of all cells and seeds."""
        return len(self.plan.cells) * len(self.plan.seeds) * self.plan.runs

    @property
    def missing_runs(self) -> int:
        return sum(block.runs for _, block in self.missing)

    def __str__(self) -> str:
        done = self.runs - self.missing_runs
        cells, runs = counted(len(self.plan.cells), "cell"), counted(self.runs, "run")
        tasks = counted(len(self.missing), "task")
        return f"{cells}, {runs}, {done} done; {tasks} to do"


def plan_sweep(config: str | Path | Mapping[str, Any], out: str | Path) -> Agenda:
    """Check a configuration, and list what is missing in the folder ``out``; play nothing."""
    require("pyarrow", "a sweep")
    plan, players = read_config(config)
    return Agenda(plan, players, list(SweepStore(out).gaps(plan)))


def sweep(
    config: str | Path | Mapping[str, Any],
    out: str | Path,
    *,
    backend: str = "local",
    address: str | None = None,
    jobs: int | None = None,
    progress: bool | Callable[[str], None] | None = None,
) -> Sweep:
    """Play policies against problems over grids of their arguments; play only what is missing.

    Args:
        config: the path of a TOML file, or a dict of the same form.
        out: a folder, created if needed. Runs it already holds are not played again unless the
            configuration or the code has changed.
        backend: where tasks run: "local", on the cores of this machine; "dask"; or "ray".
        address: address of the Dask or Ray cluster.
        jobs: number of tasks that run at the same time; by default the number of cores.
        progress: show a progress bar, by default on a terminal; or a function, called with a
            description of each finished task.
    """
    parallel.check_backend(backend, jobs, address)
    agenda, store = plan_sweep(config, out), SweepStore(out)
    plan, points = agenda.plan, agenda.plan.kept_rounds
    store.check()
    store.clean()
    store.write_plan(plan)
    for index in dict.fromkeys(index for index, _ in agenda.missing):
        entry, problem = agenda.players[index]
        if entry.ours:  # compiled once, for all workers on this machine
            Runs([entry], problem, plan.seeds[0], points).prepare(0)
    used = versions()
    tasks = [
        Task(*agenda.players[index], points, *block, plan.cells[index].words, used)
        for index, block in agenda.missing
    ]
    running: Any = parallel.completed(play_task, tasks, backend=backend, jobs=jobs, address=address)
    with progress_bar(progress, len(tasks), "sweeping") as advance, closing(running) as finished:
        for number, regret in finished:
            index, block = agenda.missing[number]
            cell = plan.cells[index]
            store.write(cell.key, block, regret)
            advance(cell.words)
    return Sweep(store.folder, plan)
