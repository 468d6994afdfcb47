"""Large logs: time and memory to evaluate, diagnose and import them.

    python benchmarks/logs.py --rows 10000000
    python benchmarks/logs.py --quick    # 20,000 decisions, once

Writes a log to a folder of Parquet files, one million decisions each, by a system whose
probabilities change all the time. Then measures in turn, each in its own process:

* read: PyArrow reads the columns arm, probability and reward, and sums the numbers;
* codes: the same with arm names as codes, which is the fastest way to read them;
* replay: ``rolf.replay`` of a rule by ips, snips and dr;
* diagnose: ``rolf.diagnose``;
* import: ``rolf import`` of the log into a new experiment.

Times are the best of several turns, after a first call in the same process that loads libraries.
The last column is the peak memory of the process.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

ARMS, FILE, CHANGE = 20, 1_000_000, 100
COLUMNS = ["arm", "probability", "reward"]
TASKS = ("read", "codes", "replay", "diagnose", "import")


def write(folder: Path, rows: int) -> None:
    """Write a log in which the probabilities of the arms change every ``CHANGE`` decisions."""
    import pyarrow as pa
    from pyarrow import parquet

    rng = np.random.default_rng(1)
    features = rng.standard_normal((ARMS, 3))
    means = features @ [0.2, -0.1, 0.1] + rng.normal(0.0, 0.2, ARMS)
    names = pa.array([f"ad-{arm}" for arm in range(ARMS)])
    lines = [f"ad-{arm},{','.join(map(str, row))}" for arm, row in enumerate(features.tolist())]
    (folder / "arms.csv").write_text("\n".join(["arm,size,price,age", *lines]))
    (folder / "log").mkdir()
    for number, first in enumerate(range(0, rows, FILE)):
        size = min(FILE, rows - first)
        chances = rng.dirichlet(np.full(ARMS, 4.0), -(-size // CHANGE))
        every = np.repeat(np.arange(len(chances)), CHANGE)[:size]
        edges = chances.cumsum(axis=1)
        edges[:, -1] = 1.0
        played = np.empty(size, dtype=np.int32)
        for start in range(0, size, 100_000):
            some = slice(start, min(start + 100_000, size))
            draws = rng.random(some.stop - some.start)
            played[some] = (draws[:, None] >= edges[every[some]]).sum(axis=1)
        table = pa.table(
            {
                "arm": pa.DictionaryArray.from_arrays(played, names).cast(pa.string()),
                "probability": chances[every, played],
                "reward": means[played] + rng.standard_normal(size),
            }
        )
        parquet.write_table(table, folder / "log" / f"part-{number}.parquet")


def read(folder: Path) -> None:
    """Read the columns and sum them."""
    from pyarrow import compute, dataset

    for batch in dataset.dataset(folder / "log").to_batches(columns=COLUMNS):
        compute.count(batch.column(0))
        compute.sum(batch.column(1))
        compute.sum(batch.column(2))


def read_codes(folder: Path) -> None:
    """The same, with codes instead of arm names."""
    from pyarrow import compute, dataset

    options = dataset.ParquetReadOptions(dictionary_columns=["arm"])
    source = dataset.dataset(folder / "log", format=dataset.ParquetFileFormat(options))
    for batch in source.to_batches(columns=COLUMNS):
        compute.sum(batch.column(0).indices)
        compute.sum(batch.column(1))
        compute.sum(batch.column(2))


def replay(folder: Path) -> None:
    import rolf

    names = ["ips", "snips", "dr"]
    rolf.replay(folder / "log", folder / "arms.csv", ["lints"], estimators=names)


def diagnose(folder: Path) -> None:
    import rolf

    rolf.diagnose(folder / "log", folder / "arms.csv")


def import_log(folder: Path) -> None:
    from rolf.experiments.database import create_from_file

    url = f"sqlite:///{tempfile.mktemp(suffix='.db', dir=folder)}"
    arms = str(folder / "arms.csv")
    create_from_file(url, "e", folder / "log", "arm", "reward", features=arms)[0].close()


FUNCTIONS: dict[str, Callable[[Path], None]] = {
    "read": read,
    "codes": read_codes,
    "replay": replay,
    "diagnose": diagnose,
    "import": import_log,
}


def serve(task: str, folder: Path) -> None:
    """Run a task for each line of input; print its time and the peak memory so far."""
    warnings.simplefilter("ignore")
    for _ in sys.stdin:
        start = time.perf_counter()
        FUNCTIONS[task](folder)
        took = time.perf_counter() - start
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(json.dumps([took, memory]), flush=True)


def measure(folder: Path, tasks: list[str], turns: int) -> dict[str, tuple[float, float]]:
    """The shortest time and the peak memory of each task."""
    workers = {
        task: subprocess.Popen(
            [sys.executable, __file__, "--serve", task, "--folder", str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for task in tasks
    }
    times: dict[str, list[float]] = {task: [] for task in tasks}
    memory = {}
    for _ in range(turns + 1):
        for task, worker in workers.items():
            assert worker.stdin is not None
            assert worker.stdout is not None
            worker.stdin.write("\n")
            worker.stdin.flush()
            took, memory[task] = json.loads(worker.stdout.readline())
            times[task].append(took)
    for worker in workers.values():
        worker.communicate()
    return {task: (min(times[task][min(1, turns) :]), memory[task]) for task in tasks}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--turns", type=int, default=5, help="turns after the first; 0 for none")
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=TASKS)
    parser.add_argument("--folder", type=Path, help="folder of the log, written if it is missing")
    parser.add_argument("--serve", choices=TASKS, help=argparse.SUPPRESS)
    parser.add_argument("--quick", action="store_true", help="20,000 decisions, one turn")
    options = parser.parse_args()
    if options.quick:
        options.rows, options.turns = 20_000, 0
    if options.serve:
        serve(options.serve, options.folder)
        return
    folder = options.folder or Path(tempfile.mkdtemp())
    try:
        if not (folder / "arms.csv").exists():
            folder.mkdir(exist_ok=True)
            write(folder, options.rows)
        results = measure(folder, options.tasks, options.turns)
        print(f"{options.rows:,} decisions among {ARMS} arms")
        print("task          seconds   times read   times codes   rows/second   memory (GiB)")
        for task, (took, memory) in results.items():
            times = [took / results[each][0] if each in results else math.nan for each in TASKS[:2]]
            rate = options.rows / took
            print(
                f"{task:12s} {took:8.3f} {times[0]:12.2f} {times[1]:13.2f} {rate:13,.0f}"
                f" {memory:14.2f}"
            )
    finally:
        if options.folder is None:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
