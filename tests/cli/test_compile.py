"""``rolf compile``: two processes share the work and compile every policy once."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import rolf
from rolf.cli import policies as catalogue
from rolf.kernel.folders import cache_folders
from rolf.policies.catalogue import CATALOG
from support.commands import invoke

# Stands in for compiling: records which process got which policy, and blocks each process until
# the other has received its first.
RECORDING = """
import os, sys, time
from pathlib import Path
import rolf.cli.policies as catalogue

log = Path(os.environ["ROLF_TEST_LOG"])

def record(name):
    with log.open("a") as file:
        file.write(f"{os.getpid()} {name}\\n")
    end = time.monotonic() + 20
    while len({line.split()[0] for line in log.read_text().splitlines()}) < 2:
        if time.monotonic() > end:
            sys.exit("the other process never got a policy")
        time.sleep(0.01)

catalogue.compile_one = record
"""

WALK = Path(__file__).parents[1] / "support" / "compile_walk.py"


@pytest.fixture
def log(tmp_path, monkeypatch):
    path = tmp_path / "log"
    monkeypatch.setenv("ROLF_TEST_LOG", str(path))
    monkeypatch.setattr(catalogue, "WORKER", RECORDING + catalogue.WORKER)
    return path


def recorded(log):
    return [tuple(line.split()) for line in log.read_text().splitlines()]


@pytest.mark.parametrize("names", [(), ("ucb", "lints"), ("ucb", "oful", "ucb", "rolf-lasso")])
def test_two_processes_share_all_policies(names, log):
    done = invoke("compile", *names)
    assert done.exit_code == 0, done.output
    expected = list(dict.fromkeys(names or CATALOG))
    order = [name for _, name in recorded(log)]
    assert sorted(order) == sorted([*expected, "status"])
    assert len({process for process, _ in recorded(log)}) == 2
    slowest = [name for name in catalogue.SECONDS if name in expected]
    assert set(order[:2]) == set((slowest + [name for name in expected if name not in slowest])[:2])
    assert done.stdout.startswith(f"compiled: {', '.join(expected)} (")


@pytest.mark.parametrize("end", ["raise ValueError(name)", "os.kill(os.getpid(), 9)"])
def test_a_process_that_fails_or_is_killed_is_reported(end, log, monkeypatch):
    failing = f"""
def fail(name):
    record(name)
    if name == "lints":
        {end}

catalogue.compile_one = fail
"""
    worker = catalogue.WORKER.replace(RECORDING, RECORDING + failing)
    monkeypatch.setattr(catalogue, "WORKER", worker)
    done = invoke("compile", "ucb", "lints", "oful")
    assert isinstance(done.exception, rolf.RolfError)
    assert "compilation failed" in str(done.exception)
    assert "compiled" not in done.stdout


def test_an_unknown_policy_starts_no_process(monkeypatch):
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("started"))
    assert isinstance(invoke("compile", "ucb", "ucbb").exception, rolf.RolfError)


def test_one_policy_is_compiled_and_named():
    done = invoke("compile", "ucb")
    assert done.exit_code == 0, done.output
    assert re.fullmatch(
        r"ucb: (up to date|\d+ functions? compiled in .* s)\nstatus: .*\ncompiled: ucb \(\d+ s\)\n",
        done.stdout,
    )


@pytest.mark.slow
def test_compiled_code_is_not_compiled_again(tmp_path):
    """With an empty cache, both processes really compile, and a later one finds everything."""
    cache = tmp_path / "cache"

    def python(code):
        command = [sys.executable, "-c", code]
        environment = {**os.environ, "ROLF_CACHE_DIR": str(cache)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done

    def files():
        return {path: path.stat().st_mtime_ns for path in cache.rglob("*") if path.is_file()}

    code = 'from rolf.cli import policies; policies._compile_in_parallel(["ucb", "ucb1"])'
    done = python(code)
    for name in ("ucb", "ucb1"):
        assert re.search(rf"^{name}: \d+ functions? compiled in", done.stdout, re.MULTILINE)
        assert f"rolf: {name} on fixed features compiled" in done.stderr
    compiled = files()
    assert compiled
    play = """
import rolf
policies = {"ucb": "ucb", "ucb1": "ucb1"}
rolf.simulate(policies, rolf.environments.paper(arms=5, size=6), rounds=5, runs=1, seed=0)
"""
    assert python(play).stderr == ""
    assert files() == compiled
    assert sorted(python(code).stdout.splitlines()) == ["ucb1: up to date", "ucb: up to date"]


@pytest.mark.slow
def test_afterwards_no_process_compiles_anything():
    """Every policy and every option, online, in experiments, in simulations and in replay."""
    assert invoke("compile").exit_code == 0  # does nothing if make test has already compiled
    command = [sys.executable, str(WALK)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "done\n"


@pytest.mark.slow
def test_the_walk_notices_uncompiled_code(tmp_path):
    code = cache_folders({"rolf.types"}, set()).read[0]
    left = shutil.copytree(code, tmp_path / "cache" / code.name)
    for file in left.glob("largest_rates-*.code"):
        file.unlink()
    command = [
        sys.executable,
        str(Path(__file__).parents[1] / "support" / "compile_walk.py"),
        "kl-ucb",
    ]
    environment = {**os.environ, "ROLF_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    expected = "online kl-ucb {} compiled largest rates, online\ndone\n"
    assert done.stdout == expected, done.stderr
