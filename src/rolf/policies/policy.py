"""The base class of all policies: ask and tell.

A policy's file declares a subclass of ``Policy``. Its constructor checks the options and composes
an estimator and a rule (``core/parts.py``).
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from rolf.arms.table import Arms, number_table
from rolf.checks import MAX_REWARD, as_number, generator, whole
from rolf.errors import InvalidArgument, RolfError
from rolf.estimators import contract as estimators
from rolf.estimators.contract import ArmTotals, History, traits_of
from rolf.kernel import body_of
from rolf.policies import history, registry
from rolf.policies.constructor_options import called_with
from rolf.policies.core import parts, rules
from rolf.policies.core.parts import Params
from rolf.policies.core.rounds import Context, Round
from rolf.policies.state import arrays, saving
from rolf.policies.state.pending import PendingDecisions, id_of
from rolf.types import Choice, Decision, FloatArray, Generator, IntArray, Seed

DRAWS = 1000  # to estimate the probability of a sampled decision


class Policy:
    """Ask for decisions, tell rewards: late, in any order, each once.

    Code that records decisions itself, as experiments do, takes single steps: ``round`` checks the
    arguments of an ask, ``decide`` chooses, ``keep`` is the part of the round's features to record,
    ``observe`` learns the reward. These steps work on ``state`` (a ``parts.State``: clock, pending
    decisions per arm, belief) without ids; ``params`` never changes. Call ``recompute`` after
    changing the totals in the state.
    """

    #: name in the catalogue, and one line for lists
    name: ClassVar[str] = ""
    summary: ClassVar[str] = ""
    #: whether every ask brings features
    varying: ClassVar[bool] = False
    #: the context that features are derived from, if they are not passed directly
    context: Context | None = None
    #: sets of options that compile to different code; the defaults come first
    variants: ClassVar[Sequence[Mapping[str, Any]]] = ({},)

    #: the options it was created with, as plain data
    options: dict[str, Any]
    #: the smallest and the largest reward it accepts
    reward_range: tuple[float, float] = (-MAX_REWARD, MAX_REWARD)

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.name = cls.__dict__.get("name") or ""  # names are not inherited
        registry.register(cls, cls.name)

    def __new__(cls, *args: Any, **kwargs: Any) -> Policy:
        policy = super().__new__(cls)
        policy.options = called_with(cls, args, kwargs)
        return policy

    def __init__(self, arms: Arms, params: Params, seed: Seed) -> None:
        _check_parts(params)
        self.arms = arms
        self.params = params
        self.state = parts.begin(params, arms.count)
        self.rng = generator(seed)
        self.decisions = PendingDecisions()
        self.traits = traits_of(type(params.model))
        self.totals = ("clock", *_in_belief(self.traits.totals))
        self.common = tuple(_in_belief(self.traits.common))
        self.derived = tuple(_in_belief(self.traits.derived))
        for path in self.totals:
            if not hasattr(arrays.find(self.state, path), "dtype"):
                raise InvalidArgument("totals", path, "the path of an array of the belief")
        self.reward_range = (-self.traits.largest, self.traits.largest)
        self._drawn = tuple(_in_belief(self.traits.drawn))
        self._everything: IntArray = np.arange(arms.count)
        self._lock = threading.RLock()

    # --- decisions ---

    def ask(
        self,
        *,
        available: Iterable[Any] | None = None,
        features: Any = None,
        context: Any = None,
    ) -> Decision:
        """Decide which arm to play next.

        Args:
            available: the arms to choose from; all by default.
            features: (K, d) features of this round, for policies that take them.
            context: the round's context, for policies created with one: entries by name, or in
                order.
        """
        round = self.round(available, features, context)
        with self._lock:
            return self._issue(round)[0]

    def ask_many(
        self,
        n: int,
        *,
        available: Iterable[Any] | None = None,
        features: Any = None,
        context: Any = None,
        distinct: bool = False,
    ) -> list[Decision]:
        """Make ``n`` decisions before any of their rewards is known.

        Args:
            n: how many decisions.
            available: the arms to choose from; all by default.
            features: (K, d) features of these rounds, for policies that take them.
            context: of these rounds, for policies created with one.
            distinct: choose ``n`` different arms, a slate, one after the other from the arms that
                remain. A decision's probability is conditional on the arms before it. Each counts
                as a round and has its own reward.
        """
        round = self.round(available, features, context)
        count = slate_size(n, round.available.size) if distinct else whole("n", n, 1)
        decisions = []
        with self._lock:
            for _ in range(count):
                decision, arm = self._issue(round)
                decisions.append(decision)
                if distinct:
                    round = round._replace(available=round.available[round.available != arm])
        return decisions

    def _issue(self, round: Round) -> tuple[Decision, int]:
        """The next decision, and the position of its arm."""
        choice, probability = self.decide(round)
        row = self.keep(round.features, choice.arm)
        key = self.decisions.add(choice, row.copy() if self.varying else row)
        labels = self.arms.labels
        matched = bool(choice.matched)
        decision = Decision(key, labels[choice.arm], probability, labels[choice.greedy], matched)
        return decision, int(choice.arm)

    def tell(self, decision: Decision | str, reward: float) -> None:
        """Report the reward of a decision.

        Args:
            decision: the decision, or its id.
            reward: a number of size up to 1e100; some policies accept a smaller range.
        """
        key, value = id_of(decision), self.check_reward(reward)
        with self._lock:
            choice, row = self.decisions.take(key)
            self.observe(choice, row, value)

    def tell_many(
        self,
        rewards: Mapping[Any, float] | Iterable[tuple[Decision | str, float]],
    ) -> None:
        """Report the rewards of several decisions; if one is refused, none is taken.

        Args:
            rewards: pairs of a decision, or its id, and its reward; or a mapping.
        """
        told = [(id_of(each), self.check_reward(reward)) for each, reward in _pairs(rewards)]
        with self._lock:
            self.decisions.check(key for key, _ in told)
            for key, value in told:
                choice, row = self.decisions.take(key)
                self.observe(choice, row, value)

    def forget(self, decision: Decision | str | Sequence[Decision | str]) -> None:
        """Give up on the rewards of one or several decisions, which can then no longer be told."""
        each = [decision] if isinstance(decision, Decision | str) else decision
        if isinstance(each, Mapping) or not isinstance(each, Iterable):
            raise InvalidArgument("decision", decision, "a decision, its id, or a list of them")
        keys = [id_of(one) for one in each]
        with self._lock:
            self.decisions.check(keys)
            for key in keys:
                self.decisions.take(key)
            self.count_pending()

    @property
    def pending(self) -> list[str]:
        """Ids of the decisions without a reward so far, oldest first."""
        return list(self.decisions.by_id)

    @property
    def rounds(self) -> int:
        """Number of rounds so far: decisions and history."""
        return int(self.state.clock[0])

    # --- what it believes ---

    def estimates(self, *, features: Any = None, context: Any = None) -> Any:
        """Estimated mean reward of every arm: an array, or a Series for named arms."""
        return self.arms.labelled(self._means(features, context))

    def probabilities(
        self,
        *,
        available: Iterable[Any] | None = None,
        features: Any = None,
        context: Any = None,
        draws: int = 10_000,
    ) -> Any:
        """The probability of each arm in the next ``ask``.

        Exact, except for Thompson sampling, where it is the share of ``draws`` posterior draws.
        Reading it does not affect later decisions.
        """
        round = self.round(available, features, context)
        draws = whole("draws", draws, 1)
        out = np.zeros(self.arms.count)
        with self._lock:
            out[round.available] = parts.probabilities(
                self.params, self.state, round.features, round.available, draws
            )
        return self.arms.labelled(out)

    def rank(self, k: int | None = None, *, features: Any = None, context: Any = None) -> list[Any]:
        """The ``k`` best arms by estimate, best first; all of them by default."""
        count = self.arms.count if k is None else whole("k", k, 1)
        order = np.argsort(-self._means(features, context), kind="stable")[:count]
        return [self.arms.labels[arm] for arm in order]

    def _means(self, features: Any, context: Any) -> FloatArray:
        table = self.round_features(features, context)
        with self._lock:
            return parts.means(self.params, self.state, table)

    # --- history ---

    def learn(
        self,
        arms: Sequence[Any],
        rewards: Sequence[float] | FloatArray,
        *,
        features: Any = None,
        context: Any = None,
        probabilities: Any = None,
    ) -> None:
        """Learn from earlier rounds: the arms that were played and their rewards.

        They count as rounds, and shorten RoLF's forced exploration, a number of uniform rounds:
        each arm's earlier rounds replace up to its equal share of these, by default two. Arms that
        are rare in the history are still explored.

        Args:
            arms: the arm of each round.
            rewards: its reward.
            features: (n, d) features of these arms, for policies that take them.
            context: (n, m) contexts of the rounds, for policies created with one.
            probabilities: of each choice, for policies that weight rewards by them; uniform by
                default.
        """
        positions = self.arms.positions(arms)
        values = np.array([self.check_reward(v) for v in np.asarray(rewards, dtype=object).ravel()])
        if values.size != positions.size:
            expected = f"{positions.size}, one per arm"
            raise InvalidArgument("rewards", f"{values.size} rewards", expected)
        past = self.past_rounds(positions, values, features, context, probabilities)
        if positions.size:
            self.learn_history(past)

    def learn_totals(
        self, counts: Any, sums: Any, squares: Any = None, *, level: float = 0.0
    ) -> None:
        """Learn from rewards that are known only as totals per arm.

        They count as rounds, as in ``learn``. Policies that need more than totals per arm
        (features that vary, pseudo-rewards) refuse.

        Args:
            counts: (K,) number of rewards of each arm.
            sums: (K,) their sums.
            squares: (K,) the sums of their squares, for policies that learn the noise.
            level: what was subtracted from every reward beforehand, to preserve digits of rewards
                far from zero.
        """
        totals = self.checked_totals(counts, sums, squares, level)
        self._take_in(parts.learn_totals, self.learns_totals, totals, totals.counts)

    def checked_totals(
        self, counts: Any, sums: Any, squares: Any = None, level: float = 0.0
    ) -> ArmTotals:
        """The arguments of ``learn_totals``, checked."""
        if squares is None and any(path.endswith("squares") for path in self.totals):
            raise InvalidArgument("squares", None, f"sums of squares, which {self.name} needs")
        return history.checked_totals(
            counts, sums, squares, level, arms=self.arms.count, reward_range=self.reward_range
        )

    @property
    def learns_totals(self) -> bool:
        """Whether totals per arm are enough to learn from; other policies need every round."""
        return estimators.learns_totals(self.params.model)

    def past_rounds(
        self,
        positions: IntArray,
        rewards: FloatArray,
        features: Any = None,
        context: Any = None,
        probabilities: Any = None,
    ) -> History:
        """A history of arms at these positions, with rewards that were checked before."""
        rows = self.past_features(positions, features, context)
        weights = history.checked_probabilities(probabilities, positions.size, self.arms.count)
        return History(positions, rewards, rows, weights)

    def learn_history(self, past: History) -> None:
        """Learn from a history that ``past_rounds`` checked."""
        played = np.bincount(past.positions, minlength=self.arms.count)
        self._take_in(parts.learn, estimators.learns(self.params.model), past, played)

    def _take_in(
        self, learn: Callable[..., None], can: bool, past: Any, played: FloatArray | IntArray
    ) -> None:
        """Add a history to the totals and recompute the rest, or change nothing; ``played`` is how
        often each arm is in it."""
        if not can:
            words = "totals per arm" if learn is parts.learn_totals else "history"
            raise RolfError(f"{self.name or type(self).__name__} cannot learn from {words}")
        with self._lock:
            state, rounds = self.state, int(played.sum())
            restore = arrays.remember(state)
            known = getattr(state.belief, "counts", np.zeros(self.arms.count))
            try:
                forced = self.forced_rounds(self.rounds + max(rounds, 1))
                explored = history.rounds_explored(played.astype(np.float64), known, forced)
                learn(self.params, state, past)
                state.clock[0] += rounds
                state.clock[1:2] += explored
                self.recompute()
            except np.linalg.LinAlgError as error:
                restore()
                raise RolfError(
                    "the scales of the features are too different to solve for: "
                    "centre or scale them"
                ) from error

    # --- one step at a time ---

    def round(
        self, available: Iterable[Any] | None = None, features: Any = None, context: Any = None
    ) -> Round:
        """The arguments of an ask, checked."""
        arms = self._everything if available is None else self.arms.subset(available)
        return Round(arms, self.round_features(features, context))

    def decide(
        self, round: Round, rng: Generator | None = None
    ) -> tuple[Choice, float | Callable[[], float]]:
        """Choose an arm, with this policy's random numbers or those of ``rng``.

        Returns the choice and its probability. If that can only be estimated, it is a function that
        does so from the belief at the time of the choice.
        """
        state = self.state
        clock = state.clock.copy()
        choice = parts.decide(
            self.params, state, round.features, round.available, self.rng if rng is None else rng
        )
        if math.isnan(choice.probability):
            return choice, self._probability_later(choice, clock, round)
        return choice, choice.probability

    def _probability_later(self, choice: Choice, clock: IntArray, round: Round) -> Any:
        """A function that estimates a choice's probability; ``clock`` is from before it."""
        remembered = ("clock", *self._drawn) if self._drawn else None
        params, state = self.params, arrays.copied(self.state, remembered)
        state.clock[:] = clock
        if remembered is None:
            state.pending[choice.arm] -= 1.0
        features = round.features.copy() if self.varying else round.features
        available = round.available

        def probability() -> float:
            shares = parts.probabilities(params, state, features, available, DRAWS)
            won = shares[np.searchsorted(available, choice.arm)] * DRAWS
            return float((won + 1.0) / (DRAWS + 1.0))  # the decision counts as a draw

        return probability

    def keep(self, features: FloatArray, arm: int) -> FloatArray:
        """The part of a round's features (K, d) that ``observe`` needs, as a vector."""
        return parts.keep(self.params, features, arm)

    def observe(self, choice: Choice, row: FloatArray, reward: float) -> None:
        """Learn the reward of a choice; ``row`` is what ``keep`` returned in its round."""
        parts.observe(self.params, self.state, choice, row, reward)

    def recompute(self) -> None:
        """Recompute everything that follows from the totals."""
        parts.recompute(self.params, self.state)

    def check_reward(self, reward: Any) -> float:
        """A reward as a number; raises if this policy does not accept it."""
        value = as_number(reward)
        low, high = self.reward_range
        if not low <= value <= high:
            limits = f"of size up to {high:g}" if low == -high else f"from {low:g} to {high:g}"
            raise InvalidArgument("reward", reward, f"a number {limits}")
        return value

    def round_features(self, features: Any = None, context: Any = None) -> FloatArray:
        """The features (K, d) of a round, as passed or derived from its context."""
        if self.context is not None:
            self._check_no_features(features)
            return self.context.of_all(self.arms.features, self.context.vector(context))
        self._check_no_context(context)
        if self.varying:
            return self.arms.round_features(features)
        if features is not None:
            expected = f"nothing: {self.name} has fixed features; rolf-bayes-varying takes them"
            raise InvalidArgument("features", features, expected)
        return self.arms.features

    def past_features(
        self, positions: IntArray, features: Any = None, context: Any = None
    ) -> FloatArray:
        """The features (n, d) of a history's arms in their rounds."""
        count = positions.size
        if self.context is not None:
            self._check_no_features(features)
            contexts = self.context.table(context)
            if contexts.shape[0] != count:
                raise InvalidArgument("context", f"{contexts.shape[0]} contexts", f"{count}")
            return self.context.features(self.arms.features[positions], contexts)
        self._check_no_context(context)
        if self.varying:
            if features is None:
                raise InvalidArgument("features", None, "the features of each round")
            return number_table(features, rows=count, columns=self.arms.features.shape[1])
        if features is not None:
            raise InvalidArgument("features", features, f"nothing: {self.name} has fixed features")
        return np.zeros((count, 0))

    def _check_no_features(self, features: Any) -> None:
        if features is not None:
            expected = "nothing: features are derived from the context and the arms' features"
            raise InvalidArgument("features", features, expected)

    def _check_no_context(self, context: Any) -> None:
        if context is not None:
            expected = f"nothing: {self.name} was created without the option context"
            raise InvalidArgument("context", context, expected)

    def typical_features(self) -> FloatArray:
        """Features (K, d) typical of a round."""
        if self.context is None:
            return self.arms.features
        return self.context.typical(self.arms.features)

    @property
    def whole(self) -> bool:
        """Whether learning a reward takes the features of all arms in its round."""
        if not self.varying:
            return False
        table = self.typical_features()
        return bool(self.keep(table, 0).size > table.shape[1])

    @property
    def sequential(self) -> bool:
        """Whether what a reward adds to the totals depends on earlier rewards."""
        return self.traits.sequential or self.traits.additive is not True

    def forced_rounds(self, horizon: int) -> float:
        """How many rounds up to the horizon explore regardless of what has been learned."""
        return rules.forced_rounds(self.params.rule, horizon)

    def part_classes(self) -> tuple[type, ...]:
        """The classes of the params and of all their parts."""
        return tuple(parts.part_classes(self.params))

    def count_pending(self) -> None:
        """Recount the pending decisions per arm, after a change other than by ask and tell."""
        self.state.pending[:] = 0.0
        for each in self.decisions.by_id.values():
            self.state.pending[each.choice.arm] += 1.0

    def double(self, state: Any, **attributes: Any) -> Any:
        """A copy of this policy with another state, its own decisions and its own random
        numbers."""
        double = object.__new__(type(self))
        own = {"decisions": PendingDecisions(), "rng": np.random.default_rng(0)}
        vars(double).update(vars(self), state=state, **own, **attributes)
        return double

    # --- saving ---

    def to_dict(self) -> dict[str, Any]:
        """Everything needed to continue elsewhere, as JSON-compatible data."""
        with self._lock:
            return saving.save(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any], *, seed: Seed = None) -> Any:
        """Continue from saved data, with the decisions that the policy would have made.

        With a ``seed`` it has the same knowledge but its own random numbers, as one of several
        workers that start from the same data.
        """
        return saving.load(cls, data, seed)

    @staticmethod
    def merge(
        *saved: dict[str, Any], base: dict[str, Any] | None = None, seed: Seed = None
    ) -> dict[str, Any]:
        """Merge the saved data of workers that ran the same policy independently.

        All must have started empty, or all from the data ``base``, which then count once. The
        merged policy draws from ``seed`` and accepts rewards of decisions that are still pending.
        """
        return saving.merge(saved, base, seed)

    def __reduce__(self) -> tuple[Any, ...]:
        return Policy.from_dict, (self.to_dict(),)

    def __repr__(self) -> str:
        seen = f"{self.rounds} rounds, {len(self.pending)} pending"
        return f"<{type(self).__name__} of {self.arms.count} arms, {seen}>"


