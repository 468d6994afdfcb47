"""The documentation runs: Python and rolf on every page, and the policy of CONTRIBUTING."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import rolf
from rolf.policies import catalogue, registry
from rolf.simulation import config as plans
from rolf.sweeps.config import KEYS

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
#: pages, and blocks of others, that need a running service: tests/docs/test_clients.py runs them
SERVED, SERVICE = ["clients.md"], "service"
SHELL = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```python([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(path):
    return [(m[1].strip(), m[2]) for m in BLOCK.finditer(path.read_text())]


#: tests/parallel/test_clusters.py starts the cluster of that page
HERE = [page for page in PAGES if page.name not in ("cluster.md", *SERVED)]


@pytest.mark.parametrize("page", HERE, ids=lambda p: p.name)
def test_page(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    space = {"__name__": "__main__"}
    for kind, code in blocks(page):
        if kind == SERVICE:
            continue
        exec(compile(code, str(page), "exec"), space)
    for code in SHELL.findall(page.read_text()):
        if re.search(r"^rolf ", code, re.MULTILINE):
            shell(code)


def shell(code):
    """Run a block as printed, with the command that is installed in this environment."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    words = ["bash", "-eu", "-o", "pipefail", "-c", code]
    done = subprocess.run(words, env={**os.environ, "PATH": path}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "note:" not in done.stderr


def test_a_block_that_fails_is_noticed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AssertionError, match="no experiment named 'none'"):
        shell("rolf ask sqlite:///x.db none | cat\ntrue\n")


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda p: p.name)
def test_links_point_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_scripts_named_in_the_pages_exist():
    for page in (*PAGES, ROOT / "CONTRIBUTING.md"):
        for script in re.findall(r"(?:benchmarks|tests|examples)/[\w.]+", page.read_text()):
            assert (ROOT / script).exists(), f"{page.name} names {script}"


def test_the_policy_of_contributing(tmp_path, monkeypatch):
    """One file and one line: then it is compiled, saved, merged and listed like any other."""
    code = dict(blocks(ROOT / "CONTRIBUTING.md"))
    name, target = re.search(r'"([^"]+)": "([^"]+)"', code["line"]).groups()
    (tmp_path / "egreedy.py").write_text(code["file=egreedy.py"])
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("ROLF_CACHE_DIR", str(tmp_path / "cache"))
    assert target.partition(":")[0] == "rolf.policies.egreedy"
    monkeypatch.setitem(catalogue.CATALOG, name, "egreedy:" + target.partition(":")[2])
    family = rolf.environments.paper(arms=6, size=8)
    plan = {"e": (name, {"epsilon": 0.2})}
    fast = rolf.simulate(plan, family, rounds=200, runs=2, seed=0)
    slow = rolf.simulate(plan, family, rounds=200, runs=2, seed=0, compiled=False)
    assert (fast.regret == slow.regret).all()
    policy = rolf.policy_class(name)(np.eye(3), seed=0)
    policy.tell_many(zip(policy.ask_many(5), [1.0, 2.0, 3.0, 4.0, 5.0], strict=True))
    again = rolf.Policy.from_dict(policy.to_dict())
    assert [again.ask().arm for _ in range(20)] == [policy.ask().arm for _ in range(20)]
    merged = rolf.Policy.from_dict(rolf.Policy.merge(policy.to_dict(), seed=1))
    assert np.allclose(merged.estimates(), policy.estimates())
    with pytest.raises(rolf.RolfError, match="epsilon"):
        rolf.policy_class(name)(np.eye(3), epsilon=2.0)
    rolf.testing.check_policy(type(policy))
    sys.modules.pop("egreedy")
    registry.named.pop(name)


def test_the_catalogue_is_documented():
    text = (ROOT / "docs" / "decide" / "policies.md").read_text()
    for cls in rolf.policy_classes():
        assert f"`{cls.name}`" in text
        assert f"`{cls.__name__}`" in text


@pytest.mark.slow
def test_an_edit_in_a_second_file_of_a_users_policy_is_noticed(tmp_path):
    """Compiled code is kept between processes, but only as long as its sources stay the same."""
    code = dict(blocks(ROOT / "CONTRIBUTING.md"))["file=egreedy.py"]
    code = code.replace("from rolf.arms", "from chance import chance\nfrom rolf.arms", 1)
    code = code.replace("return schedule.value", "return chance(schedule.value)")
    (tmp_path / "egreedy.py").write_text(code)
    script = """
import egreedy, rolf
plan, family = {"e": egreedy.EpsilonGreedy}, rolf.environments.paper(arms=6, size=8)
for compiled in (True, False):
    out = rolf.simulate(plan, family, rounds=300, runs=1, seed=0, compiled=compiled)
    print(out.regret[0, 0, -1])
"""
    env = {**os.environ, "ROLF_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(tmp_path)}
    seen = []
    for factor in ("1.0", "9.0"):
        helper = "from rolf.kernel import shared\n\n\n@shared\ndef chance(x):\n    return x * {}\n"
        (tmp_path / "chance.py").write_text(helper.format(factor))
        done = subprocess.run(
            [sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True
        )
        fast, slow = done.stdout.split()
        assert fast == slow
        seen.append(fast)
    assert seen[0] != seen[1]


def test_every_key_of_a_simulation_is_documented():
    text = (ROOT / "docs" / "research" / "simulate.md").read_text()
    rows = {
        cells[0].strip("`[]"): re.findall(r"`(\w+)`", cells[1])
        for cells in (
            [cell.strip() for cell in line.strip("|").split("|")]
            for line in text.splitlines()
            if line.startswith("| `")
        )
    }
    assert set(plans.SimulationPlan._fields) <= set(rows)
    for family, name in plans.FAMILIES.items():
        keys = inspect.signature(getattr(rolf.environments, name)).parameters
        assert rows[family] == list(keys), family


def test_every_key_of_a_sweep_is_documented():
    text = (ROOT / "docs" / "research" / "sweep.md").read_text()
    rows = re.findall(r"^\| `\[?(\w+)", text[: text.index("## From Python")], re.MULTILINE)
    assert rows == list(KEYS)


def test_promises_name_tests_that_exist():
    page = (ROOT / "docs" / "production" / "experiments.md").read_text()
    promises = page[page.index("## Promises") : page.index("## The log is the source of truth")]
    sources = [
        *(ROOT / "tests").rglob("test_*.py"),
        ROOT / "src" / "rolf" / "testing" / "storage.py",
    ]
    names = {path.relative_to(ROOT).as_posix() for path in sources}
    for path in sources:
        names |= set(re.findall(r"def (test_\w+)", path.read_text()))
    named = set(re.findall(r"`((?:tests/|test_)[\w./]+)`", promises))
    assert len(named) > 20
    named |= set(
        re.findall(
            r"`((?:tests/|test_)[\w./]+)`", (ROOT / "docs" / "research" / "sweep.md").read_text()
        )
    )
    assert named <= names
