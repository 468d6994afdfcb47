"""One pass over the decisions of a log. Each section is a task, and their results add up."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from rolf.arms.table import Arms
from rolf.estimators.contract import ArmTotals, History, arm_totals
from rolf.evaluation.offpolicy import VaryingModel, VaryingTotals, expected_variances
from rolf.evaluation.sums import Overlap, Spread, Sums, Weights, sums_of
from rolf.logs.reader import Decisions
from rolf.logs.rounds import Contexts, contexts_of
from rolf.parallel.sections import Section, read_ahead
from rolf.tables.labels import Lookup
from rolf.types import FloatArray, IntArray

DRAWS = 1000  # per round, for the probabilities of Thompson sampling
#: in sections with more decisions, a sample gives the most common reward
MANY = 1 << 17


class Rule(NamedTuple):
    """A policy that no longer learns: the probability of each arm (K,), or a policy that gives them
    for the features of a round; and the reward model of its doubly robust values."""

    label: str
    probabilities: FloatArray | None
    policy: Any = None
    model: FloatArray | VaryingModel | None = None


class Plan(NamedTuple):
    """What to add up.

    Attributes:
        arms: the table of arms.
        level: what is taken off rewards before they are added up per arm.
        centre: as in ``Sums``; None for a pass that only learns.
        common: the most common reward, if known.
        rules: the rules to evaluate.
        estimators: some of "ips", "snips", "dr".
        limit: the largest weight.
        features: whether to read the features of the rounds.
        varying: whether to add up totals for a reward model with varying features.
    """

    arms: Arms
    level: float
    centre: float | None = None
    common: float | None = None
    rules: tuple[Rule, ...] = ()
    estimators: tuple[str, ...] = ()
    limit: float = math.inf
    features: bool = False
    varying: bool = False


class RuleSums(NamedTuple):
    """Sums of one rule: its overlap with the log, and those of every estimator."""

    overlap: Overlap
    values: dict[str, Sums]

    def plus(self, other: RuleSums) -> RuleSums:
        values = {name: sums.plus(other.values[name]) for name, sums in self.values.items()}
        return RuleSums(self.overlap.plus(other.overlap), values)


class Tally(NamedTuple):
    """The totals of a pass: rewards per arm and their distribution, the smallest probability
    (infinite if none is known), the numbers of certain decisions and default rewards; in
    evaluations also the sums of the rewards and of every rule."""

    totals: ArmTotals
    spread: Spread
    least: float
    certain: int
    defaults: int
    varying: VaryingTotals | None
    logged: Sums | None
    rules: dict[str, RuleSums]

    def plus(self, other: Tally) -> Tally:
        mine, more = self.totals, other.totals
        sums, squares = mine.sums + more.sums, mine.squares + more.squares
        varying, logged = self.varying, self.logged
        if varying is not None and other.varying is not None:
            varying = varying.plus(other.varying)
        if logged is not None and other.logged is not None:
            logged = logged.plus(other.logged)
        return Tally(
            ArmTotals(mine.counts + more.counts, sums, squares, mine.level),
            self.spread.plus(other.spread),
            min(self.least, other.least),
            self.certain + other.certain,
            self.defaults + other.defaults,
            other.varying if varying is None else varying,
            other.logged if logged is None else logged,
            {label: sums.plus(other.rules[label]) for label, sums in self.rules.items()}
            or other.rules,
        )


def added(tallies: Iterable[Tally]) -> Tally:
    """The sum of tallies, added in their order."""
    return reduce(Tally.plus, tallies)


def tally(plan: Plan, section: Section, ahead: bool = False) -> Tally:
    """Add up a section of a log; with ``ahead``, the next rows are read meanwhile."""
    lookup = Lookup(plan.arms.labels)
    many = section.stop - section.start > MANY
    rows = section.part.decisions(section.start, section.stop, plan.features)
    parts = read_ahead(rows) if ahead else rows
    return added(_tally_rows(plan, each, each.positions(lookup), many) for each in parts)


def _tally_rows(plan: Plan, rows: Decisions, positions: IntArray, many: bool) -> Tally:
    rewards, probabilities = rows.rewards, rows.probabilities
    contexts = contexts_of(rows.columns, plan.arms, rows.size) if plan.features else None
    varying = logged = None
    if plan.varying and contexts is not None:
        varying = VaryingTotals.of(contexts, positions, rewards, plan.level)
    least = float(probabilities.min())
    if math.isnan(least):
        least = float(np.fmin.reduce(probabilities, initial=math.inf))
    certain = 0
    if not probabilities.max() < 1.0:
        certain = int(np.count_nonzero(probabilities >= 1.0))
    sums = {}
    if plan.centre is not None:
        deviations = rewards - plan.centre
        ones = Weights.of(None, rewards, plan.common)
        logged = sums_of(plan.centre, deviations, ones)
        sums = {
            rule.label: _weigh(plan, rule, rows, positions, contexts, certain)
            for rule in plan.rules
        }
    return Tally(
        _totals(plan, positions, rewards),
        Spread.of(rewards, sample=many),
        least,
        certain,
        0 if rows.defaults is None else int(rows.defaults.sum()),
        varying,
        logged,
        sums,
    )


def _totals(plan: Plan, positions: IntArray, rewards: FloatArray) -> ArmTotals:
    """Totals per arm; squares are needed only for learning."""
    if plan.centre is None:
        history = History(positions, rewards, np.zeros((0, 0)), np.zeros(0))
        return arm_totals(plan.arms.count, history, plan.level)
    counts = np.bincount(positions, minlength=plan.arms.count).astype(np.float64)
    sums = np.bincount(positions, rewards - plan.level, plan.arms.count).astype(np.float64)
    return ArmTotals(counts, sums, np.zeros(plan.arms.count), plan.level)


def _rule_probabilities(rule: Rule, contexts: Contexts | None) -> FloatArray:
    """Probabilities of all arms: (K,), or (n, K) for varying features."""
    if rule.probabilities is not None or contexts is None:
        assert rule.probabilities is not None
        return rule.probabilities
    rounds = range(contexts.moving.shape[0])
    tables = (contexts.table(round) for round in rounds)
    return np.array([rule.policy.probabilities(features=each, draws=DRAWS) for each in tables])


def _weigh(
    plan: Plan,
    rule: Rule,
    rows: Decisions,
    played: IntArray,
    contexts: Contexts | None,
    certain: int,
) -> RuleSums:
    """The sums of a fixed rule by ips, snips and dr."""
    probabilities = _rule_probabilities(rule, contexts)
    each = np.arange(rows.size) if probabilities.ndim == 2 else None
    own = probabilities.take(played) if each is None else probabilities[each, played]
    weights = own / rows.probabilities
    variances = expected_variances(probabilities, played, rows.probabilities, weights)
    overlap = Overlap.of(weights, certain, variances)
    if plan.limit < math.inf:
        weights = np.minimum(weights, plan.limit)
    centre, sums = float(plan.centre or 0.0), Weights.of(weights, rows.rewards, plan.common)
    values = {}
    for name in plan.estimators:
        scale = None
        if name == "snips":
            x, scale = weights * (rows.rewards - centre), weights
        elif name == "ips":
            x = weights * rows.rewards
            x -= centre
        elif isinstance(rule.model, VaryingModel):
            assert contexts is not None
            model = rule.model.means(contexts)
            x = weights * (rows.rewards - model[np.arange(rows.size), played])
            x += (model * probabilities).sum(axis=1) - centre
        else:
            assert rule.model is not None
            x = rows.rewards - rule.model.take(played)
            x *= weights
            x += float((rule.model * probabilities).sum()) - centre
        values[name] = sums_of(centre, x, sums, scale)
    return RuleSums(overlap, values)


def square_features(arms: Arms, section: Section) -> FloatArray:
    """The sums (K, m) of squares of the varying features."""
    out: FloatArray | None = None
    for rows in section.part.decisions(section.start, section.stop, True):
        contexts = contexts_of(rows.columns, arms, rows.size)
        assert contexts is not None
        squares = (contexts.moving**2).sum(axis=0)
        out = squares if out is None else out + squares
    assert out is not None
    return out
