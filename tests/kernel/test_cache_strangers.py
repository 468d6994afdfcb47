"""Compiled code for an unknown user without a home."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from support.helpers import as_root

STRANGER = """
import os, resource, sys, warnings
import rolf
from rolf.kernel import compiled

# What compiling and asking import is imported while this process may still read it.
rolf.open_experiment("memory://", "first", features=[[0.0], [1.0]], policy="ucb").ask()
os.environ["ROLF_CACHE_DIR"], chosen = sys.argv[1], os.environ.get("ROLF_CACHE_DIR")
compiled(abs_twice := lambda x: abs(x) + abs(x), title="first")(1.0)
rolf.policy_class("kl-ucb")
os.environ.pop("ROLF_CACHE_DIR")
if chosen:
    os.environ["ROLF_CACHE_DIR"] = chosen
import tempfile
tempfile.tempdir = None

if sys.argv[2] == "nothing can be written":
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
os.setgroups([])
os.setgid(12345)
os.setuid(12345)
warnings.simplefilter("error")
for name in ("one", "two"):
    experiment = rolf.open_experiment("memory://", name, features=[[0.0], [1.0]], policy="kl-ucb")
    experiment.tell(experiment.ask(), 1.0)
print("asked")
"""


@as_root
@pytest.mark.parametrize("place", ["the folder for temporary files", "nothing can be written"])
def test_an_unknown_user_asks(place, tmp_path, public):
    """No HOME, and a user id without an entry: compiled in memory, if need be, with one word."""
    temporary = public / "temporary"
    temporary.mkdir()
    temporary.chmod(0o1777)
    path = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", STRANGER, str(tmp_path / "cache"), place],
        env={"PYTHONPATH": path, "TMPDIR": str(temporary)},
        cwd="/",
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (0, "asked\n"), done.stderr
    told = done.stderr.count("compiled code cannot be kept")
    kept = list(temporary.glob("rolf-12345/*/largest_rates-*.code"))
    assert (told, len(kept)) == ((0, 1) if place == "the folder for temporary files" else (1, 0))


@as_root
def test_an_unknown_user_reads_what_root_compiled(tmp_path, public):
    """As in a container whose image was compiled by root and is read-only."""
    image = public / "image"
    environment = {"PYTHONPATH": os.pathsep.join(sys.path), "ROLF_CACHE_DIR": str(image)}
    code = (
        "import rolf; from rolf.policies.warm import warm\n"
        'warm(rolf.policy_class("kl-ucb")([[0.0], [1.0]], seed=0))'
    )
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True)
    done = subprocess.run(
        [sys.executable, "-c", STRANGER, str(tmp_path / "cache"), "nothing can be written"],
        env=environment,
        cwd="/",
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (0, "asked\n"), done.stderr
    assert "largest rates" not in done.stderr
    assert "cannot be kept" not in done.stderr
