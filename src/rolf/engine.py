"""Simulation: one loop over rounds for every policy, compiled, over many runs.

``play`` is the loop. As Python it runs the policies' own functions; compiled it is the same
functions through Numba. Each run draws a problem and its noise from streams of its own, which
all policies of the run share, and each policy draws from a stream named after its label: the
result depends neither on the number of workers nor on which other policies are in the call.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
import time
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from rolf.checks import whole
from rolf.environments.base import Family, Problem, look, respond
from rolf.environments.lower_bound import two_arms
from rolf.environments.varying import varying
from rolf.errors import InvalidArgument, RolfWarning
from rolf.kernel import compiled as compile_kernel
from rolf.policies.base import Policy
from rolf.policies.catalog import policy_class, policy_classes
from rolf.policies.operations import choose, update
from rolf.results import Result
from rolf.types import FloatArray, Generator, IntArray


def play(
    params: Any,
    state: Any,
    problem: Any,
    available: IntArray,
    policy_rng: Generator,
    problem_rng: Generator,
    regret: FloatArray,
) -> None:
    """Play ``regret.size`` rounds and write the cumulative regret into ``regret``."""
    total = 0.0
    for round in range(regret.size):
        features, means, best = look(problem, round, problem_rng)
        choice = choose(params, state, features, available, policy_rng)
        reward = respond(problem, means[choice.arm], problem_rng)
        update(params, state, choice, features[choice.arm], reward)
        total += best - means[choice.arm]
        regret[round] = total


def play_online(
    policy: Any, varying: bool, problem: Any, problem_rng: Generator, regret: FloatArray
) -> None:
    """The same rounds through ``ask`` and ``tell``, for a policy that is any Python object."""
    total = 0.0
    for round in range(regret.size):
        features, means, best = look(problem, round, problem_rng)
        decision = policy.ask(features=features) if varying else policy.ask()
        arm = getattr(decision, "arm", decision)
        if (
            isinstance(arm, bool)
            or not isinstance(arm, int | np.integer)
            or not 0 <= arm < means.size
        ):
            wanted = f"an arm from 0 to {means.size - 1}, or an object with one as .arm"
            raise InvalidArgument(f"{type(policy).__name__}.ask()", decision, wanted)
        reward = respond(problem, means[arm], problem_rng)
        policy.tell(decision, reward)
        total += best - means[arm]
        regret[round] = total


class Entry(NamedTuple):
    """One policy of a simulation."""

    label: str
    name: str
    build: Any  # class: called with features, options and seed
    options: dict[str, Any]

    @property
    def ours(self) -> bool:
        """Whether the engine may play it by its operations, past ask and tell."""
        made = isinstance(self.build, type) and issubclass(self.build, Policy)
        return made and self.build.ask is Policy.ask and self.build.tell is Policy.tell


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
        policies: for each label a catalogue name, a class, or a pair of either with a dict
            of options. A class that is not one of rolf's needs ``ask()``, which returns an
            arm or an object with ``.arm``, and ``tell(decision, reward)``; it is made from
            the features, and from ``seed=`` if it takes one.
        problem: a problem, or a family, from which every run draws one.
        rounds: the horizon T.
        runs: independent runs.
        seed: same seed, same result; drawn and recorded if None.
        jobs: workers; all cores by default.
        compiled: False runs everything as Python, for debugging; same result.
        progress: show a progress bar; by default on a terminal. A function is called with
            the policy's label after each of its runs instead.
    """
    from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait

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
        policy = _build(entry, _problem(problem, entropy, 0), entropy, 0)
        _warn_horizon(entry, policy, rounds)
        if entry.ours and compiled:
            loops[entry.label] = ready_loop(
                entry.build, _problem(problem, entropy, 0), entry.options
            )

    def one(index: int, run: int) -> None:
        entry = entries[index]
        drawn = _problem(problem, entropy, run)
        policy = _build(entry, drawn, entropy, run)
        problem_rng = np.random.default_rng(_stream(entropy, run, 1))
        out = regret[index, run]
        if entry.ours:
            loop: Callable[..., None] = loops.get(entry.label, play)
            everything = np.arange(drawn.features.shape[0])
            loop(
                policy.params,
                policy._state,
                drawn.params,
                everything,
                policy._rng,
                problem_rng,
                out,
            )
        else:
            play_online(policy, getattr(policy, "varying", False), drawn.params, problem_rng, out)

    tasks = [(index, run) for run in range(runs) for index in range(len(entries))]
    pool = ThreadPoolExecutor(jobs)
    with progress_bar(progress, len(tasks)) as advance:
        try:
            todo = {pool.submit(one, *task): task for task in tasks}
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


def describe_policies(policies: Mapping[str, Any]) -> dict[str, Any]:
    """The policies of a simulation as plain data: label, name and options."""
    return {e.label: {"policy": e.name, "options": e.options} for e in read_policies(policies)}


