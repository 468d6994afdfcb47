"""What would another policy have earned? Policies evaluated on logged decisions.

Write q_i for the chance with which the logged arm a_i was chosen, y_i for its reward, and
w_i = pi(a_i)/q_i for the importance weight under the evaluated rule pi.

* ``replay`` (Li et al. 2011) plays the *learning* policy along the log: a logged decision is
  accepted where the policy decides the same, and only then does it learn. Its value is the mean
  reward of the accepted decisions. Where the log is contextual, decisions are first thinned,
  kept with probability min(q)/q_i, which makes the kept ones uniform over arms whatever the
  round. Otherwise the policy's decision waits for the next logged one of that arm: an arm's
  rewards are alike whenever it is played, so no thinning, and no q, is needed.
* The others evaluate a *fixed* rule: what the policy would do next after it has learned from
  the first part of the log, with ``policy.probabilities()``; forced exploration counts as done.
  They use the rest of the log only:

      ips    mean of w_i y_i
      snips  sum of w_i y_i / sum of w_i
      dr     mean of sum_a pi(a) m(a) + w_i (y_i - m(a_i))

  with m a ridge regression on augmented features. It is fitted anew for each of five blocks,
  on everything before the block, so that no reward is predicted from itself or from a later one.

What each assumes is in ``replay``'s docstring.
"""

from __future__ import annotations

import inspect
import math
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rolf.arms.reading import is_table, read_arms
from rolf.arms.table import Arms
from rolf.augment import Augmentation
from rolf.checks import between, whole
from rolf.errors import InvalidArgument, RolfWarning
from rolf.evaluation.logs import Contexts, Log, read_log
from rolf.evaluation.offpolicy import UNCERTAIN, Scorer, check_overlap, fixed_model, varying_model
from rolf.evaluation.result import LOGGED, Evaluation, Value
from rolf.policies.arrays import remember
from rolf.progress import progress_bar
from rolf.simulation.specs import Entry, read_policies
from rolf.types import FloatArray, IntArray

