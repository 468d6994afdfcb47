"""``rolf backup``, ``restore``, ``list`` and ``delete``."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import rolf
from rolf.testing.storage import create_experiment, play
from support.stores import quick_folder


def run(*arguments, code=0, typed=""):
    command = [sys.executable, "-c", "from rolf.cli import main; main()", *map(str, arguments)]
    done = subprocess.run(
        command, input=typed, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


@pytest.mark.slow
def test_backup_restore_list_and_delete():
    path = quick_folder("rolf-copy") / "experiments.db"
    url, copy = f"sqlite:///{path}", path.with_name("copy.db")
    for name in ("one", "two"):
        play(create_experiment(url, name, policy="ucb"), 2)
    assert run("list", url).split() == ["one", "two"]
    assert "2 experiments: one, two" in run("backup", url, copy)
    assert "does not exist yet" in run("backup", url, copy, code=1)
    assert "named 'one', 'two' already exist" in run("restore", copy, url, code=1)
    assert "confirm" in run("delete", url, "one", "--confirm", "two", code=1)
    assert "deleted: one" in run("delete", url, "one", typed="one\n")
    assert run("list", url).split() == ["two"]
    assert "1 experiment: one" in run("restore", copy, url, "--name", "one")
    assert json.loads(run("list", url, "--json")) == ["one", "two"]
    assert rolf.open_experiment(url, "one").status().told == 2
    assert "no experiment named 'none'" in run("delete", url, "none", "--confirm", "none", code=1)