def _check_parts(params: Params) -> None:
    """Raise if a part lacks an operation, and say which."""
    needed: list[tuple[Callable[..., Any], Any]] = [
        *((operation, params.model) for operation in estimators.REQUIRED),
        *((operation, params.rule) for operation in rules.REQUIRED),
    ]
    for operation, part in needed:
        body_of(operation, type(part))


def _in_belief(paths: Iterable[str]) -> Iterator[str]:
    return (f"belief.{path}" for path in paths)


def _pairs(rewards: Any) -> list[tuple[Any, Any]]:
    """Decisions and rewards as pairs."""
    pairs = rewards.items() if isinstance(rewards, Mapping) else rewards
    if isinstance(pairs, str) or not isinstance(pairs, Iterable):
        raise InvalidArgument("rewards", rewards, "pairs of a decision and its reward")
    listed = list(pairs)
    for each in listed:
        if not isinstance(each, tuple | list) or len(each) != 2:
            raise InvalidArgument("rewards", each, "a pair of a decision and its reward")
    return [(decision, reward) for decision, reward in listed]


def slate_size(n: Any, available: int) -> int:
    """The size of a slate, at most the number of available arms."""
    count = whole("n", n, 1)
    if count > available:
        raise InvalidArgument("n", n, f"at most {available}, the number of available arms")
    return count
