"""Every benchmark and every script of the documentation runs, with ``--quick``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.browser import needs_chromium

ROOT = Path(__file__).parents[2]
FOLDERS = ("benchmarks", "docs/scripts")
FILES = [path for folder in FOLDERS for path in sorted((ROOT / folder).glob("*.py"))]
SCRIPTS = [path for path in FILES if '__name__ == "__main__"' in path.read_text()]
NEEDS = {"page_picture.py": [needs_chromium]}


def changed_files() -> str:
    """What differs from the last commit, and what git does not know."""
    command = ["git", "status", "--porcelain", "--", *FOLDERS, "docs", "examples"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    "script",
    [
        pytest.param(path, id=str(path.relative_to(ROOT)), marks=NEEDS.get(path.name, []))
        for path in SCRIPTS
    ],
)
def test_a_quick_run_ends_well_and_changes_no_file(script, tmp_path):
    before = changed_files()
    done = subprocess.run(
        [sys.executable, str(script), "--quick"],
        cwd=tmp_path,
        env={**os.environ, "MPLBACKEND": "Agg"},
        capture_output=True,
        text=True,
        timeout=300.0,
    )
    assert done.returncode == 0, done.stderr
    assert changed_files() == before
    assert not list(tmp_path.iterdir())


def test_a_file_that_is_no_script_is_used_by_one_or_by_the_site():
    texts = [path.read_text() for path in SCRIPTS] + [(ROOT / "mkdocs.yml").read_text()]
    for path in set(FILES) - set(SCRIPTS):
        used = f"from {path.stem} import", f"import {path.stem}\n", path.name
        assert any(words in text for text in texts for words in used), path


def test_other_rules_for_the_benchmark_of_regret_find_the_best_arm(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    from rules import RULES

    for name, build in RULES.items():
        policy = build([[0.0], [1.0], [2.0]], seed=1)
        arms = set()
        for round in range(30):
            decision = policy.ask()
            policy.tell(decision, 0.1 * decision.arm + 0.01 * (round % 3))
            arms.add(decision.arm)
        assert policy.estimates().argmax() == 2, name
        assert arms == {0, 1, 2}, name
