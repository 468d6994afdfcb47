"""What would another policy have earned? Policies evaluated on logged decisions.

Write q_i for the chance with which the logged arm a_i was chosen, y_i for its reward, and
w_i = pi(a_i)/q_i for the importance weight under the evaluated rule pi.

* ``replay`` (Li et al. 2011) plays the *learning* policy along the log: a logged decision is
  accepted where the policy decides the same, and only then does it learn. Its value is the mean
  reward of the accepted decisions. If the log is contextual, decisions are thinned first: they
  are kept with probability min(q)/q_i, which makes the kept ones uniform over arms in every
  round. Otherwise the policy's decision waits for the next logged one of the same arm: an arm's
  rewards have the same distribution whenever it is played, so no thinning, and no q, is needed.
* The others evaluate a *fixed* rule: what the policy would do next after learning from the first
  part of the log, according to ``policy.probabilities()``; forced exploration counts as done.
  They use only the rest of the log:

      ips    mean of w_i y_i
      snips  sum of w_i y_i / sum of w_i
      dr     mean of sum_a pi(a) m(a) + w_i (y_i - m(a_i))

  with m a ridge regression on augmented features. It is fitted again for each of five blocks, on
  everything before the block, so that no reward is predicted from itself or from a later one.

The docstring of ``replay`` says what each of them assumes.
"""

from __future__ import annotations

import inspect
import math
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from rolf.arms.table import Arms
from rolf.augment import Augmentation
from rolf.checks import between, one_of, whole
from rolf.errors import InvalidArgument, RolfWarning
from rolf.evaluation.logs import Contexts, Log, read_log
from rolf.evaluation.offpolicy import (
    NEEDS_OVERLAP,
    Scorer,
    check_overlap,
    expected_variance,
    fixed_model,
    varying_model,
)
from rolf.evaluation.result import LOGGED, Evaluation, Value
from rolf.extras import require
from rolf.policies.arrays import remember
from rolf.progress import progress_bar
from rolf.simulation.specs import Entry, read_policies
from rolf.types import FloatArray, IntArray

ESTIMATORS = ("replay", "ips", "snips", "dr")
BLOCKS = 5  # of the reward model
DRAWS = 1000  # per round, for the chances of Thompson sampling
NEEDS_CHANCES = (
    "the chance of every decision: in this log it may depend on what also moves the rewards"
)
TICKS = 20  # of the progress bar, per policy and part

Ticker: TypeAlias = "Callable[[IntArray], Iterator[int]]"


def replay(
    log: Log | str | Path,
    features: Any,
    policies: Mapping[str, Any] | Sequence[str],
    *,
    seed: int = 0,
    level: float = 0.95,
    estimators: Sequence[str] = ESTIMATORS,
    split: float = 0.5,
    clip: float | None = None,
    interval: str = "normal",
    progress: bool | Callable[[str], None] | None = None,
) -> Evaluation:
    """Evaluate policies on a logged experiment.

    All estimators assume that rewards do not change over time, that they are the arms' own
    and not defaults for rewards that never came, and that every arm of ``features`` could be
    chosen in every round. Beyond that:

    * "replay" evaluates the policy learning from scratch, over as many rounds as were accepted:
      about n/K of n logged decisions if those were uniform. In a contextual log all chances must
      be known and positive; in any other, the arms that the policy tries must have been logged.
    * "ips" evaluates the rule learned from the first part. Chances must be known, and positive
      wherever the rule's are (overlap). Unbiased. A deterministic rule gives one arm chance 1,
      so that only logged decisions for that arm count.
    * "snips" evaluates and assumes the same. Biased by O(1/n), but a shift of all rewards
      shifts it by as much, and it varies less where weights vary.
    * "dr" evaluates and assumes the same. Unbiased; the better the reward model, the less it
      varies.

    The interval of "replay" is about the decisions of this one pass; other seeds show how lucky
    the learning was. Weights that cannot come from overlap are refused: with a warning, or with
    an error if that leaves no row. An effective sample size below 50 gives a warning, too.

    Args:
        log: what ``read_log`` returns, or the path of a file for it.
        features: (K, d) features of the arms as for a policy, what ``read_arms`` returns, or
            the path of a file for it. Arms are matched by name.
        policies: for each label a policy as in ``rolf.simulate``; or a list of names.
        seed: same seed, same values.
        level: of the confidence intervals.
        estimators: some of "replay", "ips", "snips", "dr".
        split: the share of the log, from its start, that fixed rules learn from.
        clip: largest weight; larger ones are cut, which adds bias and reduces variance.
        interval: "normal", or "bootstrap" for percentiles over resampled decisions.
        progress: show a progress bar; by default on a terminal.
    """
    require("scipy", "replay")
    log = log if isinstance(log, Log) else read_log(log)
    arms = Arms.read(features)
    chosen = _chosen(estimators)
    level = between("level", level, 0.0, 1.0)
    split = between("split", split, 0.0, 1.0)
    seed = whole("seed", seed, 0)
    limit = math.inf if clip is None else between("clip", clip, 0.0, math.inf)
    interval = one_of("interval", interval, "normal", "bootstrap")
    if not isinstance(policies, Mapping):
        policies = {name: name for name in policies}
    entries = read_policies(policies)
    data = _data(log, arms, entries, split)
    weighted = [name for name in chosen if name != "replay"]
    refusals: dict[str, InvalidArgument] = {}
    if weighted and (error := _unfit_for_weights(log)):
        refusals[", ".join(weighted)] = error
        weighted = []
    replayed = "replay" in chosen
    if replayed and log.contextual and log.unknown_chances:
        refusals["replay"] = InvalidArgument("log", _without_chances(log), NEEDS_CHANCES)
        replayed = False

    score = Scorer(level, interval, np.random.default_rng([seed, 1]), data.rewards)
    rows = [_mean(LOGGED, "mean", data.rewards[data.evaluated], score)]
    parts = replayed + bool(weighted)
    with progress_bar(progress, TICKS * parts * len(entries), "evaluating") as advance:
        for entry in entries:
            tick = _ticker(entry.label, advance)
            if weighted:
                chances = _rule(data, entry, seed, tick)
                try:
                    rows += _weighted(data, entry.label, chances, weighted, limit, score)
                except InvalidArgument as error:
                    refusals[f"{entry.label}: {', '.join(weighted)}"] = error
            if replayed:
                accepted = data.rewards[_replayed(data, entry, seed, tick)]
                rows.append(_mean(entry.label, "replay", accepted, score))
    if len(rows) == 1:  # only that of the log itself
        raise next(iter(refusals.values()))
    order = {name: place for place, name in enumerate(["mean", *chosen])}
    labels = [LOGGED, *(entry.label for entry in entries)]
    rows.sort(key=lambda row: (labels.index(row.policy), order[row.estimator]))
    caveats = score.caveats() + [f"{what} left out: {error}" for what, error in refusals.items()]
    for text in caveats:
        warnings.warn(text, RolfWarning, stacklevel=2)
    return Evaluation(rows, level, len(log), _notes(log, data, bool(weighted)) + caveats)


