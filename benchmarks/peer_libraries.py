"""Other bandit libraries behind one small interface: ``ask`` for an arm, ``tell`` its reward.

Each wrapper uses the library's fastest documented incremental path; a library is imported only when
its wrapper is created.
"""

from __future__ import annotations

import itertools
import random
from bisect import bisect
from typing import Any, Protocol

import numpy as np


class Peer(Protocol):
    def ask(self) -> int: ...
    def tell(self, arm: int, reward: float) -> None: ...


# --- mabwiser ---


class MabwiserDisjoint:
    """One regression per arm; all of them see the same context."""

    def __init__(self, features: np.ndarray, policy: str, **options: float) -> None:
        from mabwiser.mab import MAB, LearningPolicy

        arms = list(range(len(features)))
        self.context = features.mean(axis=0, keepdims=True)
        self.mab = MAB(arms, getattr(LearningPolicy, policy)(**options), seed=0)
        # it only predicts after a fit; a context of zeros carries no information
        self.mab.fit(np.array([0]), np.array([0.0]), np.zeros_like(self.context))

    def ask(self) -> int:
        return int(self.mab.predict(self.context))

    def tell(self, arm: int, reward: float) -> None:
        self.mab.partial_fit(np.array([arm]), np.array([reward]), self.context)


class MabwiserShared:
    """One model for all arms: a single mabwiser arm, queried with the features of each of ours."""

    def __init__(self, features: np.ndarray, policy: str, **options: float) -> None:
        from mabwiser.mab import MAB, LearningPolicy

        self.features = features
        self.rows = [features[arm : arm + 1] for arm in range(len(features))]
        self.only = np.array([0])
        self.mab = MAB([0], getattr(LearningPolicy, policy)(**options), seed=0)
        self.mab.fit(self.only, np.array([0.0]), np.zeros_like(self.rows[0]))

    def ask(self) -> int:
        scores = [each[0] for each in self.mab.predict_expectations(self.features)]
        return scores.index(max(scores))

    def tell(self, arm: int, reward: float) -> None:
        self.mab.partial_fit(self.only, np.array([reward]), self.rows[arm])


class MabwiserUCB:
    """UCB1, which sees no context."""

    def __init__(self, features: np.ndarray) -> None:
        from mabwiser.mab import MAB, LearningPolicy

        arms = np.arange(len(features))
        self.mab = MAB(arms.tolist(), LearningPolicy.UCB1(alpha=1.0), seed=0)
        self.mab.fit(arms, np.zeros(arms.size))  # it only predicts after a fit

    def ask(self) -> int:
        return int(self.mab.predict())

    def tell(self, arm: int, reward: float) -> None:
        self.mab.partial_fit(np.array([arm]), np.array([reward]))


# --- river ---


class RiverDisjoint:
    """LinUCBDisjoint: one Bayesian regression per arm."""

    def __init__(self, features: np.ndarray) -> None:
        from river import bandit

        self.arms = list(range(len(features)))
        self.context = dict(enumerate(features.mean(axis=0).tolist()))
        self.policy = bandit.LinUCBDisjoint(alpha=1.0, beta=1.0, seed=0)

    def ask(self) -> int:
        return int(self.policy.pull(self.arms, self.context))

    def tell(self, arm: int, reward: float) -> None:
        self.policy.update(arm, self.context, reward)


class RiverShared:
    """One Bayesian regression over the arms' features, with bounds or draws computed from it."""

    def __init__(self, features: np.ndarray, draws: bool) -> None:
        from river import linear_model

        self.rows = [dict(enumerate(row)) for row in features.tolist()]
        self.model = linear_model.BayesianLinearRegression(alpha=1.0, beta=1.0)
        self.draw = random.Random(0).gauss if draws else lambda mean, spread: mean + spread

    def ask(self) -> int:
        beliefs = [self.model.predict_one(row, with_dist=True) for row in self.rows]
        scores = [self.draw(belief.mu, belief.sigma) for belief in beliefs]
        return scores.index(max(scores))

    def tell(self, arm: int, reward: float) -> None:
        self.model.learn_one(self.rows[arm], reward)


class RiverUCB:
    """UCB, which sees no context."""

    def __init__(self, features: np.ndarray) -> None:
        from river import bandit

        self.arms = list(range(len(features)))
        self.policy = bandit.UCB(delta=1.0, seed=0)

    def ask(self) -> int:
        return int(self.policy.pull(self.arms))

    def tell(self, arm: int, reward: float) -> None:
        self.policy.update(arm, reward)


