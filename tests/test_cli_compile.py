"""``rolf compile``: two processes that together compile every policy once."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import rolf
from rolf.cli import catalogue
from rolf.policies.catalogue import CATALOG
from test_cli import run

# Stands in for compiling: records which process got which policy, and holds each process back
# until the other one has got its first.
RECORDING = """
import os, sys, time
from pathlib import Path
import rolf.simulation.loop as loop

log = Path(os.environ["ROLF_TEST_LOG"])

def record(names):
    with log.open("a") as file:
        file.writelines(f"{os.getpid()} {name}\\n" for name in names)
    end = time.monotonic() + 20
    while len({line.split()[0] for line in log.read_text().splitlines()}) < 2:
        if time.monotonic() > end:
            sys.exit("the other process has got no policy")
        time.sleep(0.01)

loop.compile_all = record
"""


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
    done = run("compile", *names)
    assert done.exit_code == 0, done.output
    expected = list(dict.fromkeys(names or CATALOG))
    assert sorted(name for _, name in recorded(log)) == sorted(expected)
    assert len({process for process, _ in recorded(log)}) == 2
    assert done.stdout == f"compiled: {', '.join(expected)}\n"


@pytest.mark.parametrize("end", ["raise ValueError(names)", "os.kill(os.getpid(), 9)"])
def test_a_process_that_fails_or_is_killed_is_reported(end, log, monkeypatch):
    failing = f"""
def fail(names):
    record(names)
    if "lints" in names:
        {end}

loop.compile_all = fail
"""
    worker = catalogue.WORKER.replace(RECORDING, RECORDING + failing)
    monkeypatch.setattr(catalogue, "WORKER", worker)
    done = run("compile", "ucb", "lints", "oful")
    assert isinstance(done.exception, rolf.RolfError)
    assert "compilation failed" in str(done.exception)
    assert "compiled" not in done.stdout


def test_an_unknown_policy_starts_no_process(monkeypatch):
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("started"))
    assert isinstance(run("compile", "ucb", "ucbb").exception, rolf.RolfError)


def test_one_policy_is_compiled_and_named():
    done = run("compile", "ucb")
    assert done.exit_code == 0, done.output
    assert done.stdout == "compiled: ucb\n"


def test_what_is_compiled_is_not_compiled_again(tmp_path):
    """With an empty cache: both processes really compile, and a later one finds everything."""
    cache = tmp_path / "cache"

    def python(code):
        command = [sys.executable, "-c", code]
        environment = {**os.environ, "ROLF_CACHE_DIR": str(cache)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done

    def files():
        return {path: path.stat().st_mtime_ns for path in cache.rglob("*") if path.is_file()}

    code = 'import sys; sys.argv = ["rolf", "compile", "ucb", "ucb1"]; import rolf.cli as cli; '
    done = python(code + "cli.main()")
    assert done.stdout == "compiled: ucb, ucb1\n"
    for name in ("ucb", "ucb1"):
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
