"""Policies on a log: values of fixed rules by importance weights, and what learning policies
accept."""

from __future__ import annotations

import inspect
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from rolf.arms.table import Arms
from rolf.augment import Augmentation
from rolf.evaluation.offpolicy import fixed_model, varying_model
from rolf.evaluation.passes import Plan, Rule, Tally, added, square_features, tally
from rolf.evaluation.sums import Sums, Weights, sums_of
from rolf.logs.log import Log, LogFiles
from rolf.logs.reader import LogPart
from rolf.logs.rounds import Contexts, contexts_of, varying_features
from rolf.parallel.sections import Section, Workers, sections
from rolf.policies.state.arrays import remember
from rolf.simulation.entries import Entry
from rolf.tables.labels import Lookup
from rolf.types import FloatArray, IntArray

BLOCKS = 5  # of the reward model


class Ticker:
    """Advances a progress bar by a number of steps as rows are read."""

    def __init__(self, advance: Callable[[str], None], label: str, steps: int) -> None:
        self._advance, self._label, self._steps = advance, label, steps
        self._done, self._rows = 0, 0

    def __call__(self, rows: int, total: int) -> None:
        """Count ``rows`` more of ``total`` rows as read."""
        self._rows += rows
        while self._done < min(self._steps * self._rows // total, self._steps):
            self._done += 1
            self._advance(self._label)


class Round(NamedTuple):
    """A batch of a log's decisions, with arms as positions."""

    positions: IntArray
    probabilities: FloatArray
    rewards: FloatArray
    contexts: Contexts | None


class Source(NamedTuple):
    """What a worker needs of a log."""

    parts: Sequence[LogPart]
    sizes: Sequence[int]
    arms: Arms
    typical: FloatArray | None  # (K, d) features of the rounds, where they vary

    def rounds(self, start: int, stop: int, varying: bool) -> Iterator[Round]:
        """Decisions from ``start`` to ``stop``, batch by batch."""
        lookup = Lookup(self.arms.labels)
        for section in sections(self.sizes, self.parts, start, stop):
            for rows in section.part.decisions(section.start, section.stop, varying):
                contexts = contexts_of(rows.columns, self.arms, rows.size) if varying else None
                yield Round(rows.positions(lookup), rows.probabilities, rows.rewards, contexts)

    def policy(self, entry: Entry, seed: int, **options: Any) -> Any:
        """A new policy; its entry's options take precedence."""
        table = self.typical if entry.build.varying else self.arms.features
        stream = np.random.SeedSequence(seed, spawn_key=(zlib.crc32(entry.label.encode()),))
        return entry.build(table, seed=stream, **{**options, **entry.options})


class Study:
    """A log and the policies to evaluate on it."""

    def __init__(
        self,
        log: Log | LogFiles,
        arms: Arms,
        entries: Sequence[Entry],
        seed: int,
        cut: int,
        workers: Workers,
    ) -> None:
        self.log, self.arms, self.entries, self.seed, self.cut = log, arms, entries, seed, cut
        self.workers = workers
        self.varying = any(entry.build.varying for entry in entries)
        self.source = Source(log.parts, log.sizes, arms, None)
        if self.varying:
            self.source = self.source._replace(typical=self._typical())

    def _sections(self, start: int, stop: int) -> list[Section]:
        return sections(self.log.sizes, self.log.parts, start, stop)

    def _typical(self) -> FloatArray:
        """The typical size of the features of the rounds, as root mean squares."""
        kept, size = self._sections(0, len(self.log)), len(self.log)
        squares = sum(self.workers.results(partial(square_features, self.arms), kept, size))
        names = varying_features(self.log.columns, self.arms)
        fixed = [each not in names for each in self.arms.columns]
        return np.hstack([self.arms.features[:, fixed], np.sqrt(squares / size)])

    # --- fixed rules ---

    def evaluate(self, names: Sequence[str], limit: float, tick: Ticker) -> Tally:
        """What rules earn on later decisions, after learning from the first ones."""
        level = float(next(self.source.rounds(0, 1, False)).rewards[0])
        dr = "dr" in names
        plan = Plan(self.arms, level, varying=self.varying and dr, features=self.varying and dr)
        learned = self._pass(plan, 0, self.cut, tick)
        rules = [self._rule(entry, learned) for entry in self.entries] if names else []
        plan = plan._replace(
            centre=level + float(learned.totals.sums.sum()) / self.cut,
            common=learned.spread.common,
            estimators=tuple(names),
            limit=limit,
            features=self.varying and bool(names),
        )
        while True:
            seen = self._evaluate(plan, rules, learned, tick)
            if seen.spread.common == plan.common:
                return seen
            plan = plan._replace(common=seen.spread.common)

    def _evaluate(self, plan: Plan, rules: list[Rule], seen: Tally, tick: Ticker) -> Tally:
        """Evaluate block by block, each with reward models fitted to everything before it."""
        size = len(self.log) - self.cut
        blocks = BLOCKS if "dr" in plan.estimators else 1
        starts = np.cumsum([0, *(each.size for each in np.array_split(np.empty(size), blocks))])
        augmented = Augmentation(self.arms.features) if "dr" in plan.estimators else None
        for start, stop in pairwise((starts + self.cut).tolist()):
            if start == stop:
                continue
            if augmented is not None:
                fixed = fixed_model(augmented, seen.totals)
                moving = None if seen.varying is None else varying_model(seen.varying, plan.level)
                models = [fixed if rule.policy is None else moving for rule in rules]
                pairs = zip(rules, models, strict=True)
                rules = [rule._replace(model=model) for rule, model in pairs]
            seen = seen.plus(self._pass(plan._replace(rules=tuple(rules)), start, stop, tick))
        return seen

    def _pass(self, plan: Plan, start: int, stop: int, tick: Ticker) -> Tally:
        tasks = self._sections(start, stop)
        function = partial(tally, plan, ahead=self.workers.leaves_cores(len(tasks), stop - start))

        def ticked() -> Iterator[Tally]:
            results = self.workers.results(function, tasks, stop - start)
            for task, result in zip(tasks, results, strict=True):
                tick(task.stop - task.start, len(self.log))
                yield result

        return added(ticked())

    def _rule(self, entry: Entry, learned: Tally) -> Rule:
        """The rule of a policy after learning from the first decisions."""
        parameters = inspect.signature(entry.build).parameters
        options = {"exploration": 0} if "exploration" in parameters else {}
        policy = self.source.policy(entry, self.seed, **options)
        if policy.learns_totals:
            for reward in (learned.spread.low, learned.spread.high):
                policy.check_reward(reward)  # raises if the policy does not accept it
            totals = learned.totals
            policy.learn_totals(*totals[:3], level=totals.level)
        else:
            for each in self.source.rounds(0, self.cut, policy.varying):
                rounds = np.arange(each.positions.size)
                rows = None if each.contexts is None else each.contexts.rows(rounds, each.positions)
                policy.learn(
                    each.positions, each.rewards, features=rows, probabilities=each.probabilities
                )
        if policy.varying:
            return Rule(entry.label, None, policy)
        return Rule(entry.label, np.array(policy.probabilities()))

    # --- learning policies ---

    def replay(self, seen: Tally, advance: Callable[[str], None], steps: int) -> dict[str, Sums]:
        """The rewards that every policy accepts, learning from scratch."""
        assert seen.logged is not None
        function = partial(
            replayed,
            self.source,
            seed=self.seed,
            centre=seen.logged.centre,
            common=seen.spread.common,
            least=seen.least if self.log.contextual else None,
        )
        if self.workers.backend in ("dask", "ray"):
            sums = list(self.workers.results(function, self.entries, len(self.log)))
            for entry in self.entries:
                for _ in range(steps):
                    advance(entry.label)
            return dict(zip((entry.label for entry in self.entries), sums, strict=True))
        return {
            entry.label: function(entry, tick=Ticker(advance, entry.label, steps))
            for entry in self.entries
        }


def replayed(
    source: Source,
    entry: Entry,
    *,
    seed: int,
    centre: float,
    common: float | None,
    least: float | None,
    tick: Ticker | None = None,
) -> Sums:
    """The rewards that a learning policy accepts. In a contextual log, whose smallest probability
    is ``least``, decisions are thinned first."""
    policy = source.policy(entry, seed)
    coin = np.random.default_rng([seed, 2])
    accept = _accept_varying if policy.varying else _PendingDecision()
    size = sum(source.sizes)
    sums = Sums(centre)
    for each in source.rounds(0, size, policy.varying):
        rows = np.arange(each.positions.size)
        if least is not None:
            rows = rows[coin.random(rows.size) * each.probabilities < least]
        rewards = each.rewards[accept(policy, each, rows)]
        weights = Weights.of(None, rewards, common)
        sums = sums.plus(sums_of(centre, rewards - centre, weights))
        if tick is not None:
            tick(each.positions.size, size)
    return sums


class _PendingDecision:
    """Matches a policy's decision with the next logged one for the same arm."""

    def __init__(self) -> None:
        self.decision: Any = None

    def __call__(self, policy: Any, rounds: Round, rows: IntArray) -> list[int]:
        played = rounds.positions[rows]
        order = np.argsort(played, kind="stable")
        starts = np.searchsorted(played[order], np.arange(policy.arms.count + 1)).tolist()
        by_arm = order.tolist()
        used = starts[:-1]
        accepted, place = [], 0
        while place < rows.size:
            self.decision = self.decision or policy.ask()
            arm = self.decision.arm
            while used[arm] < starts[arm + 1] and by_arm[used[arm]] < place:
                used[arm] += 1
            if used[arm] == starts[arm + 1]:
                break  # not in this batch
            place = by_arm[used[arm]]
            row = int(rows[place])
            policy.tell(self.decision, float(rounds.rewards[row]))
            accepted.append(row)
            self.decision = None
            place += 1
        return accepted


def _accept_varying(policy: Any, rounds: Round, rows: IntArray) -> list[int]:
    """The rows in which a policy that takes the features of the round decides the same."""
    assert rounds.contexts is not None
    accepted = []
    played = rounds.positions.tolist()
    for row in rows.tolist():
        restore = remember(policy.state)
        decision = policy.ask(features=rounds.contexts.table(row))
        if decision.arm != played[row]:  # continue as if it had not been asked
            policy.forget(decision)
            restore()
            continue
        policy.tell(decision, float(rounds.rewards[row]))
        accepted.append(row)
    return accepted
