"""``rolf policies`` and ``rolf compile``."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Annotated

import typer

from rolf.cli.common import POLICY, make_table, print_table
from rolf.errors import RolfError
from rolf.text import counted

commands = typer.Typer()

PROCESSES = 2
#: name for the code behind the status of an experiment, the same for every policy
STATUS = "status"
#: rough compile times, used to start slow policies first; fast ones are not listed
SECONDS = {
    "rolf-bayes": 60.0,
    "rolf-bayes-varying": 50.0,
    "rolf-lasso": 30.0,
    "rolf-varying": 10.0,
    "rolf-ridge": 9.0,
    "linucb": 8.0,
    "lints": 8.0,
    "linucb-varying": 7.0,
}
#: script that compiles policies until the queue on standard input is empty: one byte per policy
WORKER = """
import os, sys
from rolf.cli.policies import compile_one
from rolf.cli.common import log_shown
with log_shown():
    while position := os.read(0, 1):
        compile_one(sys.argv[1 + position[0]])
"""


@commands.command()
def policies(
    name: Annotated[str | None, typer.Argument(help=f"{POLICY}.")] = None,
) -> None:
    """List the catalogue of policies, or show the options of one policy."""
    from rolf.policies.registry import option_names, policy_class, policy_classes, policy_name

    if name is None:
        rows = (
            (cls.name, cls.__name__, cls.summary, ", ".join(option_names(cls) or []))
            for cls in policy_classes()
        )
        header = ("name", "class", "what it is", "options")
        print_table(make_table(header, rows, text=header))
        return
    cls = policy_class(name)
    summary = f": {cls.summary}" if cls.summary else ""
    typer.echo(f"{cls.__name__} ({policy_name(cls)}){summary}\n")
    typer.echo(inspect.getdoc(cls) or "")
    defaults = [
        f"{parameter.name}={parameter.default!r}"
        for parameter in inspect.signature(cls).parameters.values()
        if parameter.default is not parameter.empty
    ]
    typer.echo("\nDefaults: " + ", ".join(defaults))


@commands.command("compile")
def compile_policies(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Policies, named as in rolf policies; by default all."),
    ] = None,
) -> None:
    """Compile policies now, two at a time, so that nothing waits for it later.

    This covers every option, online, in simulations and in replay.
    """
    from rolf.policies.catalogue import CATALOG
    from rolf.policies.registry import policy_class

    chosen = list(dict.fromkeys(names or CATALOG))
    for name in chosen:
        policy_class(name)
    start = time.perf_counter()
    if len(chosen) == 1:
        compile_one(chosen[0])
        compile_one(STATUS)
    else:
        _compile_in_parallel([*chosen, STATUS])
    typer.echo(f"compiled: {', '.join(chosen)} ({time.perf_counter() - start:.0f} s)")


def compile_one(name: str) -> None:
    """Compile a policy, or the code behind the status, and print what was compiled."""
    from rolf.kernel.disk_cache import compilations
    from rolf.policies.warm import warm_posterior
    from rolf.simulation.loop import compile_policy

    before, start = len(compilations), time.perf_counter()
    if name == STATUS:
        warm_posterior()
    else:
        compile_policy(name)
    count, took = len(compilations) - before, time.perf_counter() - start
    functions = counted(count, "function")
    typer.echo(f"{name}: {functions} compiled in {took:.1f} s" if count else f"{name}: up to date")


def _compile_in_parallel(names: Sequence[str]) -> None:
    """Let each process take the next policy until none are left.

    Numba compiles one thing at a time per process. The queue is a pipe that all processes read
    from; it holds the positions of the names, slowest first, so that the processes finish at about
    the same time.
    """
    names = sorted(names, key=lambda name: -SECONDS.get(name, 0.0))
    queue, feed = os.pipe()
    os.write(feed, bytes(range(len(names))))
    os.close(feed)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-P", "-c", WORKER, *names]
    workers = []
    try:
        for _ in range(PROCESSES):
            workers.append(subprocess.Popen(command, stdin=queue, env=environment))
        codes = [worker.wait() for worker in workers]
    finally:
        os.close(queue)
        for worker in workers:
            worker.terminate()  # after an interrupt; harmless if it has ended
    if any(codes):
        raise RolfError("compilation failed; the lines above say why")
