"""Policies outside the catalogue, named on the command line."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import rolf
from rolf.cli import policies as catalogue
from support.commands import one_line_error

MODULE = '''
"""Optimism whose width depends on the number of rewards alone."""

from typing import Any, NamedTuple

import numpy as np

from rolf import Policy
from rolf.arms.table import Arms
from rolf.estimators.means import ArmMeans
from rolf.kernel import implement
from rolf.policies.core.parts import Params
from rolf.policies.core.rules import Optimistic, bounds, unseen_first


class Bonus(NamedTuple):
    size: float


def _bounds(bonus, now, round):
    counts, estimates = now.belief.counts, now.belief.estimates
    upper = estimates + bonus.size / np.sqrt(np.maximum(counts, 1.0))
    return estimates, unseen_first(counts, upper)


implement(Bonus, {bounds: _bounds})


class MyPolicy(Policy):
    """Plays the arm with the largest bonus."""

    def __init__(self, features: Any, *, size: float = 1.0, seed: Any = None) -> None:
        arms = Arms.read(features)
        super().__init__(arms, Params(ArmMeans(arms.count), Optimistic(Bonus(size))), seed)


class Fixed:
    def ask(self):
        return 0
'''
PLAN = """
rounds = 30
runs = 2

[problem]
arms = 4
size = 5

[policies]
"by reference" = "mine:MyPolicy"
"with an option" = { policy = "mine:MyPolicy", size = 0.1 }
"by entry point" = "my-policy"
"""
ITEMS = "item,width,length\na,1.0,0.5\nb,0.2,1.5\nc,2.0,1.0\nd,0.4,0.3\n"
URL = "sqlite:///x.db"


@pytest.fixture
def folder(tmp_path):
    """A working directory with a policy in a file."""
    (tmp_path / "mine.py").write_text(MODULE)
    (tmp_path / "csv.py").write_text("raise RuntimeError('a file must not hide a module')")
    (tmp_path / "items.csv").write_text(ITEMS)
    (tmp_path / "plan.toml").write_text(PLAN)
    return tmp_path


@pytest.fixture
def entry_point(folder):
    """The same policy as an entry point of a package."""
    package = folder / "mine-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text("[rolf.policies]\nmy-policy = mine:MyPolicy\n")
    return "my-policy"


@pytest.fixture
def rolf_command(folder):
    """Run commands as the installed script does, without the working directory on the path."""

    def run(*words):
        code = "from rolf.cli import main; main()"
        command = [sys.executable, "-P", "-c", code, *map(str, words)]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_an_experiment(rolf_command, folder):
    words = ("--features", "items.csv", "--options", '{"size": 0.5}', "--seed", 1)
    rolf_command("new", URL, "x", "--policy", "mine:MyPolicy", *words)
    decisions = json.loads(rolf_command("ask", URL, "x", "-n", 8, "--json"))
    lines = [f"{each['id']},{'abcd'.index(each['arm'])}" for each in decisions]
    (folder / "rewards.csv").write_text("\n".join(["id,reward", *lines]))
    rolf_command("tell", URL, "x", "--csv", "rewards.csv")
    status = json.loads(rolf_command("status", URL, "x", "--json"))
    assert (status["policy"], status["options"]) == ("mine:MyPolicy", {"size": 0.5})
    assert (status["asked"], status["told"]) == (8, 8)
    assert {each["arm"] for each in decisions} == set("abcd")  # an arm without rewards comes first
    rolf_command("export", URL, "x", "log.csv")
    rolf_command("import", URL, "y", "log.csv", "--policy", "mine:MyPolicy", *words)
    learned = json.loads(rolf_command("status", URL, "y", "--json"))
    assert (learned["policy"], learned["history"]) == ("mine:MyPolicy", 8)


def test_an_entry_point(rolf_command, entry_point):
    rolf_command("new", URL, "x", "--policy", entry_point, "--features", "items.csv")
    assert "x: my-policy; 0 asked" in rolf_command("status", URL, "x")
    shown = rolf_command("policies", "mine:MyPolicy")
    assert shown.startswith("MyPolicy (my-policy)\n\nPlays the arm with the largest bonus.")
    assert "size=1.0" in shown


def test_replay(rolf_command, folder):
    rows = [f"{'abcd'[i % 4]},0.25,{i % 4}" for i in range(200)]
    (folder / "log.csv").write_text("\n".join(["arm,probability,reward", *rows]))
    words = ("--policy", "mine:MyPolicy", "--options", '{"mine:MyPolicy": {"size": 0.5}}')
    result = json.loads(rolf_command("replay", "log.csv", "items.csv", *words, "--json"))
    values = {row["estimator"]: row["value"] for row in result["rows"]}
    assert values["ips"] == pytest.approx(3.0)  # it learned to play the best arm


@pytest.mark.slow
def test_simulate_and_compile(rolf_command, folder, entry_point, monkeypatch):
    monkeypatch.setenv("ROLF_CACHE_DIR", str(folder / "cache"))
    assert "by reference" in rolf_command("simulate", "plan.toml")
    result = rolf.load_result(folder / "out" / "plan.parquet")
    assert result.labels == ["by reference", "with an option", "by entry point"]
    names = ("mine:MyPolicy", entry_point)
    monkeypatch.setattr(catalogue, "STATUS", entry_point)  # once more, rather than 20 seconds
    assert f"compiled: {', '.join(names)} (" in rolf_command("compile", *names)


@pytest.mark.parametrize(
    ("policy", "missing"),
    [
        ("nowhere:MyPolicy", "No module named 'nowhere'"),
        ("mine:Nothing", "no attribute 'Nothing'"),
        ("mine:Fixed", "a subclass of rolf.Policy"),
        ("my-polic", "package.module:Class, an entry point, or one of"),
    ],
)
@pytest.mark.parametrize("command", ["new", "replay", "simulate", "policies", "compile"])
def test_a_wrong_reference_is_one_line(command, policy, missing, folder, monkeypatch, capsys):
    (folder / "plan.toml").write_text(f'[policies]\nmine = "{policy}"\n')
    (folder / "log.csv").write_text("arm,probability,reward\n" + "a,0.25,1\nb,0.25,0\n" * 10)
    words = {
        "new": [URL, "x", "--features", "items.csv", "--policy", policy],
        "replay": ["log.csv", "items.csv", "--policy", policy],
        "simulate": ["plan.toml"],
        "policies": [policy],
        "compile": [policy],
    }
    if policy == "mine:Fixed" and command in ("replay", "simulate"):
        missing = "a class with ask and tell"
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    shown = one_line_error(monkeypatch, capsys, command, *words[command])
    assert shown.startswith("rolf: polic")
    assert missing in shown
    assert repr(policy) in shown
    assert shown.count("\n") == 1
    assert not (folder / "x.db").exists()
