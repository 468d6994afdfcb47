"""Simulation: every policy of a call against every run's problem.

Each run draws a problem and its noise from streams of its own, which all policies of the run
share, and each policy draws from a stream named after its label: the result depends neither on
the number of workers nor on which other policies are in the call.
"""

from __future__ import annotations

import functools
import inspect
import json
import time
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rolf.checks import whole
from rolf.environments.problem import Family, Problem
from rolf.errors import InvalidArgument, RolfWarning
from rolf.parallel import check_backend, completed
from rolf.parallel.worker import pickled
from rolf.policies.policy import Policy
from rolf.progress import progress_bar
from rolf.simulation.entries import Entry, describe_policies, read_policies
from rolf.simulation.loop import play, play_online, play_policy, ready_loop
from rolf.simulation.result import Result, versions
from rolf.types import FloatArray, IntArray

#: rounds that are played at a time: what is kept of them is picked before the next ones
CHUNK = 65_536


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
    rounds_kept = kept_rounds(points, rounds)
    check_backend(backend, jobs, address)
    if not hasattr(problem, "draw") and not hasattr(problem, "params"):
        raise InvalidArgument("problem", problem, "a rolf.environments problem or family")
    entropy = seed if seed is not None else int(np.random.SeedSequence().generate_state(1)[0])
    entropy = whole("seed", entropy, 0)
    described = _description(problem)
    regret = np.empty((len(entries), runs, rounds_kept.size))
    started = time.perf_counter()

    game = Game(entries, problem, entropy, rounds_kept, compiled)
    for entry in entries:
        first = draw_problem(problem, entropy, 0)
        policy = build_policy(entry, first, entropy, 0)
        if entry.ours:
            warn_if_unsuited(entry, policy, first, rounds)
        if backend not in ("local", "threads"):
            pickled(f"policies[{entry.label!r}]", entry)
        elif entry.ours and compiled:
            game.loops[entry.label] = ready_loop(entry.build, first, entry.options)

    tasks = [(index, run) for run in range(runs) for index in range(len(entries))]
    with progress_bar(progress, len(tasks)) as advance:
        for (index, run), values in _played(game, tasks, backend, jobs, address):
            regret[index, run] = values
            advance(entries[index].label)
    config = {
        "problem": described,
        "policies": describe_policies(policies),
        "rounds": rounds,
        "runs": runs,
        "seed": int(entropy),
        "versions": versions(),
        "seconds": round(time.perf_counter() - started, 3),
    }
    return Result([entry.label for entry in entries], regret, config, rounds_kept)


def kept_rounds(points: int | Sequence[int] | None, rounds: int) -> IntArray:
    """The rounds after which regret is kept, ascending; the last one always is."""
    if points is None:
        return np.arange(1, rounds + 1)
    if not isinstance(points, Sequence | np.ndarray):
        count = whole("points", points, 1, rounds)
        return np.arange(1, count + 1) * rounds // count
    wanted = {whole("points", each, 1, rounds) for each in points}
    return np.array(sorted(wanted | {rounds}))


# --- the tasks of a simulation, and where they are played --------------------------------------

Task = tuple[int, int]  # a policy's place in the call, and a run


@dataclass
class Game:
    """What all tasks of a simulation share. Workers get it once, not with every task."""

    entries: list[Entry]
    problem: Any
    entropy: int
    points: IntArray
    compiled: bool
    loops: dict[str, Callable[..., None]] = field(default_factory=dict)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "loops": {}}  # other processes load the compiled code themselves

    def play(self, task: Task) -> FloatArray:
        """The regret of a policy in a run."""
        index, run = task
        entry = self.entries[index]
        if entry.ours and self.compiled and entry.label not in self.loops:
            first = draw_problem(self.problem, self.entropy, run)
            self.loops[entry.label] = ready_loop(entry.build, first, entry.options)
        loop = self.loops.get(entry.label, play)
        return play_at(entry, self.problem, self.entropy, run, self.points, loop)


def _played(
    game: Game, tasks: list[Task], backend: str, jobs: int | None, address: str | None
) -> Iterator[tuple[Task, FloatArray]]:
    """Tasks and what came of them, as they finish."""
    shares = {backend: tasks}
    if backend == "local":  # compiled code leaves the other threads alone, Python does not
        kinds = ["local" if _needs_process(entry, game) else "threads" for entry in game.entries]
        shares = {kind: [task for task in tasks if kinds[task[0]] == kind] for kind in set(kinds)}
    for where, share in shares.items():
        results = completed(game.play, share, backend=where, jobs=jobs, address=address)
        for number, values in results:
            yield share[number], values


def _needs_process(entry: Entry, game: Game) -> bool:
    """Whether it is Python, which threads would play one after the other, and can travel."""
    if entry.ours or not game.compiled:
        return False
    try:
        pickled(f"policies[{entry.label!r}]", entry)
    except InvalidArgument as error:
        reason = f"{error}; it is played in this process, on one core"
        warnings.warn(reason, RolfWarning, stacklevel=4)
        return False
    return True


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


def play_at(
    entry: Entry,
    problem: Any,
    entropy: int,
    run: int,
    points: IntArray,
    loop: Callable[..., None],
) -> FloatArray:
    """Play one run of one policy: its cumulative regret after the rounds ``points``, ascending.

    Memory does not grow with the rounds between them.
    """
    drawn = draw_problem(problem, entropy, run)
    policy = build_policy(entry, drawn, entropy, run)
    noise = np.random.default_rng(stream(entropy, run, 1))
    if entry.ours:
        go_on = functools.partial(play_policy, policy, drawn, noise, loop=loop)
    else:
        varying = getattr(policy, "varying", False)
        go_on = functools.partial(play_online, policy, varying, drawn.params, noise)
    out, chunk = np.empty(points.size), np.empty(min(CHUNK, int(points[-1])))
    total = 0.0
    for first in range(0, int(points[-1]), CHUNK):
        regret = chunk[: points[-1] - first]
        go_on(regret, first=first, total=total)
        total = float(regret[-1])
        here = slice(*np.searchsorted(points, (first, first + regret.size), side="right"))
        out[here] = regret[points[here] - first - 1]
    return out


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