# --- contextualbandits ---


class ContextualDisjoint:
    """Policies of contextualbandits.online: one regression per arm."""

    def __init__(self, features: np.ndarray, policy: str, **options: Any) -> None:
        from contextualbandits import online as policies

        self.context = features.mean(axis=0, keepdims=True)
        make = getattr(policies, policy)
        self.policy = make(len(features), fit_intercept=False, random_state=1, **options)

    def ask(self) -> int:
        return int(self.policy.predict(self.context)[0])

    def tell(self, arm: int, reward: float) -> None:
        self.policy.partial_fit(self.context, np.array([arm]), np.array([reward]))


class ContextualShared:
    """Its LinearRegression over the features of the arms, with its own bounds or draws.

    ``score`` is "bound" (LinUCB), "interval" (Thompson: a draw within the bounds of each arm, as
    its LinTS does with sample_from="ci") or "coefficients" (Thompson: one draw of the model).
    """

    def __init__(self, features: np.ndarray, score: str) -> None:
        from contextualbandits.linreg import LinearRegression

        whole = score == "coefficients"
        self.features = features
        self.rows = [features[arm : arm + 1].copy() for arm in range(len(features))]
        self.rng = np.random.default_rng(0)
        self.ask = getattr(self, score)
        self.model = LinearRegression(
            fit_intercept=False,
            method="chol" if whole else "sm",
            calc_inv=not whole,
            precompute_ts=whole,
            use_float=False,
        )

    def bound(self) -> int:
        return int(self.model.predict_ucb(self.features).argmax())

    def interval(self) -> int:
        widths = self.rng.standard_normal(len(self.rows))
        return int(self.model.predict_ucb(self.features, widths).argmax())

    def coefficients(self) -> int:
        if not self.model.is_fitted_:  # only before the first reward
            return int(self.rng.integers(len(self.rows)))
        return int(self.model.predict_thompson(self.features, random_state=self.rng).argmax())

    def tell(self, arm: int, reward: float) -> None:
        self.model.partial_fit(self.rows[arm], np.array([reward]))


# --- bayesianbandits ---


class BayesianShared:
    """An agent with one NormalRegressor over the features of the arms."""

    def __init__(self, features: np.ndarray, policy: str, **options: float) -> None:
        import bayesianbandits as library

        class Rows(library.ArmFeaturizer):
            def transform(self, X: Any, *, action_tokens: list[int]) -> np.ndarray:
                if len(action_tokens) == len(features):
                    return features
                return features[action_tokens]

        self.context = np.zeros((1, 1))  # carries no information, but is required
        self.agent = library.LipschitzContextualAgent(
            [library.Arm(arm, learner=None) for arm in range(len(features))],
            getattr(library, policy)(**options),
            Rows(),
            library.NormalRegressor(alpha=1.0, beta=1.0),
            random_seed=0,
        )

    def ask(self) -> int:
        return int(self.agent.pull(self.context)[0])

    def tell(self, arm: int, reward: float) -> None:
        self.agent.update(self.context, np.array([reward]))  # of the arm last pulled


# --- vowpalwabbit ---


class Vowpal:
    """A contextual bandit with action features, learned by gradient steps.

    All lines are parsed to predict and to learn, as in its tutorials. With ``parsed_once``, the
    lines for prediction are parsed once and reused, and only the chosen line is learned.
    """

    def __init__(self, features: np.ndarray, options: str, parsed_once: bool) -> None:
        from vowpalwabbit import Workspace

        self.lines = [
            "|x " + " ".join(f"{name}:{value:.7g}" for name, value in enumerate(row))
            for row in features.tolist()
        ]
        self.model = Workspace(f"--cb_explore_adf {options} --noconstant --quiet --random_seed 1")
        self.parsed_once = parsed_once
        self.event = self.model.parse(self.lines) if parsed_once else self.lines
        self.rng = random.Random(0)
        self.chance = 1.0

    def ask(self) -> int:
        shares = self.model.predict(self.event)
        sums = list(itertools.accumulate(shares))
        arm = min(bisect(sums, self.rng.random() * sums[-1]), len(sums) - 1)
        self.chance = shares[arm]
        return arm

    def tell(self, arm: int, reward: float) -> None:
        line = f"0:{-reward:.7g}:{self.chance:.7g} {self.lines[arm]}"
        if self.parsed_once:
            self.model.learn([line])
        else:
            self.model.learn([*self.lines[:arm], line, *self.lines[arm + 1 :]])
