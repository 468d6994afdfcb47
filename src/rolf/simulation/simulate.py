"""Simulation: every policy of a call against every run's problem.

The result depends neither on the number of workers nor on which other policies are in the call
(``runs.py``).
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
        policies: for each label a policy (a name of the catalogue, ``package.module:Class`` or
            a class), or a pair of it and a dict of options. A class that is not one of rolf's
            needs ``ask()``, which returns an arm or an object with ``.arm``, and
            ``tell(decision, reward)``; it is made from the features, and from ``seed=`` if it
            takes one.
        problem: a problem, or a family, from which every run draws one.
        rounds: the horizon T.
        runs: independent runs.
        seed: same seed, same result; drawn and recorded if None.
        jobs: workers; all cores by default, of this machine or of the cluster.
        compiled: False runs everything as Python, for debugging; same result.
        progress: show a progress bar; by default on a terminal. A function is called with
            the policy's label after each of its runs instead.
        points: the rounds after which regret is kept, and the last one; or how many of them,
            evenly spread. Every round by default. Memory does not grow with the other rounds.
        backend: where runs are played; same result. "local": on the cores of this machine, in
            threads what is compiled, in processes what is Python. "threads", "dask", "ray": see
            ``rolf.parallel.completed``.
        address: of a Dask scheduler or a Ray cluster; by default one is started here.
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
    """The rounds after which regret is kept, ascending; the last one always is."""
    if points is None:
        return np.arange(1, rounds + 1)
    if not isinstance(points, Sequence | np.ndarray):
        count = whole("points", points, 1, rounds)
        return np.arange(1, count + 1) * rounds // count
    wanted = {whole("points", each, 1, rounds) for each in points}
    return np.array(sorted(wanted | {rounds}))


def _place(entry: Entry, backend: str, compiled: bool) -> str:
    """Where a policy is played: on this machine, compiled code in threads, which it leaves free,
    and Python in processes, if it can be pickled."""
    if backend == "threads" or (backend == "local" and (entry.ours or not compiled)):
        return "threads"
    try:
        pickled(f"policies[{entry.label!r}]", entry)
    except InvalidArgument as error:
        if backend != "local":
            raise
        reason = f"{error}; it is played in this process, on one core"
        warnings.warn(reason, RolfWarning, stacklevel=3)
        return "threads"
    return backend


def _described(problem: Any) -> dict[str, Any]:
    """The problem as plain data, checked before hours of play."""
    try:
        out: dict[str, Any] = json.loads(json.dumps(problem.describe()))
    except (AttributeError, TypeError, ValueError) as error:
        raise InvalidArgument(
            "problem", problem, f"one whose describe() gives plain data ({error})"
        ) from None
    return out


def warn_if_unsuited(entry: Entry, policy: Policy, problem: Any, rounds: int) -> None:
    """Warn if a policy explores beyond the horizon, or was not made for such rewards."""
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
