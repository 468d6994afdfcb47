"""Simulation: every policy against the problem of every run.

The result depends neither on the number of workers nor on the other policies (``runs.py``).
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from rolf.checks import whole
from rolf.environments.problem import Family, Problem
from rolf.errors import InvalidArgument, RolfWarning
from rolf.parallel import check_backend, completed
from rolf.parallel.worker import pickled
from rolf.policies.policy import Policy
from rolf.progress import progress_bar
from rolf.simulation.entries import Entry, describe, read_policies
from rolf.simulation.result import Result, versions
from rolf.simulation.runs import Runs
from rolf.types import IntArray


def simulate(
    policies: Mapping[str, Any],
    problem: Problem | Family,
    *,
    rounds: int = 1200,
    runs: int = 5,
    seed: int | None = None,
    jobs: int | None = None,
    compiled: bool = True,
    progress: bool | Callable[[str], None] | None = None,
    points: int | Sequence[int] | None = None,
    backend: str = "local",
    address: str | None = None,
) -> Result:
    """Play policies against a problem, or against problems drawn from a family.

    Args:
        policies: maps each label to a policy (a catalogue name, ``package.module:Class`` or a
            class) or to a pair of a policy and a dict of options. A class of your own needs
            ``ask()``, which returns an arm or an object with ``.arm``, and
            ``tell(decision, reward)``; it is called with the features, and with ``seed=`` if it
            accepts one.
        problem: a problem, or a family from which each run draws one.
        rounds: the horizon T.
        runs: independent runs.
        seed: same seed, same result; drawn and recorded if None.
        jobs: number of workers; by default all cores of this machine or of the cluster.
        compiled: False runs everything as plain Python, for debugging; same result.
        progress: show a progress bar, by default on a terminal; or a function, called with the
            policy's label after each of its runs.
        points: the rounds after which regret is kept, or how many of them, evenly spread; the last
            round is always kept. Every round by default. Memory grows only with kept rounds.
        backend: where runs are played; same result. "local" uses the cores of this machine:
            threads for compiled policies, processes for plain Python. For "threads", "dask" and
            "ray" see ``rolf.parallel.completed``.
        address: address of a Dask scheduler or a Ray cluster; by default one is started here.
    """
    entries = read_policies(policies)
    rounds = whole("rounds", rounds, 1)
    runs = whole("runs", runs, 1)
    points_kept = kept_rounds(points, rounds)
    check_backend(backend, jobs, address)
    if not hasattr(problem, "draw") and not hasattr(problem, "params"):
        raise InvalidArgument("problem", problem, "a rolf.environments problem or family")
    drawn = seed if seed is not None else int(np.random.SeedSequence().generate_state(1)[0])
    seed = whole("seed", drawn, 0)
    config: dict[str, Any] = {
        "problem": _described(problem),
        "policies": describe(entries),
        "rounds": rounds,
        "runs": runs,
        "seed": seed,
        "versions": versions(),
    }
    started = time.perf_counter()
    every = Runs(entries, problem, seed, points_kept, compiled=compiled)
    places = []
    for index, entry in enumerate(entries):
        places.append(_place(entry, backend, compiled))
        policy, first = every.prepare(index, here=places[index] == "threads")
        if entry.ours:
            warn_if_unsuited(entry, policy, first, rounds)
    regret = np.empty((len(entries), runs, points_kept.size))
    tasks = [(index, run) for run in range(runs) for index in range(len(entries))]
    with progress_bar(progress, len(tasks)) as advance:
        for place in dict.fromkeys(places):
            share = [task for task in tasks if places[task[0]] == place]
            results = completed(every.play, share, backend=place, jobs=jobs, address=address)
            for number, values in results:
                index, run = share[number]
                regret[index, run] = values
                advance(entries[index].label)
    config["seconds"] = round(time.perf_counter() - started, 3)
    return Result([entry.label for entry in entries], regret, config, points_kept)


def kept_rounds(points: int | Sequence[int] | None, rounds: int) -> IntArray:
    """The rounds after which regret is kept, ascending, always with the last one."""
    if points is None:
        return np.arange(1, rounds + 1)
    if not isinstance(points, Sequence | np.ndarray):
        count = whole("points", points, 1, rounds)
        return np.arange(1, count + 1) * rounds // count
    wanted = {whole("points", each, 1, rounds) for each in points}
    return np.array(sorted(wanted | {rounds}))


def _place(entry: Entry, backend: str, compiled: bool) -> str:
    """Where to play a policy: on this machine, compiled code runs in threads, since it releases
    the GIL, and Python in processes if it can be pickled."""
    if backend == "threads" or (backend == "local" and (entry.ours or not compiled)):
        return "threads"
    try:
        pickled(f"policies[{entry.label!r}]", entry)
    except InvalidArgument as error:
        if backend != "local":
            raise
        reason = f"{error}; it runs in this process, on one core"
        warnings.warn(reason, RolfWarning, stacklevel=3)
        return "threads"
    return backend


def _described(problem: Any) -> dict[str, Any]:
    """The problem as plain data, checked up front rather than after hours of play."""
    try:
        out: dict[str, Any] = json.loads(json.dumps(problem.describe()))
    except (AttributeError, TypeError, ValueError) as error:
        raise InvalidArgument(
            "problem", problem, f"one whose describe() returns plain data ({error})"
        ) from None
    return out


def warn_if_unsuited(entry: Entry, policy: Policy, problem: Any, rounds: int) -> None:
    """Warn if a policy explores beyond the horizon, or was not made for these rewards."""
    forced = policy.forced_rounds(rounds)
    if forced >= rounds:
        warnings.warn(
            f"{entry.label} explores for {forced:.0f} rounds, the horizon is {rounds}: "
            "every round is a uniform draw",
            RolfWarning,
            stacklevel=3,
        )
    low, high = policy.reward_range
    if high - low <= 1.0 and getattr(problem, "rewards", "") != "bernoulli":
        warnings.warn(
            f"{entry.label} takes rewards from {low:g} to {high:g}, but those of this problem "
            "may lie outside",
            RolfWarning,
            stacklevel=3,
        )
