"""Ask and tell: what every policy offers its user.

A policy's file declares a subclass of ``Policy`` whose constructor checks its options and names
the parts that it is composed of. ``operations.py`` is the contract that all policies keep.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, overload

import numpy as np

from rolf.arms.table import Arms
from rolf.checks import MAX_REWARD, as_number, generator, whole
from rolf.errors import AlreadyTold, InvalidArgument, UnknownDecision
from rolf.estimators.contract import own_features, traits_of
from rolf.kernel import body_of, has_body, implement
from rolf.policies.beliefs import ShowsBeliefs
from rolf.policies.catalogue import CATALOG
from rolf.policies.core.parts import Params, part_classes
from rolf.policies.core.rounds import Context
from rolf.policies.history import LearnsHistory
from rolf.policies.operations import (
    REQUIRED,
    Pending,
    choose,
    init,
    kept_features,
    probabilities,
    update,
)
from rolf.policies.recording import called_with
from rolf.policies.state import arrays, saving
from rolf.types import Choice, Decision, FloatArray, IntArray, Seed

DRAWS = 1000  # for the probability of a sampled decision, when it is read


class Policy(ShowsBeliefs, LearnsHistory):
    """Ask for decisions, tell rewards: late, in any order, each once."""

    #: name in the catalogue, and one line for lists
    name: ClassVar[str] = ""
    summary: ClassVar[str] = ""
    #: whether features come with every ask
    varying: ClassVar[bool] = False
    #: from what such features are made, if they are not given as they are
    context: Context | None = None
    #: options with which other code is compiled than with the defaults, which come first
    variants: ClassVar[Sequence[Mapping[str, Any]]] = ({},)
    #: classes that gave themselves a name, by it
    named: ClassVar[dict[str, type[Policy]]] = {}

    #: paths of state arrays that add up over workers; of those that are the same in all states
    #: to be added, once they are aligned; and of those too large to save, which are rebuilt.
    #: Composed policies have them from their estimator.
    totals: tuple[str, ...] = ("clock",)
    common: tuple[str, ...] = ()
    derived: tuple[str, ...] = ()
    #: paths that older states lack, and that only they have; and, where they are few, of what a
    #: draw depends on. Composed policies have them from their estimator.
    added: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    drawn: tuple[str, ...] = ()
    #: whether what a reward adds to the totals depends on the rewards before it
    sequential: bool = False
    #: the smallest and the largest reward that it takes
    reward_range: tuple[float, float] = (-MAX_REWARD, MAX_REWARD)
    #: the options that it was made with, as plain data
    options: dict[str, Any]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        name = cls.__dict__.get("name")  # a subclass that gives itself no name has none
        cls.name = name or ""
        known = Policy.named.get(cls.name)
        reference = f"{cls.__module__}:{cls.__qualname__}"
        if CATALOG.get(cls.name, reference) != reference:
            raise InvalidArgument("name", name, "a name that is not in the catalogue")
        if known is not None and known.__qualname__ != cls.__qualname__:
            raise InvalidArgument("name", name, f"a name that {known.__name__} does not have")
        if name:
            Policy.named[name] = cls

    def __new__(cls, *args: Any, **kwargs: Any) -> Policy:
        policy = super().__new__(cls)
        policy.options = called_with(cls, args, kwargs)
        return policy

    def __init__(self, arms: Arms, params: Any, seed: Seed) -> None:
        for operation in REQUIRED:
            body_of(operation, type(params))  # says what is missing
        if not has_body(kept_features, type(params)):
            implement(type(params), {kept_features: own_features})
        self.arms = arms
        self.params = params
        self._state = init(params, arms.count)
        self._rng = generator(seed)
        if isinstance(params, Params):
            traits = traits_of(type(params.model))
            self.totals = ("clock", *(f"belief.{path}" for path in traits.totals))
            for name in ("common", "derived", "added", "gone", "drawn"):
                setattr(self, name, tuple(f"belief.{path}" for path in getattr(traits, name)))
            self.reward_range = (-traits.largest, traits.largest)
            self.sequential = traits.sequential
        for path in self.totals:
            if not hasattr(arrays.find(self._state, path), "dtype"):
                raise InvalidArgument("totals", path, "the path of an array of State")
        self._lock = threading.RLock()
        self._choose = body_of(choose, type(params))
        self._kept_features = body_of(kept_features, type(params))
        self._update = body_of(update, type(params))
        self._everything: IntArray = np.arange(arms.count)
        self._remembered = ("clock", *self.drawn) if self.drawn else None
        self._pending: dict[str, Pending] = {}
        self._issued = 0
        self._tag = saving.tag()

    # --- decisions ---

    @overload
    def ask(
        self,
        n: None = None,
        *,
        available: Iterable[Any] | None = None,
        features: Any = None,
        context: Any = None,
        distinct: bool = False,
    ) -> Decision: ...
    @overload
    def ask(
        self,
        n: int,
        *,
        available: Iterable[Any] | None = None,
        features: Any = None,
        context: Any = None,
        distinct: bool = False,
    ) -> list[Decision]: ...
    def ask(
        self,
        n: int | None = None,
        *,
        available: Iterable[Any] | None = None,
        features: Any = None,
        context: Any = None,
        distinct: bool = False,
    ) -> Decision | list[Decision]:
        """Decide which arm to play next.

        Args:
            n: give a list of this many decisions before any reward is known.
            available: the arms to choose from; all by default.
            features: (K, d) features of this round, for policies that take them.
            context: of this round, for policies that were created with one: its entries by name,
                or in order.
            distinct: a slate, ``n`` different arms. They are chosen one after the other, each from
                those that are left; a decision's probability is the chance of its arm at its
                place, given the arms before it. Each counts as a round and gets its own reward.
        """
        arms = self._everything if available is None else self.arms.subset(available)
        table = self._round_features(features, context)
        if n is None:
            with self._lock:
                return self._decide(arms, table)[0]
        count = whole("n", n, 1) if not distinct else slate_size(n, arms.size)
        decisions = []
        with self._lock:
            for _ in range(count):
                decision, arm = self._decide(arms, table)
                decisions.append(decision)
                if distinct:
                    arms = arms[arms != arm]
        return decisions

    def _decide(self, available: IntArray, features: FloatArray) -> tuple[Decision, int]:
        """The next decision, and the position of its arm."""
        clock = self._state.clock.copy()
        choice = self._choose(self.params, self._state, features, available, self._rng)
        chance = self._chance_later(choice, clock, features, available)
        self._issued += 1
        key = f"{self._tag}-{self._issued}"
        row = self._kept_features(self.params, features, choice.arm)
        self._pending[key] = Pending(choice, row.copy() if self.varying else row)
        labels = self.arms.labels
        decision = Decision(
            key,
            labels[choice.arm],
            chance or choice.probability,
            labels[choice.greedy],
            bool(choice.matched),
        )
        return decision, int(choice.arm)

    def _chance_later(
        self, choice: Choice, clock: IntArray, features: FloatArray, available: IntArray
    ) -> Callable[[], float] | None:
        """Where a choice's probability can only be estimated: a function that does so.

        It remembers what was believed when the choice was made; ``clock`` is from before it.
        """
        if not math.isnan(choice.probability):
            return None
        params, state = self.params, arrays.copied(self._state, self._remembered)
        state.clock[:] = clock
        if hasattr(state, "waiting") and not self.drawn:
            state.waiting[choice.arm] -= 1.0
        table = features.copy() if self.varying else features

        def chance() -> float:
            shares = probabilities(params, state, table, available, DRAWS)
            won = shares[np.searchsorted(available, choice.arm)] * DRAWS
            return float((won + 1.0) / (DRAWS + 1.0))  # the decision was one more draw

        return chance

    def tell(
        self,
        decision: Decision | str | Sequence[Decision | str],
        reward: float | Sequence[float] | FloatArray,
    ) -> None:
        """Report the reward of a decision, or of a batch of them.

        Args:
            decision: a decision or its id; or a list of them, with a list of rewards.
            reward: a number of size up to 1e100; some policies take less.
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
                "reward", f"{len(values)} rewards", f"{len(keys)}, one per decision"
            )
        with self._lock:
            self._check_waiting(keys)
            for key, value in zip(keys, values, strict=True):
                pending = self._pending.pop(key)
                self._update(self.params, self._state, pending.choice, pending.row, value)

    def forget(self, decision: Decision | str | Sequence[Decision | str]) -> None:
        """Give up on the reward of a decision, or of a list of them: it can no longer be told."""
        one = isinstance(decision, Decision | str)
        keys = self._keys([decision] if one else decision)  # type: ignore[list-item,arg-type]
        with self._lock:
            self._check_waiting(keys)
            for key in keys:
                del self._pending[key]
            self._recount()

    def _recount(self) -> None:
        """Count the waiting decisions again, after a change other than by ask and tell."""
        waiting = getattr(self._state, "waiting", None)
        if waiting is not None:
            waiting[:] = 0.0
            for pending in self._pending.values():
                waiting[pending.choice.arm] += 1.0

    def _number(self, reward: Any) -> float:
        value = as_number(reward)
        low, high = self.reward_range
        if not low <= value <= high:
            limits = f"of size up to {high:g}" if low == -high else f"from {low:g} to {high:g}"
            raise InvalidArgument("reward", reward, f"a number {limits}")
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
                raise AlreadyTold(f"decision {key!r} comes twice in one batch", key)
            seen.add(key)

    def _cannot_tell(self, key: str) -> Exception:
        tag, _, number = key.rpartition("-")
        if tag == self._tag and number.isdecimal() and 0 < int(number) <= self._issued:
            return AlreadyTold(f"decision {key!r} has been told its reward already", key)
        return UnknownDecision(f"decision {key!r} was not issued by this policy", key)

    @property
    def waiting(self) -> list[str]:
        """Ids of the decisions whose rewards have not come yet, oldest first."""
        return list(self._pending)

    @property
    def rounds(self) -> int:
        """Rounds so far: decisions asked for, and history learned."""
        return int(self._state.clock[0])

    # --- what others need to know of it ---

    def forced_rounds(self, horizon: int) -> float:
        """How many rounds up to the horizon it explores whatever it has learned."""
        forced = getattr(getattr(self.params, "rule", None), "forced_rounds", None)
        return float(forced(horizon)) if forced is not None else 0.0

    @property
    def whole(self) -> bool:
        """Whether a reward needs the features that all arms had in its round."""
        if not self.varying:
            return False
        table = self._typical_features()
        return bool(self._kept_features(self.params, table, 0).size > table.shape[1])

    def part_classes(self) -> tuple[type, ...]:
        """The classes of the params and of all their parts."""
        return tuple(part_classes(self.params))

    # --- saving ---

    def state(self) -> dict[str, Any]:
        """Everything needed to go on elsewhere, as JSON-compatible data."""
        from rolf.policies.registry import policy_name

        name = policy_name(type(self))
        if "<locals>" in name:
            got, expected = f"{type(self).__name__}.name = ''", "a name, to find the class again"
            raise InvalidArgument("name", got, expected)
        with self._lock:
            return saving.save(self, name)

    @classmethod
    def from_state(cls, state: dict[str, Any], *, seed: Seed = None) -> Policy:
        """Go on from a saved state, with the decisions that it would have made.

        With a ``seed`` the policy knows what the state knows but draws on its own, as one
        of several workers that start from the same state.
        """
        from rolf.policies.registry import policy_class

        return saving.load(cls, policy_class, state, seed)

    @staticmethod
    def merge(
        *states: dict[str, Any], base: dict[str, Any] | None = None, seed: Seed = None
    ) -> dict[str, Any]:
        """Add up the saved states of workers that ran the same policy apart.

        Each must have started empty, or all from the state ``base``, which then counts
        once. The merged state draws from ``seed`` and accepts the decisions that are
        still waiting.
        """
        from rolf.policies.registry import policy_class

        return saving.merge(policy_class, states, base, seed)

    def _aligned(self, states: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Totals of saved states, by path, brought to where they can be added."""
        if not isinstance(self.params, Params):
            return states
        align = traits_of(type(self.params.model)).align
        if align is None:
            return states
        cut = len("belief.")
        beliefs = [{k[cut:]: v for k, v in s.items() if k != "clock"} for s in states]
        return [
            {"clock": state["clock"], **{f"belief.{k}": v for k, v in belief.items()}}
            for state, belief in zip(states, align(beliefs), strict=True)
        ]

    def __reduce__(self) -> tuple[Any, ...]:
        return Policy.from_state, (self.state(),)

    def __repr__(self) -> str:
        seen = f"{self.rounds} rounds, {len(self._pending)} waiting"
        return f"<{type(self).__name__} of {self.arms.count} arms, {seen}>"


def slate_size(n: Any, available: int) -> int:
    """How many different arms are asked for, at most those that are available."""
    count = whole("n", n, 1)
    if count > available:
        raise InvalidArgument("n", n, f"at most {available}, the number of available arms")
    return count
