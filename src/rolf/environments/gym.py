"""Any problem as a Gymnasium environment. Gymnasium is optional and imported on use."""

from __future__ import annotations

from typing import Any

import numpy as np

from rolf.checks import whole
from rolf.environments.problem import look, respond
from rolf.errors import InvalidArgument
from rolf.extras import require


def gymnasium(problem: Any, *, rounds: int = 1200) -> Any:
    """A Gymnasium environment that plays a problem, or problems drawn from a family.

    An observation is the (K, d) features of the round, an action an arm. ``info`` holds the
    regret of the step and the best arm; the episode is truncated after ``rounds`` rounds. A
    family draws a new problem in every ``reset``.
    """
    require("gymnasium", "a Gymnasium environment")
    import gymnasium as gym

    if not hasattr(problem, "draw") and not hasattr(problem, "params"):
        raise InvalidArgument("problem", problem, "a rolf.environments problem or family")
    rounds = whole("rounds", rounds, 1)
    arms, size = (problem.draw(0) if hasattr(problem, "draw") else problem).features.shape

    class BanditEnv(gym.Env):
        """A bandit problem with features."""

        metadata = {"render_modes": []}  # noqa: RUF012  (Gymnasium's own convention)
        action_space = gym.spaces.Discrete(arms)
        observation_space = gym.spaces.Box(-np.inf, np.inf, (arms, size), np.float64)

        def reset(
            self, *, seed: int | None = None, options: dict[str, Any] | None = None
        ) -> tuple[Any, dict[str, Any]]:
            super().reset(seed=seed)
            drawn = problem.draw(self.np_random) if hasattr(problem, "draw") else problem
            self._params, self._round = drawn.params, 0
            return self._see(), {}

        def _see(self) -> Any:
            features, self._means, self._best = look(self._params, self._round, self.np_random)
            return features.copy()

        def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
            arm = int(action)
            if not self.action_space.contains(arm):
                raise InvalidArgument("action", action, f"an arm from 0 to {arms - 1}")
            reward = float(respond(self._params, self._means[arm], self.np_random))
            info = {
                "regret": float(self._best - self._means[arm]),
                "best": int(self._means.argmax()),
            }
            self._round += 1
            return self._see(), reward, False, self._round >= rounds, info

        def __reduce__(self) -> tuple[Any, ...]:  # its class is of this call, not of a module
            return _rebuilt, (problem, rounds), vars(self)

    return BanditEnv()


def _rebuilt(problem: Any, rounds: int) -> Any:
    return gymnasium(problem, rounds=rounds)