ESTIMATORS = ("replay", "ips", "snips", "dr")
BLOCKS = 5  # of the reward model
DRAWS = 1000  # of Thompson sampling's chances, a round
TICKS = 20  # of the progress bar, a policy


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
    and not defaults put in for rewards that never came, and that every arm of ``features``
    could be chosen in every round. Beyond that:

    * "replay" evaluates the policy learning from scratch, over as many rounds as were accepted:
      about n/K of n logged decisions if those were uniform. In a contextual log chances must be
      known and positive; in any other only the arms that the policy tries must have been logged.
    * "ips" evaluates the rule learned from the first part. Chances must be known, and positive
      wherever the rule's are (overlap). Unbiased. A deterministic rule gives one arm chance 1,
      so that only logged decisions for that arm count.
    * "snips" evaluates and assumes the same. Biased by O(1/n), but a shift of all rewards
      shifts it by as much, and it is calmer where weights vary.
    * "dr" evaluates and assumes the same. Unbiased, and calmer the better the reward model is.

    The interval of ``replay`` is about the decisions that this one pass took; how lucky the
    learning was is seen by other seeds. Weights that cannot come from overlap are refused: with
    a warning, or with an error if that leaves no row. An effective sample size below 50 gives a
    warning, too.

    Args:
        log: what ``read_log`` gives, or the path of a file for it.
        features: (K, d) features of the arms, as for a policy, what ``read_arms`` gives, or
            the path of a file for it. Arms are found by name.
        policies: for each label a policy as in ``rolf.simulate``; or a list of names.
        seed: same seed, same values.
        level: of the confidence intervals.
        estimators: some of "replay", "ips", "snips", "dr".
        split: the share of the log, from its start, that fixed rules learn from.
        clip: largest weight; larger ones are cut, which biases and calms.
        interval: "normal", or "bootstrap" for percentiles over resampled decisions.
        progress: show a progress bar; by default on a terminal.
    """
    log = log if isinstance(log, Log) else read_log(log)
    arms = _arms(features)
    chosen = _chosen(estimators)
    level = between("level", level, 0.0, 1.0)
    split = between("split", split, 0.0, 1.0)
    seed = whole("seed", seed, 0)
    limit = math.inf if clip is None else between("clip", clip, 0.0, math.inf)
    if interval not in ("normal", "bootstrap"):
        raise InvalidArgument("interval", interval, '"normal" or "bootstrap"')
    if not isinstance(policies, Mapping):
        policies = {name: name for name in policies}
    entries = read_policies(policies)
    data = _data(log, arms, entries, split)
    weighted = [name for name in chosen if name != "replay"]
    refusals: dict[str, InvalidArgument] = {}
    if weighted and len(log) > 1 and (log.probabilities >= 1.0).all():
        error = InvalidArgument("log", "probability 1 for every decision", UNCERTAIN)
        refusals[", ".join(weighted)] = error
        weighted = []

    score = Scorer(level, interval, np.random.default_rng([seed, 1]), data.rewards)
    everything = np.ones(data.evaluated.size)
    logged = data.rewards[data.evaluated]
    rows = [score(LOGGED, "mean", logged, everything, everything, logged)]
    parts = ("replay" in chosen) + bool(weighted)
    with progress_bar(progress, TICKS * parts * len(entries), "evaluating") as advance:
        for entry in entries:
            tick = _ticker(entry.label, advance)
            if weighted:
                chances = _rule(data, entry, seed, tick)
                try:
                    rows += _weighted(data, entry.label, chances, weighted, limit, score)
                except InvalidArgument as error:
                    refusals[f"{entry.label}: {', '.join(weighted)}"] = error
            if "replay" in chosen:
                taken = data.rewards[_replayed(data, entry, seed, tick)]
                ones = np.ones(taken.size)
                rows.append(score(entry.label, "replay", taken, ones, ones, taken))
    if len(rows) == 1:  # of the log itself
        raise next(iter(refusals.values()))
    order = {name: place for place, name in enumerate(["mean", *chosen])}
    labels = [LOGGED, *(entry.label for entry in entries)]
    rows.sort(key=lambda row: (labels.index(row.policy), order[row.estimator]))
    doubts = score.doubts() + [f"{what} left out: {error}" for what, error in refusals.items()]
    for text in doubts:
        warnings.warn(text, RolfWarning, stacklevel=2)
    return Evaluation(rows, level, len(log), _notes(log, data, bool(weighted)) + doubts)


# --- arguments -------------------------------------------------------------------------------


class Data(NamedTuple):
    """The log, by positions of arms."""

    arms: Arms
    positions: IntArray
    chances: FloatArray
    rewards: FloatArray
    contexts: Contexts | None
    contextual: bool
    learned: IntArray  # rows that fixed rules learn from
    evaluated: IntArray  # and those they are evaluated on

    def seen_by(self, policy: Any) -> Contexts | None:
        """The features of the rounds, for a policy or class that takes them."""
        return self.contexts if policy.varying else None


def _arms(features: Any) -> Arms:
    return read_arms(features) if is_table(features) else Arms.read(features)


def _chosen(estimators: Sequence[str]) -> list[str]:
    names = [estimators] if isinstance(estimators, str) else list(estimators)
    for name in names:
        if name not in ESTIMATORS:
            raise InvalidArgument("estimators", name, "some of " + ", ".join(ESTIMATORS))
    if not names:
        raise InvalidArgument("estimators", names, "at least one of " + ", ".join(ESTIMATORS))
    return [name for name in ESTIMATORS if name in names]


def _data(log: Log, arms: Arms, entries: list[Entry], split: float) -> Data:
    cut = int(len(log) * split)
    if cut < 1 or len(log) - cut < 2:
        got = f"{len(log)} decisions, split after {cut}"
        raise InvalidArgument("log", got, "one or more to learn from, two or more after them")
    contexts = log.contexts(arms)
    for entry in entries:
        if entry.label == LOGGED:
            raise InvalidArgument("policies", LOGGED, "another label: this is the log's own")
        if not entry.ours:
            raise InvalidArgument(f"policies[{entry.label!r}]", entry.name, "a policy of rolf")
        if entry.build.varying and contexts is None:
            got = f"columns {sorted(log.columns)}" if log.columns else "no columns of features"
            wanted = f"x_<arm>_<feature> for every arm, which {entry.name} needs"
            raise InvalidArgument("log", got, wanted)
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
            "they count as real ones."
        )
    return out


def _ticker(label: str, advance: Callable[[str], None]) -> Callable[[IntArray], Iterator[int]]:
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
    contexts = data.seen_by(entry.build)
    table = data.arms.features if contexts is None else contexts.typical()
    stream = np.random.SeedSequence(seed, spawn_key=(zlib.crc32(entry.label.encode()),))
    return entry.build(table, seed=stream, **{**options, **entry.options})


def _rule(
    data: Data, entry: Entry, seed: int, tick: Callable[[IntArray], Iterator[int]]
) -> FloatArray:
    """Chances of all arms after learning: (K,), or (n, K) for features that vary."""
    accepted = inspect.signature(entry.build).parameters
    policy = _policy(data, entry, seed, **({"exploration": 0} if "exploration" in accepted else {}))
    contexts = data.seen_by(policy)
    rows, played = data.learned, data.positions[data.learned]
    seen = None if contexts is None else contexts.rows(rows, played)
    policy.learn(played, data.rewards[rows], features=seen, probabilities=data.chances[rows])
    if contexts is None:
        for _ in tick(rows[:1]):
            pass
        return np.array(policy.probabilities())
    out = np.empty((data.evaluated.size, data.arms.count))
    for place, row in enumerate(tick(data.evaluated)):
        out[place] = policy.probabilities(features=contexts.table(row), draws=DRAWS)
    return out


def _replayed(
    data: Data, entry: Entry, seed: int, tick: Callable[[IntArray], Iterator[int]]
) -> list[int]:
    """The rows that the learning policy accepts."""
    policy = _policy(data, entry, seed)
    contexts = data.seen_by(policy)
    rows = np.arange(data.positions.size)
    if data.contextual:
        coin = np.random.default_rng([seed, 2]).random(rows.size)
        rows = rows[coin * data.chances < data.chances.min()]
    played = data.positions.tolist()
    taken: list[int] = []
    decision = None
    for row in tick(rows):
        if contexts is not None:
            restore = remember(policy._state)
            decision = policy.ask(features=contexts.table(row))
            if decision.arm != played[row]:  # as if it had not been asked
                policy.forget(decision)
                restore()
                continue
        else:
            decision = decision or policy.ask()
            if decision.arm != played[row]:
                continue
        policy.tell(decision, float(data.rewards[row]))
        taken.append(row)
        decision = None
    return taken


# --- estimators ------------------------------------------------------------------------------


def _weighted(
    data: Data, label: str, chances: FloatArray, names: list[str], limit: float, score: Scorer
) -> list[Value]:
    rows = data.evaluated
    played, rewards = data.positions[rows], data.rewards[rows]
    own = chances[played] if chances.ndim == 1 else chances[np.arange(rows.size), played]
    weights = own / data.chances[rows]
    check_overlap(label, weights, data.chances[rows])
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
    """sum_a pi(a) m(a) + w (y - m(a_i)) of every evaluated decision."""
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
            guess = varying_model(contexts, played, rewards, rows)
            own = guess[np.arange(rows.size), data.positions[rows]]
            mean = (guess * chances[block]).sum(axis=1)
        else:
            guess = fixed_model(augmented, played, rewards)
            own, mean = guess[data.positions[rows]], guess @ chances
        out[block] = mean + weights[block] * (data.rewards[rows] - own)
    return out