# --- arguments -------------------------------------------------------------------------------


class Data(NamedTuple):
    """The log, with arms as positions."""

    arms: Arms
    positions: IntArray
    chances: FloatArray
    rewards: FloatArray
    contexts: Contexts | None
    contextual: bool
    learned: IntArray  # rows that fixed rules learn from
    evaluated: IntArray  # rows that they are evaluated on

    def contexts_for(self, policy: Any) -> Contexts | None:
        """The features of the rounds, if the policy or class takes them."""
        return self.contexts if policy.varying else None


def _chosen(estimators: Sequence[str]) -> list[str]:
    names = [estimators] if isinstance(estimators, str) else list(estimators)
    for name in names:
        if name not in ESTIMATORS:
            raise InvalidArgument("estimators", name, "some of " + ", ".join(ESTIMATORS))
    if not names:
        raise InvalidArgument("estimators", names, "at least one of " + ", ".join(ESTIMATORS))
    return [name for name in ESTIMATORS if name in names]


def _unfit_for_weights(log: Log) -> InvalidArgument | None:
    """Why no rule can be weighed on a log, whatever the policy; None if that is possible."""
    if log.unknown_chances:
        expected = 'the chance of every decision; without it, only the estimator "replay" works'
        return InvalidArgument("log", _without_chances(log), expected)
    if (log.probabilities >= 1.0).all():
        return InvalidArgument("log", "probability 1 for every decision", NEEDS_OVERLAP)
    return None


def _without_chances(log: Log) -> str:
    unknown = log.unknown_chances
    return f"no probability for {'any' if unknown == len(log) else unknown} of its decisions"


def _data(log: Log, arms: Arms, entries: list[Entry], split: float) -> Data:
    cut = int(len(log) * split)
    if cut < 1 or len(log) - cut < 2:
        got = f"{len(log)} decisions, split after {cut}"
        raise InvalidArgument("log", got, "at least one to learn from and two after them")
    contexts = log.contexts(arms)
    for entry in entries:
        if entry.label == LOGGED:
            raise InvalidArgument("policies", LOGGED, "another label: this one is the log's own")
        if not entry.ours:
            raise InvalidArgument(f"policies[{entry.label!r}]", entry.name, "a policy of rolf")
        if entry.build.varying and contexts is None:
            got = f"columns {sorted(log.columns)}" if log.columns else "no columns of features"
            expected = f"x_<arm>_<feature> for every arm, which {entry.name} needs"
            raise InvalidArgument("log", got, expected)
    rows = np.arange(len(log))
    return Data(
        arms,
        log.positions(arms),
        log.probabilities,
        log.rewards,
        contexts,
        log.contextual,
        rows[:cut],
        rows[cut:],
    )


def _notes(log: Log, data: Data, weighted: bool) -> list[str]:
    out = []
    if weighted:
        out.append(
            f"ips, snips and dr: learned from the first {data.learned.size} decisions, "
            f"evaluated on the other {data.evaluated.size}."
        )
    if log.unrewarded:
        out.append(f"{log.unrewarded} decisions without a reward were left out.")
    if log.defaults:
        out.append(
            f"{log.defaults} of {len(log)} rewards are defaults for rewards that never came; "
            "they count like real ones."
        )
    return out


