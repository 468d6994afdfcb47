"""Ask and tell: what every policy offers its user.

A policy file gives bodies to the operations of ``operations.py`` and declares a subclass
of ``Policy`` whose constructor checks arguments.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, overload

import numpy as np

from rolf.checks import generator, whole
from rolf.errors import AlreadyTold, InvalidArgument, RolfError, UnknownDecision
from rolf.estimators.ridge import from_history
from rolf.kernel import body_of
from rolf.policies import saving
from rolf.policies.inputs import Arms, as_number, as_positions, as_round_features
from rolf.policies.operations import Pending, choose, estimate, probabilities, rebuild, update
from rolf.types import Decision, FloatArray, IntArray, Seed


class Policy:
    """Ask for decisions, tell rewards: late, in any order, each once."""

    #: name in the catalogue, and one line for lists
    name: ClassVar[str] = ""
    summary: ClassVar[str] = ""
    #: state arrays that add up over workers, and those too large to save (rebuilt)
    totals: ClassVar[tuple[str, ...]] = ("clock",)
    derived: ClassVar[tuple[str, ...]] = ()
    #: state arrays that are the same in all states to be added, once they are aligned
    common: ClassVar[tuple[str, ...]] = ()
    #: the largest reward, in absolute value, that its arithmetic can hold
    largest: ClassVar[float] = math.inf
    #: whether features come with every ask
    varying: ClassVar[bool] = False

    params: Any

    _by_name: ClassVar[dict[str, type[Policy]]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        name = cls.__dict__.get("name")  # a subclass that gives itself no name has none
        cls.name = name or ""
        known = Policy._by_name.get(cls.name)
        if known is not None and known.__qualname__ != cls.__qualname__:
            raise InvalidArgument("name", name, f"a name that {known.__name__} does not have")
        if name:
            Policy._by_name[name] = cls

    def __init__(
        self, arms: Arms, params: Any, state: Any, options: dict[str, Any], seed: Seed
    ) -> None:
        self.arms = arms
        self.params = params
        self.options = options
        self._state = state
        for operation in (choose, update, estimate, rebuild):
            body_of(operation, type(params))  # says what is missing
        for path in self.totals:
            if not hasattr(saving.find(state, path), "dtype"):
                raise InvalidArgument("totals", path, "the path of an array of State")
        self._lock = threading.RLock()
        self._choose = body_of(choose, type(params))
        self._update = body_of(update, type(params))
        self._rng = generator(seed)
        self._everything: IntArray = np.arange(arms.count)
        self._pending: dict[str, Pending] = {}
        self._issued = 0
        self._tag = saving.tag()

    # --- decisions ---

    @overload
    def ask(
        self, n: None = None, *, available: Iterable[Any] | None = None, features: Any = None
    ) -> Decision: ...
    @overload
    def ask(
        self, n: int, *, available: Iterable[Any] | None = None, features: Any = None
    ) -> list[Decision]: ...
    def ask(
        self,
        n: int | None = None,
        *,
        available: Iterable[Any] | None = None,
        features: Any = None,
    ) -> Decision | list[Decision]:
        """Decide which arm to play next.

        Args:
            n: give a list of this many decisions before any reward is known.
            available: the arms to choose from; all by default.
            features: (K, d) features of this round, for policies that take them.
        """
        arms = self._everything if available is None else self.arms.subset(available)
        table = self._round_features(features)
        if n is None:
            with self._lock:
                return self._decide(arms, table)
        count = whole("n", n, 1)
        with self._lock:
            return [self._decide(arms, table) for _ in range(count)]

    def _decide(self, available: IntArray, features: FloatArray) -> Decision:
        chance = self._chance_later(available)
        choice = self._choose(self.params, self._state, features, available, self._rng)
        self._issued += 1
        key = f"{self._tag}-{self._issued}"
        row = features[choice.arm]
        self._pending[key] = Pending(choice, row.copy() if self.varying else row)
        labels = self.arms.labels
        return Decision(
            key,
            labels[choice.arm],
            choice.probability if chance is None else lambda: chance(choice.arm),
            labels[choice.greedy],
            bool(choice.matched),
        )

    def _chance_later(self, available: IntArray) -> Any:
        """Where a choice's own probability is NaN: a function of the arm that finds it."""
        return None

    def tell(
        self,
        decision: Decision | str | Sequence[Decision | str],
        reward: float | Sequence[float] | FloatArray,
    ) -> None:
        """Report the reward of a decision, or of a batch of them.

        Args:
            decision: a decision or its id; or a list of them, with a list of rewards.
            reward: any finite number.
        """
        if isinstance(decision, Decision | str):
            key = decision if isinstance(decision, str) else decision.id
            value = self._number(reward)
            with self._lock:
                pending = self._pending.pop(key, None)
                if pending is None:
                    raise self._cannot_tell(key)
                self._update(self.params, self._state, pending.choice, pending.row, value)
            return
        keys = self._keys(decision)
        values = [self._number(value) for value in np.asarray(reward, dtype=object).ravel()]
        if len(keys) != len(values):
            raise InvalidArgument(
                "reward", f"{len(values)} rewards", f"{len(keys)}, one a decision"
            )
        with self._lock:
            self._check_waiting(keys)
            for key, value in zip(keys, values, strict=True):
                pending = self._pending.pop(key)
                self._update(self.params, self._state, pending.choice, pending.row, value)

    def forget(self, decision: Decision | str | Sequence[Decision | str]) -> None:
        """Give up on the rewards of a decision, or of a list of them: they can no longer come."""
        one = isinstance(decision, Decision | str)
        keys = self._keys([decision] if one else decision)  # type: ignore[list-item,arg-type]
        with self._lock:
            self._check_waiting(keys)
            for key in keys:
                del self._pending[key]
            self._recount()

    def _recount(self) -> None:
        """Called when the waiting decisions changed otherwise than by ask and tell."""

    def _number(self, reward: Any) -> float:
        value = as_number(reward)
        if abs(value) > self.largest:
            raise InvalidArgument("reward", reward, f"a number of size up to {self.largest:g}")
        return value

    @staticmethod
    def _keys(decisions: Sequence[Decision | str]) -> list[str]:
        if isinstance(decisions, dict) or not isinstance(decisions, Iterable):
            raise InvalidArgument("decision", decisions, "a decision, its id, or a list of them")
        out = [each.id if isinstance(each, Decision) else each for each in decisions]
        for key in out:
            if not isinstance(key, str):
                raise InvalidArgument("decision", key, "a decision or its id")
        return out

    def _check_waiting(self, keys: list[str]) -> None:
        seen: set[str] = set()
        for key in keys:
            if key not in self._pending:
                raise self._cannot_tell(key)
            if key in seen:
                raise AlreadyTold(f"decision {key!r} comes twice in one batch")
            seen.add(key)

    def _cannot_tell(self, key: object) -> Exception:
        tag, _, number = str(key).rpartition("-")
        if tag == self._tag and number.isdecimal() and 0 < int(number) <= self._issued:
            return AlreadyTold(f"decision {key!r} has been told its reward already")
        return UnknownDecision(f"decision {key!r} was not issued by this policy")

    @property
    def waiting(self) -> list[str]:
        """Ids of the decisions whose rewards have not come yet, oldest first."""
        return list(self._pending)

    @property
    def rounds(self) -> int:
        """Rounds so far: decisions asked for, and history learned."""
        return int(self._state.clock[0])

    # --- what it believes ---

    def estimates(self, *, features: Any = None) -> Any:
        """Estimated mean reward of every arm: an array, or a Series for labelled arms."""
        table = self._round_features(features)
        with self._lock:
            values = np.array(estimate(self.params, self._state, table))
        return self.arms.labelled(values)

    def probabilities(
        self, *, available: Iterable[Any] | None = None, features: Any = None, draws: int = 10_000
    ) -> Any:
        """Each arm's chance in the next ``ask``.

        Exact, except for Thompson sampling, where it is the share of ``draws`` posterior
        draws. Reading it changes no later decision.
        """
        arms = self._everything if available is None else self.arms.subset(available)
        table = self._round_features(features)
        out = np.zeros(self.arms.count)
        with self._lock:
            out[arms] = self._probabilities(table, arms, draws)
        return self.arms.labelled(out)

    def _probabilities(self, features: FloatArray, available: IntArray, draws: int) -> FloatArray:
        return probabilities(self.params, self._state, features, available)

    def rank(self, k: int | None = None, *, features: Any = None) -> list[Any]:
        """The ``k`` best arms by estimate, best first; all of them by default."""
        count = self.arms.count if k is None else whole("k", k, 1)
        table = self._round_features(features)
        with self._lock:
            values = np.array(estimate(self.params, self._state, table))
        order = np.argsort(-values, kind="stable")[:count]
        return [self.arms.labels[arm] for arm in order]

    # --- what it has seen elsewhere ---

    def learn(
        self,
        arms: Sequence[Any],
        rewards: Sequence[float] | FloatArray,
        *,
        features: Any = None,
        probabilities: Any = None,
    ) -> None:
        """Take in history from before: which arms were played and what they gave.

        The rounds count on the clock; forced exploration is not shortened by them.

        Args:
            arms: the arm of each past round.
            rewards: its reward.
            features: (n, d) features that each had, for policies that take them.
            probabilities: with which chance each was chosen, for policies that weigh
                rewards by it; uniform by default.
        """
        positions = as_positions(self.arms, arms)
        values = np.array([self._number(v) for v in np.asarray(rewards, dtype=object).ravel()])
        if positions.size != values.size:
            raise InvalidArgument(
                "rewards", f"{values.size} rewards", f"{positions.size}, one an arm"
            )
        if positions.size == 0:
            return
        rows = self._history_features(features, positions.size)
        chances = self._history_chances(probabilities, positions.size)
        with self._lock:
            before = [(array, array.copy()) for _, array in saving.arrays(self._state)]
            try:
                self._learn(positions, values, rows, chances)
                self._state.clock[0] += positions.size
                rebuild(self.params, self._state)
            except np.linalg.LinAlgError as error:
                for array, copy in before:
                    array[...] = copy
                raise RolfError(
                    "the features are too far from each other in scale to be solved for: "
                    "centre or scale them"
                ) from error

    def _learn(
        self, positions: IntArray, rewards: FloatArray, rows: FloatArray, chances: FloatArray
    ) -> None:
        counts, sums = from_history(self.arms.count, positions, rewards)
        for path in self.totals:
            if path.endswith("counts"):
                saving.find(self._state, path)[:] += counts
            elif path.endswith("sums"):
                saving.find(self._state, path)[:] += sums

    def _history_features(self, features: Any, count: int) -> FloatArray:
        if features is not None:
            raise InvalidArgument("features", features, f"nothing: {self.name} has fixed features")
        return np.zeros((count, 0))

    def _history_chances(self, given: Any, count: int) -> FloatArray:
        if given is None:
            return np.full(count, 1.0 / self.arms.count)
        values = np.array(given, dtype=np.float64).ravel()
        if values.size != count or not ((values > 0.0) & (values <= 1.0)).all():
            raise InvalidArgument("probabilities", given, f"{count} chances in (0, 1]")
        return values

    def _round_features(self, features: Any) -> FloatArray:
        if not self.varying:
            if features is not None:
                raise InvalidArgument(
                    "features", features, f"nothing: {self.name} has fixed features"
                )
            return self.arms.features
        return as_round_features(features, self.arms)

    # --- saving ---

    def state(self) -> dict[str, Any]:
        """Everything needed to go on elsewhere, as JSON-compatible data."""
        with self._lock:
            return saving.save(self)

    @classmethod
    def from_state(cls, state: dict[str, Any], *, seed: Seed = None) -> Policy:
        """Go on from a saved state, with the very decisions that would have come.

        With a ``seed`` the policy knows what the state knows but draws on its own, as one
        of several workers that start from the same state.
        """
        policy: Policy = saving.load(cls, cls._by_name, state, seed)
        return policy

    @staticmethod
    def merge(
        *states: dict[str, Any], base: dict[str, Any] | None = None, seed: Seed = None
    ) -> dict[str, Any]:
        """Add up the saved states of workers that ran the same policy apart.

        Each must have started empty, or all from the state ``base``, which then counts
        once. The merged state draws from ``seed`` and accepts the decisions that are
        still waiting.
        """
        merged: dict[str, Any] = saving.merge(Policy._by_name, states, base, seed)
        return merged

    @classmethod
    def _aligned(cls, states: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Saved states brought to where their totals can be added."""
        return states

    def __reduce__(self) -> tuple[Any, ...]:
        return Policy.from_state, (self.state(),)

    def __repr__(self) -> str:
        seen = f"{self.rounds} rounds, {len(self._pending)} waiting"
        return f"<{type(self).__name__} of {self.arms.count} arms, {seen}>"
