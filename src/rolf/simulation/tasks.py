"""Simulation: every policy of a call against every run's problem.

Each run draws a problem and its noise from streams of its own, which all policies of the run
share, and each policy draws from a stream named after its label: the result depends neither on
the number of workers nor on which other policies are in the call.
"""

from __future__ import annotations

import inspect
import json
import os
import time
import warnings
import zlib
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from typing import Any

import numpy as np

from rolf.checks import whole
from rolf.environments.problem import Family, Problem
from rolf.errors import InvalidArgument, RolfWarning
from rolf.policies.base import Policy
from rolf.progress import progress_bar
from rolf.simulation.loop import play, play_online, play_policy, ready_loop
from rolf.simulation.results import Result, versions
from rolf.simulation.specs import Entry, describe_policies, read_policies
from rolf.types import FloatArray


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
        jobs: workers; all cores by default.
        compiled: False runs everything as Python, for debugging; same result.
        progress: show a progress bar; by default on a terminal. A function is called with
            the policy's label after each of its runs instead.
    """
    entries = read_policies(policies)
    rounds = whole("rounds", rounds, 1)
    runs = whole("runs", runs, 1)
    jobs = whole("jobs", jobs if jobs is not None else os.cpu_count() or 1, 1)
    if not hasattr(problem, "draw") and not hasattr(problem, "params"):
        raise InvalidArgument("problem", problem, "a rolf.environments problem or family")
    entropy = seed if seed is not None else int(np.random.SeedSequence().generate_state(1)[0])
    entropy = whole("seed", entropy, 0)
    described = _description(problem)
    regret = np.empty((len(entries), runs, rounds))
    started = time.perf_counter()

    loops: dict[str, Callable[..., None]] = {}
    for entry in entries:
        first = draw_problem(problem, entropy, 0)
        policy = build_policy(entry, first, entropy, 0)
        if entry.ours:
            warn_if_unsuited(entry, policy, first, rounds)
        if entry.ours and compiled:
            loops[entry.label] = ready_loop(entry.build, first, entry.options)

    def run_task(index: int, run: int) -> None:
        entry = entries[index]
        loop = loops.get(entry.label, play)
        play_run(entry, problem, entropy, run, regret[index, run], loop)

    tasks = [(index, run) for run in range(runs) for index in range(len(entries))]
    pool = ThreadPoolExecutor(jobs)
    with progress_bar(progress, len(tasks)) as advance:
        try:
            todo = {pool.submit(run_task, *task): task for task in tasks}
            while todo:
                done, _ = wait(todo, return_when=FIRST_COMPLETED)
                for future in done:
                    index, _ = todo.pop(future)
                    future.result()
                    advance(entries[index].label)
        finally:  # after an error or an interruption, without waiting for what still runs
            pool.shutdown(wait=False, cancel_futures=True)
    config = {
        "problem": described,
        "policies": describe_policies(policies),
        "rounds": rounds,
        "runs": runs,
        "seed": int(entropy),
        "versions": versions(),
        "seconds": round(time.perf_counter() - started, 3),
    }
    return Result([entry.label for entry in entries], regret, config)


# --- one task: a policy in a run ---------------------------------------------------------------


def stream(entropy: int, run: int, *key: int) -> np.random.SeedSequence:
    """The seed of what a run draws: 0 its problem, 1 its noise, (2, ...) a policy."""
    return np.random.SeedSequence(entropy, spawn_key=(run, *key))


def draw_problem(problem: Any, entropy: int, run: int) -> Any:
    """The problem of a run: drawn from a family, or the problem itself."""
    return problem.draw(stream(entropy, run, 0)) if hasattr(problem, "draw") else problem


def build_policy(entry: Entry, problem: Any, entropy: int, run: int) -> Any:
    """The policy of a run, with a stream of its own."""
    seed = stream(entropy, run, 2, zlib.crc32(entry.label.encode()))
    options = dict(entry.options)
    if entry.ours:
        return entry.build(problem.features, seed=seed, **options)
    try:
        takes_seed = "seed" in inspect.signature(entry.build).parameters
    except (TypeError, ValueError):
        takes_seed = False
    if takes_seed:
        options["seed"] = int(seed.generate_state(1)[0])
    return entry.build(problem.features, **options)


def play_run(
    entry: Entry,
    problem: Any,
    entropy: int,
    run: int,
    regret: FloatArray,
    loop: Callable[..., None],
) -> None:
    """Play one run of one policy; its cumulative regret is written into ``regret``."""
    drawn = draw_problem(problem, entropy, run)
    policy = build_policy(entry, drawn, entropy, run)
    noise = np.random.default_rng(stream(entropy, run, 1))
    if entry.ours:
        play_policy(policy, drawn, noise, regret, loop)
    else:
        play_online(policy, getattr(policy, "varying", False), drawn.params, noise, regret)


def play_at(
    entry: Entry, problem: Any, entropy: int, run: int, points: Any, loop: Callable[..., None]
) -> FloatArray:
    regret = np.empty(int(points[-1]))
    play_run(entry, problem, entropy, run, regret, loop)
    return regret[points - 1]


# --- checks ------------------------------------------------------------------------------------


def _description(problem: Any) -> dict[str, Any]:
    """The problem as plain data, checked before hours of play."""
    try:
        out: dict[str, Any] = json.loads(json.dumps(problem.describe()))
    except (AttributeError, TypeError, ValueError) as error:
        raise InvalidArgument(
            "problem", problem, f"one whose describe() gives plain data ({error})"
        ) from None
    return out


def warn_if_unsuited(entry: Entry, policy: Policy, problem: Any, rounds: int) -> None:
    """Say so if a policy explores beyond the horizon, or was not made for such rewards."""
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