def _ticker(label: str, advance: Callable[[str], None]) -> Ticker:
    """A function that goes through rows and advances the progress bar ``TICKS`` times."""

    def tick(rows: IntArray) -> Iterator[int]:
        done = 0
        for place, row in enumerate(rows.tolist(), start=1):
            yield row
            while done < TICKS * place // rows.size:
                done += 1
                advance(label)
        for _ in range(TICKS - done):
            advance(label)

    return tick


# --- policies on the log ---------------------------------------------------------------------


def _policy(data: Data, entry: Entry, seed: int, **options: Any) -> Any:
    """A new policy; its own options take precedence."""
    contexts = data.contexts_for(entry.build)
    table = data.arms.features if contexts is None else contexts.typical()
    stream = np.random.SeedSequence(seed, spawn_key=(zlib.crc32(entry.label.encode()),))
    return entry.build(table, seed=stream, **{**options, **entry.options})


def _rule(data: Data, entry: Entry, seed: int, tick: Ticker) -> FloatArray:
    """Chances of all arms after learning: (K,), or (n, K) for varying features."""
    parameters = inspect.signature(entry.build).parameters
    options = {"exploration": 0} if "exploration" in parameters else {}
    policy = _policy(data, entry, seed, **options)
    contexts = data.contexts_for(policy)
    rows, played = data.learned, data.positions[data.learned]
    features = None if contexts is None else contexts.rows(rows, played)
    policy.learn(played, data.rewards[rows], features=features, probabilities=data.chances[rows])
    if contexts is None:
        for _ in tick(rows[:1]):
            pass
        return np.array(policy.probabilities())
    out = np.empty((data.evaluated.size, data.arms.count))
    for place, row in enumerate(tick(data.evaluated)):
        out[place] = policy.probabilities(features=contexts.table(row), draws=DRAWS)
    return out


def _replayed(data: Data, entry: Entry, seed: int, tick: Ticker) -> list[int]:
    """The rows that the learning policy accepts."""
    policy = _policy(data, entry, seed)
    contexts = data.contexts_for(policy)
    rows = np.arange(data.positions.size)
    if data.contextual:
        coin = np.random.default_rng([seed, 2]).random(rows.size)
        rows = rows[coin * data.chances < data.chances.min()]
    played = data.positions.tolist()
    accepted: list[int] = []
    decision = None
    for row in tick(rows):
        if contexts is not None:
            restore = remember(policy._state)
            decision = policy.ask(features=contexts.table(row))
            if decision.arm != played[row]:  # continue as if it had not been asked
                policy.forget(decision)
                restore()
                continue
        else:
            decision = decision or policy.ask()
            if decision.arm != played[row]:
                continue
        policy.tell(decision, float(data.rewards[row]))
        accepted.append(row)
        decision = None
    return accepted


# --- estimators ------------------------------------------------------------------------------


def _mean(label: str, name: str, rewards: FloatArray, score: Scorer) -> Value:
    """The plain mean of some rewards."""
    ones = np.ones(rewards.size)
    return score(label, name, rewards, ones, ones, rewards)


def _weighted(
    data: Data, label: str, chances: FloatArray, names: list[str], limit: float, score: Scorer
) -> list[Value]:
    """The values of a fixed rule by ips, snips and dr."""
    rows = data.evaluated
    played, rewards = data.positions[rows], data.rewards[rows]
    own = chances[played] if chances.ndim == 1 else chances[np.arange(rows.size), played]
    weights = own / data.chances[rows]
    variance = expected_variance(chances, played, data.chances[rows])
    check_overlap(label, weights, data.chances[rows], variance)
    weights = np.minimum(weights, limit)
    ones = np.ones(rows.size)
    out = []
    for name in names:
        terms = weights * rewards
        if name == "dr":
            terms = _doubly_robust(data, chances, weights)
        scale = weights if name == "snips" else ones
        out.append(score(label, name, terms, scale, weights, rewards))
    return out


def _doubly_robust(data: Data, chances: FloatArray, weights: FloatArray) -> FloatArray:
    """sum_a pi(a) m(a) + w_i (y_i - m(a_i)) for every evaluated decision."""
    contexts = data.contexts if chances.ndim == 2 else None
    augmented = Augmentation(data.arms.features)
    out = np.empty(data.evaluated.size)
    for block in np.array_split(np.arange(data.evaluated.size), BLOCKS):
        if block.size == 0:
            continue
        rows = data.evaluated[block]
        past = slice(0, int(rows[0]))
        played, rewards = data.positions[past], data.rewards[past]
        if contexts is not None:
            model = varying_model(contexts, played, rewards, rows)
            own = model[np.arange(rows.size), data.positions[rows]]
            mean = (model * chances[block]).sum(axis=1)
        else:
            model = fixed_model(augmented, played, rewards)
            own, mean = model[data.positions[rows]], model @ chances
        out[block] = mean + weights[block] * (data.rewards[rows] - own)
    return out
