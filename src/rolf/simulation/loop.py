"""The loop over rounds: the same functions run as Python or compiled by Numba."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from rolf.environments.lower_bounds import two_arms
from rolf.environments.problem import look, respond
from rolf.environments.varying_problems import varying
from rolf.errors import InvalidArgument
from rolf.kernel import borrowed, compiled
from rolf.policies.core.parts import decide, keep, observe
from rolf.policies.registry import policy_class
from rolf.policies.warm import warm
from rolf.types import FloatArray, Generator, IntArray


def play(
    params: Any,
    state: Any,
    problem: Any,
    available: IntArray,
    policy_rng: Generator,
    problem_rng: Generator,
    regret: FloatArray,
    first: int,
    total: float,
) -> None:
    """Play ``regret.size`` rounds starting with round ``first``, and write the cumulative regret
    to ``regret``; ``total`` is the regret of the earlier rounds."""
    params, state, problem = borrowed(params), borrowed(state), borrowed(problem)
    for step in range(regret.size):
        features, means, best = look(problem, first + step, problem_rng)
        choice = decide(params, state, features, available, policy_rng)
        reward = respond(problem, means[choice.arm], problem_rng)
        observe(params, state, choice, keep(params, features, choice.arm), reward)
        total += best - means[choice.arm]
        regret[step] = total


def play_online(
    policy: Any,
    varying: bool,
    problem: Any,
    problem_rng: Generator,
    regret: FloatArray,
    first: int = 0,
    total: float = 0.0,
) -> None:
    """Play the same rounds through ``ask`` and ``tell``, for a policy of any class."""
    for step in range(regret.size):
        features, means, best = look(problem, first + step, problem_rng)
        decision = policy.ask(features=features) if varying else policy.ask()
        arm = getattr(decision, "arm", decision)
        if (
            isinstance(arm, bool)
            or not isinstance(arm, int | np.integer)
            or not 0 <= arm < means.size
        ):
            expected = f"an arm from 0 to {means.size - 1}, or an object with one as .arm"
            raise InvalidArgument(f"{type(policy).__name__}.ask()", decision, expected)
        reward = respond(problem, means[arm], problem_rng)
        policy.tell(decision, reward)
        total += best - means[arm]
        regret[step] = total


def play_policy(
    policy: Any,
    problem: Any,
    problem_rng: Generator,
    regret: FloatArray,
    loop: Callable[..., None] = play,
    first: int = 0,
    total: float = 0.0,
) -> None:
    """``play`` for one of rolf's own policies, from its current state."""
    everything = np.arange(problem.features.shape[0])
    own = policy.params, policy.state, problem.params, everything, policy.rng
    loop(*own, problem_rng, regret, first, total)


def ready_loop(
    policy: Any, problem: Any, options: Mapping[str, Any] | None = None
) -> Callable[..., None]:
    """``play``, compiled for the types of this policy and this problem; no round is played.

    ``options`` are named while it is compiled.
    """
    key = (*policy.part_classes(), type(problem.params))
    if key not in _loops:
        chosen = "".join(f", {name}={value!r}" for name, value in (options or {}).items())
        name = policy.name or type(policy).__name__
        title = f"{name}{chosen} on {key[-1].__name__.lower()} features"
        _loops[key] = compiled(play, *key, title=title)
    play_policy(policy, problem, np.random.default_rng(0), np.empty(0), _loops[key])
    return _loops[key]


_loops: dict[tuple[type, ...], Callable[..., None]] = {}


def compile_policy(name: str) -> None:
    """Compile a policy with all its variants now, so that no later process has to."""
    build: Any = policy_class(name)
    fixed, moving = two_arms(), varying(arms=2, observed=1).draw(0)
    for options in build.variants:
        policy = build(fixed.features, seed=0, **options)
        ready_loop(policy, fixed, options)
        if build.varying:
            ready_loop(build(moving.features, seed=0, **options), moving, options)
        warm(policy)
