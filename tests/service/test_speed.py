"""The benchmark of the service runs, and finds what is promised."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "service.py"


def run(*flags):
    words = [sys.executable, str(SCRIPT), *flags]
    done = subprocess.run(words, env=dict(os.environ), capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_asks_and_tells_keep_up_with_empty_requests():
    """With PostgreSQL at 40% of their rate or more, and 1% of them slower than ten times theirs."""
    shown = run("--seconds", "1", "--blocks", "3")
    for name in ("SQLite", "PostgreSQL"):
        assert re.search(rf"^{name} +empty +\d+ requests/s +p50", shown, re.MULTILINE)
    assert len(re.findall(r"ratio +requests [\d.]+, pairs [\d.]+, p99 [\d.]+ times", shown)) == 2


@pytest.mark.slow
def test_a_short_soak():
    shown = run("--soak", "6", "--connections", "2")
    assert re.search(r"memory [+-][\d.]+ MB per minute, [+-][\d.]+%", shown)
