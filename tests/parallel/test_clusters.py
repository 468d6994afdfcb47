"""Clusters started as on the docs page: its code runs, and killed workers are survived."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
import uuid
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

import rolf
import rolf.parallel

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).parents[2] / "docs" / "research" / "cluster.md").read_text()
BIN = Path(sys.executable).parent
WORKERS = 3


def commands(program):
    """The commands on the page that start with a program, in code blocks and in text."""
    return re.findall(rf"(?:^|`)({program} [^`\n]*)", PAGE, re.MULTILINE)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def running(command, **env):
    """Run a command until the block ends, then end it with its child processes."""
    process = subprocess.Popen(
        [str(BIN / command.split()[0]), *command.split()[1:]],
        env={**os.environ, **env},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def wait_for(port, seconds=30.0):
    end = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1.0).close()
            return
        except OSError:
            assert time.monotonic() < end
            time.sleep(0.1)


@pytest.fixture(scope="module")
def dask_address():
    """A scheduler and workers, started as on the page."""
    port = free_port()
    scheduler, worker = commands("dask")
    with ExitStack() as stack:
        quiet = "--dashboard-address 127.0.0.1:0"
        scheduler = scheduler.replace("8786", str(port))
        stack.enter_context(running(f"{scheduler} --host 127.0.0.1 {quiet}"))
        wait_for(port)
        worker = worker.replace("scheduler:8786", f"127.0.0.1:{port}").replace("16", str(WORKERS))
        stack.enter_context(running(f"{worker} {quiet}"))
        yield f"tcp://127.0.0.1:{port}"
        rolf.parallel.shutdown()


def test_the_page(dask_address, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    space = {"__name__": "__main__"}
    code = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert sum("address=" in block for block in code) == 2
    for block in code:
        exec(block.replace("tcp://scheduler:8786", dask_address), space)


def test_the_command_of_the_page(dask_address, tmp_path):
    (tmp_path / "plan.toml").write_text('rounds = 50\nruns = 4\n[policies]\nucb = "ucb"\n')
    line = re.search(r"`(rolf simulate plan.toml --backend dask [^`]*)`", PAGE)[1]
    words = line.replace("tcp://scheduler:8786", dask_address).split()
    done = subprocess.run(
        [BIN / words[0], *words[1:]], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    result = rolf.load_result(tmp_path / "out" / "plan.parquet")
    same = rolf.simulate({"ucb": "ucb"}, rolf.environments.paper(), rounds=50, runs=4, seed=0)
    assert (result.regret == same.regret).all()


KILLING = """
import os, signal, sys, time
import rolf
from rolf.parallel import completed

def process(task):
    time.sleep(0.1)
    return os.getpid()

if __name__ == "__main__":
    where = {"backend": sys.argv[1], "address": sys.argv[2]}
    workers = set()
    while len(workers) < 3:
        workers |= set(dict(completed(process, range(12), **where)).values())
    seen = []

    def advance(label):
        seen.append(label)
        if len(seen) == 10:
            os.kill(min(workers), signal.SIGKILL)

    plan, family = {"ridge": "rolf-ridge", "ucb": "ucb"}, rolf.environments.paper(arms=6, size=8)
    game = {"rounds": 2000, "runs": 60, "seed": 3}
    there = rolf.simulate(plan, family, **game, **where, progress=advance)
    here = rolf.simulate(plan, family, **game)
    assert len(seen) == 120
    assert (there.regret == here.regret).all()
    print("same")
"""


@pytest.mark.parametrize("backend", ["dask", "ray"])
def test_a_worker_is_killed_in_the_middle(backend, request, tmp_path):
    address, env = request.getfixturevalue(f"{backend}_cluster")
    script = tmp_path / "script.py"
    script.write_text(KILLING)
    done = subprocess.run(
        [sys.executable, script, backend, address],
        capture_output=True,
        text=True,
        env={**os.environ, **env},
    )
    assert done.stdout.splitlines()[-1:] == ["same"], done.stderr


@pytest.fixture
def dask_cluster(dask_address):
    return dask_address, {}


@pytest.fixture
def ray_cluster():
    """A Ray cluster on one machine, started as on the page, with its own token."""
    port, env = free_port(), {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": uuid.uuid4().hex}
    start = commands("ray start --head")[0].replace("6379", str(port))
    quiet = "--block --num-cpus=3 --include-dashboard=false --disable-usage-stats"
    with running(f"{start} {quiet}", **env):
        wait_for(port)
        yield f"127.0.0.1:{port}", env