def versions() -> dict[str, str]:
    """Versions of what a result depends on."""
    import platform
    from importlib import metadata

    out = {"python": platform.python_version()}
    for name in ("rolf-bandits", "numpy", "numba"):
        try:
            out[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            out[name] = "not installed"
    return out


# --- arguments -------------------------------------------------------------------------------


def read_policies(policies: Mapping[str, Any]) -> list[Entry]:
    if not isinstance(policies, Mapping) or not policies:
        raise InvalidArgument("policies", policies, "a dict: label to policy, or (policy, options)")
    out = []
    for label, given in policies.items():
        spec, options = (
            given if isinstance(given, tuple | list) and len(given) == 2 else (given, {})
        )
        if not isinstance(options, Mapping):
            raise InvalidArgument(f"policies[{label!r}]", given, "(policy, dict of options)")
        build: Any = policy_class(spec) if isinstance(spec, str) else spec
        if not callable(build) or not (hasattr(build, "ask") and hasattr(build, "tell")):
            raise InvalidArgument(
                f"policies[{label!r}]", spec, "a catalogue name or a class with ask and tell"
            )
        _check_options(str(label), build, dict(options))
        name = spec if isinstance(spec, str) else getattr(build, "__name__", repr(build))
        out.append(Entry(str(label), name, build, dict(options)))
    return out


def _check_options(label: str, build: Any, options: dict[str, Any]) -> None:
    try:
        accepted = inspect.signature(build).parameters
    except (TypeError, ValueError):
        return
    if any(p.kind is p.VAR_KEYWORD for p in accepted.values()):
        return
    for option in options:
        if option not in accepted or option == "seed":
            known = [name for name in accepted if name not in ("features", "seed")]
            raise InvalidArgument(
                f"policies[{label!r}]", option, "options among " + ", ".join(known)
            )


def _description(problem: Any) -> dict[str, Any]:
    """The problem as plain data, found out before hours of play and not after."""
    try:
        out: dict[str, Any] = json.loads(json.dumps(problem.describe()))
    except (AttributeError, TypeError, ValueError) as error:
        raise InvalidArgument(
            "problem", problem, f"one whose describe() gives plain data ({error})"
        ) from None
    return out


def _warn_horizon(entry: Entry, policy: Any, rounds: int) -> None:
    settings = getattr(getattr(policy, "params", None), "coupling", None)
    if settings is None:
        return
    if settings.factor > 0.0:
        forced = settings.factor * np.log(2.0 * settings.size * rounds**2 / settings.delta)
    else:
        forced = settings.forced
    if forced >= rounds:
        warnings.warn(
            f"{entry.label} explores for {forced:.0f} rounds, the horizon is {rounds}: "
            "every round is a uniform draw",
            RolfWarning,
            stacklevel=3,
        )


# --- building blocks ---------------------------------------------------------------------------


def _stream(entropy: int, run: int, *key: int) -> np.random.SeedSequence:
    return np.random.SeedSequence(entropy, spawn_key=(run, *key))


def _problem(problem: Any, entropy: int, run: int) -> Any:
    return problem.draw(_stream(entropy, run, 0)) if hasattr(problem, "draw") else problem


def _build(entry: Entry, problem: Any, entropy: int, run: int) -> Any:
    seed = _stream(entropy, run, 2, zlib.crc32(entry.label.encode()))
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


def ready_loop(
    cls: Any, problem: Any, options: Mapping[str, Any] | None = None
) -> Callable[..., None]:
    """``play`` compiled for this policy and this kind of problem: it has played no round."""
    policy: Any = cls(problem.features, seed=0, **(options or {}))
    key = (type(policy.params), type(problem.params))
    if key not in _loops:
        title = f"{cls.name or cls.__name__} on {key[1].__name__.lower()} features"
        _loops[key] = compile_kernel(play, *key, title=title)
    _loops[key](
        policy.params,
        policy._state,
        problem.params,
        np.arange(problem.features.shape[0]),
        policy._rng,
        np.random.default_rng(0),
        np.empty(0),
    )
    return _loops[key]


_loops: dict[tuple[type, type], Callable[..., None]] = {}


def compile_all(names: Iterable[str] | None = None) -> None:
    """Compile policies now, so that no later process has to."""
    fixed, moving = two_arms(), varying(arms=2, observed=1).draw(0)
    for cls in policy_classes() if names is None else map(policy_class, names):
        build: Any = cls
        ready_loop(cls, fixed)
        if cls.varying:
            ready_loop(cls, moving)
        else:  # what is compiled online too
            online = build(fixed.features, seed=0)
            online.tell(online.ask(), 0.0)
            online.learn([0, 1], [0.0, 1.0])


@contextmanager
def progress_bar(
    progress: bool | Callable[[str], None] | None, total: int, what: str = "playing"
) -> Iterator[Callable[[str], None]]:
    """A progress bar with the time left; nothing where nobody looks."""
    if callable(progress):
        yield progress
        return
    if not (sys.stderr.isatty() if progress is None else progress):
        yield lambda label: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(what, total=total)
        yield lambda label: bar.update(task, advance=1, description=f"{what} {label}")
