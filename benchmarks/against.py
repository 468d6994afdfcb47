"""The library of another commit, for ``--against``: its sources in a temporary folder.

It runs with this interpreter and the installed packages, with its sources first in PYTHONPATH. The
benchmark's own file is the same in both cases, so it may only use what both commits have.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
#: the ``rolf`` command of the library in PYTHONPATH
COMMAND = "import sys; sys.argv[0] = 'rolf'; from rolf.cli import main; main()"


class Library(NamedTuple):
    """A commit's library: its name in tables, and the folder of its repository."""

    name: str
    root: Path

    def environment(self, **settings: str) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(self.root / "src"), **settings}


class Usage(NamedTuple):
    """The cost of a process with its children: seconds, CPU seconds, MiB of the largest process;
    and its output."""

    wall: float
    cpu: float
    peak: float
    output: str


OURS = Library("here", ROOT)


@contextmanager
def libraries(revision: str | None) -> Iterator[list[Library]]:
    """This library and, if a commit is named, that commit's."""
    if revision is None:
        yield [OURS]
        return
    command = ["git", "-C", str(ROOT), "archive", "--format=tar", revision]
    archive = subprocess.run(command, check=True, capture_output=True).stdout
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            files.extractall(folder, filter="data")
        yield [OURS, Library(revision[:10], Path(folder))]


def run(library: Library, code: str, *args: str, cache: str, cwd: str | None = None) -> Usage:
    """Run Python code with a library in a new process."""
    command = [sys.executable, "-P", "-c", code, *args]
    start = time.perf_counter()
    settings = library.environment(ROLF_CACHE_DIR=cache)
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True, env=settings, cwd=cwd
        )
        assert process.stdout is not None
        with process.stdout:
            output = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)  # subprocess does not report usage
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            log.seek(0)
            raise RuntimeError(f"{library.name}: {log.read()[-2000:]}")
    wall = time.perf_counter() - start
    return Usage(wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, output)


def recipe(library: Library, target: str) -> list[Sequence[str]]:
    """The arguments of ``rolf`` in the Makefile's recipe of a target."""
    lines = (library.root / "Makefile").read_text().splitlines()
    start = next(place for place, line in enumerate(lines) if line.startswith(f"{target}:"))
    commands = []
    for line in lines[start + 1 :]:
        if not line.startswith("\t"):
            break
        if line.startswith("\t$(BIN)/rolf "):
            commands.append(line.split()[1:])
    return commands
