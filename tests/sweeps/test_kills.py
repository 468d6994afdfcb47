"""Sweeps that are killed, run on workers, or do not fit in memory."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from rolf.sweeps.store import PART, SweepStore
from sweeps.test_run import PROBLEM, InTurn, files, run

pytestmark = pytest.mark.slow

#: 30 tasks of a few hundredths of a second each
LONG = {
    "rounds": 20_000,
    "runs": 50,
    "points": 5,
    "problems": {"paper": PROBLEM},
    "policies": {"UCB1": {"policy": "ucb1", "grid": {"scale": [0.1, 1.0]}}, "LinUCB": "linucb"},
}
TOML = """
rounds = 20_000
runs = 50
points = 5

[problems.paper]
arms = 5
size = 6
observed = 3

[policies]
ucb1 = { grid = { scale = [0.1, 1.0] } }
LinUCB = "linucb"
"""


def check_all(folder):
    """Check that every file can be read; return the number of runs."""
    store, count = SweepStore(folder), 0
    for cell in store.read_plan().cells:
        for block in store.blocks(cell.key):
            store.read(cell.key, block, 5)
            count += block.runs
    return count


def test_kills_at_any_moment_lose_only_what_is_in_flight(tmp_path):
    whole, _ = run(LONG, tmp_path / "whole")
    chance, done, kills = random.Random(0), 0, 0
    folder = tmp_path / "killed"
    while done < 150:
        child = os.fork()
        if not child:
            try:
                run(LONG, folder, jobs=2)
            finally:
                os._exit(0)
        time.sleep(chance.uniform(0.0, 0.4))
        os.kill(child, signal.SIGKILL)
        kills += os.waitpid(child, 0)[1] == signal.SIGKILL
        if (folder / "sweep.json").exists():
            before, done = done, check_all(folder)
            assert done >= before
    assert kills > 5
    again, played = run(LONG, folder)
    assert played == []
    assert {path.name for path in files(folder)} == {path.name for path in files(whole.folder)}
    assert sorted(files(folder).values()) == sorted(files(whole.folder).values())
    assert str(again.compare()) == str(whole.compare())
    for path in folder.rglob(f"*{PART}"):
        os.utime(path, (0, 0))
    run(LONG, folder)
    assert not list(folder.rglob(f"*{PART}"))


def start(folder, config, errors):
    words = [str(Path(sys.executable).parent / "rolf"), "sweep", str(config), "--out", str(folder)]
    with errors.open("w") as file:
        return subprocess.Popen([*words, "--jobs", "2"], stderr=file)


def wait_for_files(folder, count):
    until = time.time() + 60
    while len(files(folder)) < count:
        assert time.time() < until
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_command_can_be_resumed(tmp_path, number):
    config, folder = tmp_path / "plan.toml", tmp_path / "out"
    config.write_text(TOML)
    errors = tmp_path / "errors"
    process = start(folder, config, errors)
    wait_for_files(folder, 3)
    workers = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(number)
    process.wait(timeout=60)
    if number != signal.SIGKILL:
        assert process.returncode == 130
        assert "interrupted; the same command continues" in errors.read_text()
    assert len(workers) >= 2
    assert psutil.wait_procs(workers, timeout=20)[1] == []
    assert 15 <= check_all(folder) < 150
    assert start(folder, config, errors).wait(timeout=120) == 0, errors.read_text()
    assert check_all(folder) == 150


@pytest.mark.parametrize("backend", ["local", "dask", "ray"])
def test_workers_play_what_threads_play(tmp_path, backend):
    config = {
        **LONG,
        "rounds": 500,
        "runs": 300,
        "policies": {"UCB1": "ucb1", "LinUCB": {"policy": "linucb", "grid": {"width": [1, 2]}}},
    }
    config["policies"]["in turn"] = InTurn
    run(config, tmp_path / "threads")
    run(config, tmp_path / backend, backend=backend, jobs=2)
    first, second = (sorted(files(tmp_path / each).values()) for each in ("threads", backend))
    assert len(first) == 8
    assert first == second


MEMORY = """
import re, sys
from pathlib import Path
import rolf
sweep = rolf.load_sweep(sys.argv[1])
sweep.summary(), sweep.table().to_pandas(), sweep.compare()
print(re.search("VmHWM: *([0-9]+)", Path("/proc/self/status").read_text().replace("\t", " "))[1])
"""


def test_memory_does_not_grow_with_the_runs(tmp_path):
    from sweeps.test_result import made_up

    peaks = []
    for runs in (200_000, 2_000_000):
        folder = tmp_path / str(runs)
        part = np.random.default_rng(0).random((1, runs, 8))
        made_up(folder, part, block=20_000)
        words = [sys.executable, "-c", MEMORY, str(folder)]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        peaks.append(int(done.stdout) / 1024)
    assert peaks[1] - peaks[0] < 32, peaks  # MiB; the runs take 12 and 122
