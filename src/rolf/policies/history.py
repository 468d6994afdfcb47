"""What a policy may learn from before its first ask: past rounds, or totals per arm."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from rolf.arms.table import Arms, number_table
from rolf.checks import MAX_COUNT, MAX_REWARD, as_number, vector
from rolf.errors import InvalidArgument, RolfError
from rolf.estimators.contract import ArmTotals, History
from rolf.policies.core.parts import can_learn
from rolf.policies.core.rounds import Context
from rolf.policies.operations import learn, learn_totals, rebuild
from rolf.policies.state import arrays
from rolf.types import FloatArray, IntArray


class LearnsHistory:
    """The part of a policy that learns from history."""

    name: ClassVar[str]
    varying: ClassVar[bool]
    context: Context | None
    totals: tuple[str, ...]
    reward_range: tuple[float, float]
    arms: Arms
    params: Any
    _state: Any
    _lock: threading.RLock

    def _number(self, reward: Any) -> float:
        raise NotImplementedError

    def forced_rounds(self, horizon: int) -> float:
        raise NotImplementedError

    def learn(
        self,
        arms: Sequence[Any],
        rewards: Sequence[float] | FloatArray,
        *,
        features: Any = None,
        context: Any = None,
        probabilities: Any = None,
    ) -> None:
        """Learn from earlier rounds: which arms were played and what they gave.

        They count as rounds. RoLF's forced exploration, a number of uniform rounds, is shorter by
        them: a past round counts as one of it, for each arm up to its equal share, which by
        default is two. So arms that history hardly knows are still explored.

        Args:
            arms: the arm of each past round.
            rewards: its reward.
            features: (n, d) features that each had, for policies that take them.
            context: (n, m) context that each had, for policies that were created with one.
            probabilities: with which chance each was chosen, for policies that weigh
                rewards by it; uniform by default.
        """
        positions = self.arms.positions(arms)
        values = np.array([self._number(v) for v in np.asarray(rewards, dtype=object).ravel()])
        count = positions.size
        if values.size != count:
            raise InvalidArgument("rewards", f"{values.size} rewards", f"{count}, one per arm")
        rows = self._history_features(positions, features, context)
        chances = self._history_chances(probabilities, count)
        if count:
            history = History(positions, values, rows, chances)
            played = np.bincount(positions, minlength=self.arms.count)
            self._take_in(learn, history, played)

    def learn_totals(
        self, counts: Any, sums: Any, squares: Any = None, *, level: float = 0.0
    ) -> None:
        """Learn from rewards that were added up per arm, for instance to start from totals.

        They count as rounds, as in ``learn``. Policies that need more than totals per arm
        (features that vary, pseudo-rewards) refuse.

        Args:
            counts: (K,) number of rewards of every arm.
            sums: (K,) their sums.
            squares: (K,) the sums of their squares; needed by policies that learn the noise.
            level: what was subtracted from every reward beforehand, which preserves digits if
                rewards are far from zero.
        """
        given = {"counts": counts, "sums": sums, "squares": sums if squares is None else squares}
        counts, sums, squared = (
            vector(name, values, "arm", self.arms.count) for name, values in given.items()
        )
        if squares is None and any(path.endswith("squares") for path in self.totals):
            raise InvalidArgument("squares", None, f"sums of squares, which {self.name} needs")
        level = as_number(level)
        if (counts < 0.0).any() or (counts != np.floor(counts)).any():
            raise InvalidArgument("counts", counts.tolist(), "whole numbers, at least 0")
        if counts.sum() > MAX_COUNT:
            raise InvalidArgument("counts", counts.tolist(), f"at most {MAX_COUNT} altogether")
        self._check_sums(counts, sums, level)
        least = sums**2 / np.maximum(counts, 1.0)
        if (squared > counts * (2.0 * MAX_REWARD) ** 2).any():
            raise InvalidArgument("squares", squares, f"of rewards of size up to {MAX_REWARD:g}")
        if squares is not None and (squared < least * (1.0 - 1e-9) - 1e-300).any():
            raise InvalidArgument("squares", squares, "at least sums**2/counts")
        self._take_in(learn_totals, ArmTotals(counts, sums, squared, level), counts)

    def _check_sums(self, counts: FloatArray, sums: FloatArray, level: float) -> None:
        """Refuse sums that no rewards could have."""
        if (sums[counts == 0.0] != 0.0).any():
            raise InvalidArgument("sums", sums.tolist(), "0 where counts are 0")
        low, high = self.reward_range
        means = sums[counts > 0.0] / counts[counts > 0.0] + level
        slack = 1e-9 * max(1.0, abs(level))
        if ((means < low - slack) | (means > high + slack)).any():
            expected = f"sums of rewards from {low:g} to {high:g}"
            raise InvalidArgument("sums", sums.tolist(), expected)

    def _take_in(self, operation: Callable[..., None], history: Any, played: Any) -> None:
        """Add a history to the totals and rebuild the rest, completely or not at all; ``played``:
        how often it has each arm."""
        if not can_learn(operation, self.params):
            words = "totals per arm" if operation is learn_totals else "history"
            raise RolfError(f"{self.name or type(self).__name__} cannot learn from {words}")
        with self._lock:
            restore = arrays.remember(self._state)
            try:
                explored = self._explored(played)
                operation(self.params, self._state, history)
                self._state.clock[0] += int(played.sum())
                self._state.clock[1:2] += explored
                rebuild(self.params, self._state)
            except np.linalg.LinAlgError as error:
                restore()
                raise RolfError(
                    "the features are too far from each other in scale to be solved for: "
                    "centre or scale them"
                ) from error

    def _explored(self, played: FloatArray) -> int:
        """How many rounds of a history count as forced exploration: of each arm as many as are
        missing from its share of it."""
        rounds = int(played.sum())
        share = self.forced_rounds(int(self._state.clock[0]) + max(rounds, 1)) / self.arms.count
        if share == 0.0:
            return 0
        known = getattr(self._state.belief, "counts", np.zeros(self.arms.count))
        missing = np.maximum(share - known, 0.0)
        return min(rounds, math.ceil(float(np.minimum(played, missing).sum()) - 1e-9))

    def _history_features(self, positions: IntArray, features: Any, context: Any) -> FloatArray:
        """The features that the arms of past rounds had."""
        count = positions.size
        if self.context is not None:
            if features is not None:
                expected = "nothing: they follow from the context and the features of the arms"
                raise InvalidArgument("features", features, expected)
            contexts = self.context.table(context)
            if contexts.shape[0] != count:
                raise InvalidArgument("context", f"{contexts.shape[0]} contexts", f"{count}")
            return self.context.features(self.arms.features[positions], contexts)
        if context is not None:
            expected = f"nothing: {self.name} was created without the option context"
            raise InvalidArgument("context", context, expected)
        if self.varying:
            if features is None:
                raise InvalidArgument("features", None, "the features that each past round had")
            return number_table(features, rows=count, columns=self.arms.features.shape[1])
        if features is not None:
            raise InvalidArgument("features", features, f"nothing: {self.name} has fixed features")
        return np.zeros((count, 0))

    def _history_chances(self, values: Any, count: int) -> FloatArray:
        if values is None:
            return np.full(count, 1.0 / self.arms.count)
        chances = np.array(values, dtype=np.float64).ravel()
        if chances.size != count or not ((chances > 0.0) & (chances <= 1.0)).all():
            raise InvalidArgument("probabilities", values, f"{count} chances in (0, 1]")
        return chances
