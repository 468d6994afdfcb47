"""The runs of a simulation: the problem, the noise and the policies of each run.

Each run draws its problem and its noise from its own streams, which all its policies share; each
policy draws from a stream named after its label. So a run's numbers depend neither on the process
that plays it nor on the other policies.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rolf.simulation.entries import Entry
from rolf.simulation.loop import play, play_online, play_policy, ready_loop
from rolf.types import FloatArray, IntArray

#: how many rounds are played at a time; the kept ones are picked out before the next are played
CHUNK = 65_536
#: how many problems are kept for the other policies of their runs
KEPT = 4

Task = tuple[int, int]  # position of the policy, number of the run


def stream(seed: int, run: int, *key: int) -> np.random.SeedSequence:
    """The seed of a stream of a run: key 0 is its problem, 1 its noise, (2, ...) a policy."""
    return np.random.SeedSequence(seed, spawn_key=(run, *key))


def draw_problem(problem: Any, seed: int, run: int) -> Any:
    """The problem of a run: drawn from a family, or the problem itself."""
    return problem.draw(stream(seed, run, 0)) if hasattr(problem, "draw") else problem


def make_policy(entry: Entry, problem: Any, seed: int, run: int) -> Any:
    """The policy of a run, with its own stream."""
    return entry.make(problem, stream(seed, run, 2, zlib.crc32(entry.label.encode())))


class Runs:
    """All runs of several policies; a task is one policy in one run.

    Worker processes receive it once rather than with every task, and load compiled code themselves.

    Args:
        entries: the policies.
        problem: a problem, or a family from which every run draws one.
        seed: the seed all runs are derived from.
        points: rounds after which cumulative regret is kept, ascending.
        compiled: whether rolf's own policies are played by compiled code.
    """

    def __init__(
        self,
        entries: Sequence[Entry],
        problem: Any,
        seed: int,
        points: IntArray,
        *,
        compiled: bool = True,
    ) -> None:
        self.entries, self.problem, self.seed = entries, problem, seed
        self.points, self.compiled = points, compiled
        self._start()

    def _start(self) -> None:
        self._prepared: dict[Task, Any] = {}
        self._loops: dict[int, Callable[..., None]] = {}
        draw = functools.partial(draw_problem, self.problem, self.seed)
        self._problem = functools.lru_cache(KEPT)(draw)

    def __getstate__(self) -> dict[str, Any]:
        names = ("entries", "problem", "seed", "points", "compiled")
        return {name: getattr(self, name) for name in names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._start()

    def prepare(self, index: int, run: int = 0, *, here: bool = True) -> tuple[Any, Any]:
        """The policy and the problem of a task.

        With ``here``, keep the policy for that task and compile its code now.
        """
        entry, problem = self.entries[index], self._problem(run)
        policy = make_policy(entry, problem, self.seed, run)
        if here:
            self._prepared[index, run] = policy
            self._loop(index, policy, problem)
        return policy, problem

    def play(self, task: Task) -> FloatArray:
        """The cumulative regret of one policy in one run, after each of ``points``.

        Memory does not grow with the rounds in between.
        """
        index, run = task
        entry, problem = self.entries[index], self._problem(run)
        policy = self._prepared.pop(task, None)
        if policy is None:
            policy = make_policy(entry, problem, self.seed, run)
        noise = np.random.default_rng(stream(self.seed, run, 1))
        if entry.ours:
            loop = self._loop(index, policy, problem)
            go_on = functools.partial(play_policy, policy, problem, noise, loop=loop)
        else:
            varying = getattr(policy, "varying", False)
            go_on = functools.partial(play_online, policy, varying, problem.params, noise)
        return _kept(go_on, self.points)

    def _loop(self, index: int, policy: Any, problem: Any) -> Callable[..., None]:
        """The function that plays the rounds of a policy, compiled once per process."""
        entry = self.entries[index]
        if not entry.ours or not self.compiled:
            return play
        if index not in self._loops:
            self._loops[index] = ready_loop(policy, problem, entry.options)
        return self._loops[index]


def _kept(go_on: Callable[..., None], points: IntArray) -> FloatArray:
    """Play up to the last point, and keep the cumulative regret after each point."""
    last, total = int(points[-1]), 0.0
    out, chunk = np.empty(points.size), np.empty(min(CHUNK, last))
    for first in range(0, last, CHUNK):
        regret = chunk[: last - first]
        go_on(regret, first=first, total=total)
        total = float(regret[-1])
        here = slice(*np.searchsorted(points, (first, first + regret.size), side="right"))
        out[here] = regret[points[here] - first - 1]
    return out
