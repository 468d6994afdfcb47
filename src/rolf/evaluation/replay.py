"""What would another policy have earned? Policies evaluated on logged decisions.

Let q_i be the probability with which the logged arm a_i was chosen, y_i its reward, and w_i =
pi(a_i)/q_i its importance weight under the evaluated rule pi.

* ``replay`` (Li et al. 2011) plays the *learning* policy along the log. It accepts a logged
  decision where the policy decides the same, and the policy learns from accepted decisions only.
  The value is their mean reward. In a contextual log, decisions are first thinned: each is kept
  with probability min(q)/q_i, which makes the kept ones uniform over arms in every round. In any
  other log, an arm's rewards have the same distribution whenever it is played, so the policy's
  decision is matched with the next logged one for its arm; neither thinning nor q is needed.
* The others evaluate a *fixed* rule: the probabilities that the policy gives the arms after
  learning from the first part of the log (``policy.probabilities()``), with forced exploration
  counted as done. They use only the rest of the log:

      ips    mean of w_i y_i
      snips  sum of w_i y_i / sum of w_i
      dr     mean of sum_a pi(a) m(a) + w_i (y_i - m(a_i))

  where m is a ridge regression on augmented features, refitted for each of five blocks on
  everything before the block, so that no reward is predicted from itself or from a later one.

The docstring of ``replay`` lists what each estimator assumes.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rolf.arms.table import Arms
from rolf.checks import between, whole
from rolf.errors import InvalidArgument, RolfWarning
from rolf.evaluation.offpolicy import NEEDS_OVERLAP, Scorer, check_overlap
from rolf.evaluation.result import LOGGED, Evaluation
from rolf.evaluation.study import Study, Ticker
from rolf.extras import require
from rolf.logs.log import Log, LogFiles, as_log
from rolf.logs.rounds import varying_features
from rolf.parallel.sections import Workers
from rolf.progress import progress_bar
from rolf.simulation.entries import Entry, read_policies

ESTIMATORS = ("replay", "ips", "snips", "dr")
NEEDS_PROBABILITIES = (
    "the probability of every decision: in this log it may depend on what also affects rewards"
)
TICKS = 20  # of the progress bar, per policy and part


def replay(
    log: Any,
    features: Any,
    policies: Mapping[str, Any] | Sequence[str],
    *,
    seed: int = 0,
    level: float = 0.95,
    estimators: Sequence[str] = ESTIMATORS,
    split: float = 0.5,
    clip: float | None = None,
    progress: bool | Callable[[str], None] | None = None,
    backend: str = "local",
    jobs: int | None = None,
    address: str | None = None,
) -> Evaluation:
    """Evaluate policies on a logged experiment.

    All estimators assume that rewards do not drift over time, that none is a default for a reward
    that never came, and that every arm of ``features`` could be chosen in every round. Beyond that:

    * "replay" evaluates the policy learning from scratch, over as many rounds as it accepts: about
      n/K of n logged decisions if those were uniform. In a contextual log all probabilities must be
      known; in any other, the arms that the policy tries must have been logged.
    * "ips" evaluates the rule learned from the first part. Probabilities must be known, and
      positive wherever the rule's are (overlap). Unbiased. For a deterministic rule, which gives
      one arm probability 1, only logged decisions for that arm count.
    * "snips" evaluates and assumes the same. Biased by O(1/n), but it varies less where weights
      vary, and shifts exactly with the rewards.
    * "dr" evaluates and assumes the same. Unbiased; the better the reward model, the less it
      varies.

    The interval of "replay" covers this one pass; other seeds show how much luck was in the
    learning. Weights that rule out overlap are refused: with a warning, or with an error if no row
    is left. An effective sample size below 50 is also a warning.

    A path is read part by part, so Parquet files and folders may be larger than memory.

    Args:
        log: the path of a log, a ``rolf.Log``, or pairs of an arm and its reward.
        features: (K, d) features of the arms as for a policy, the result of ``read_arms``, or the
            path of a file that it reads. Arms are matched by name.
        policies: a policy per label, as in ``rolf.simulate``, or a list of names.
        seed: the same seed gives the same values.
        level: of the confidence intervals.
        estimators: some of "replay", "ips", "snips", "dr".
        split: the share of the log, from its start, that fixed rules learn from.
        clip: largest weight; larger ones are cut, which adds bias and reduces variance.
        progress: show a progress bar; by default on a terminal.
        backend: where to read the parts of a log in files: "local", on the cores of this machine,
            or "dask" or "ray", whose workers must find the files under the same path. The numbers
            are the same everywhere.
        jobs: how many parts to read at the same time; by default one per core.
        address: of the Dask or Ray cluster.
    """
    require("scipy", "replay")
    workers = Workers.checked(backend, jobs, address)
    arms = Arms.read(features)
    chosen = _chosen(estimators)
    level = between("level", level, 0.0, 1.0)
    split = between("split", split, 0.0, 1.0)
    seed = whole("seed", seed, 0)
    limit = math.inf if clip is None else between("clip", clip, 0.0, math.inf)
    if not isinstance(policies, Mapping):
        policies = {name: name for name in policies}
    entries = read_policies(policies)
    opened = as_log(log)
    cut = _checked_cut(opened, arms, entries, split)
    weighted = [name for name in chosen if name != "replay"]
    replayed = "replay" in chosen
    refusals: dict[str, InvalidArgument] = {}
    if weighted and opened.unknown_probabilities:
        expected = (
            'the probability of every decision; without it, only the estimator "replay" works'
        )
        error = InvalidArgument("log", _without_probabilities(opened), expected)
        refusals[", ".join(weighted)] = error
        weighted = []
    if replayed and opened.contextual and opened.unknown_probabilities:
        refusals["replay"] = InvalidArgument(
            "log", _without_probabilities(opened), NEEDS_PROBABILITIES
        )
        replayed = False
    if not weighted and not replayed:
        raise next(iter(refusals.values()))

    study = Study(opened, arms, entries, seed, cut, workers)
    with progress_bar(progress, TICKS * (1 + replayed) * len(entries), "evaluating") as advance:
        tick = Ticker(advance, ", ".join(entry.label for entry in entries), TICKS * len(entries))
        seen = study.evaluate(weighted, limit, tick)
        accepted = study.replay(seen, advance, TICKS) if replayed else {}
    if weighted and seen.certain == len(opened):
        error = InvalidArgument("log", "probability 1 for every decision", NEEDS_OVERLAP)
        refusals[", ".join(weighted)] = error
        weighted = []
    score = Scorer(level, seen.spread)
    assert seen.logged is not None
    rows = [score(LOGGED, "mean", seen.logged)]
    for entry in entries:
        if weighted:
            sums = seen.rules[entry.label]
            try:
                check_overlap(entry.label, sums.overlap)
                rows += [score(entry.label, name, sums.values[name]) for name in weighted]
            except InvalidArgument as error:
                refusals[f"{entry.label}: {', '.join(weighted)}"] = error
        if replayed:
            rows.append(score(entry.label, "replay", accepted[entry.label]))
    if len(rows) == 1:  # only the log's own
        raise next(iter(refusals.values()))
    order = {name: place for place, name in enumerate(["mean", *chosen])}
    labels = [LOGGED, *(entry.label for entry in entries)]
    rows.sort(key=lambda row: (labels.index(row.policy), order[row.estimator]))
    caveats = score.caveats() + [f"{what} left out: {error}" for what, error in refusals.items()]
    for text in caveats:
        warnings.warn(text, RolfWarning, stacklevel=2)
    notes = _notes(opened, cut, opened.defaults + seen.defaults, bool(weighted))
    return Evaluation(rows, level, len(opened), notes + caveats)


# --- arguments -------------------------------------------------------------------------------


def _chosen(estimators: Sequence[str]) -> list[str]:
    names = [estimators] if isinstance(estimators, str) else list(estimators)
    for name in names:
        if name not in ESTIMATORS:
            raise InvalidArgument("estimators", name, "some of " + ", ".join(ESTIMATORS))
    if not names:
        raise InvalidArgument("estimators", names, "at least one of " + ", ".join(ESTIMATORS))
    return [name for name in ESTIMATORS if name in names]


def _without_probabilities(log: Log | LogFiles) -> str:
    unknown = log.unknown_probabilities
    return f"no probability for {'any' if unknown == len(log) else unknown} of its decisions"


def _checked_cut(log: Log | LogFiles, arms: Arms, entries: list[Entry], split: float) -> int:
    """How many decisions rules learn from; raises unless log and policies fit."""
    cut = int(len(log) * split)
    if cut < 1 or len(log) - cut < 2:
        got = f"{len(log)} decisions, split after {cut}"
        raise InvalidArgument("log", got, "at least one to learn from and two after them")
    for entry in entries:
        if entry.label == LOGGED:
            raise InvalidArgument("policies", LOGGED, "another label: this one is the log's own")
        if not entry.ours:
            raise InvalidArgument(f"policies[{entry.label!r}]", entry.name, "a policy of rolf")
        if entry.build.varying and not varying_features(log.columns, arms):
            got = f"columns {sorted(log.columns)}" if log.columns else "no columns of features"
            expected = f"x_<arm>_<feature> for every arm, which {entry.name} needs"
            raise InvalidArgument("log", got, expected)
    return cut


def _notes(log: Log | LogFiles, cut: int, defaults: int, weighted: bool) -> list[str]:
    out = []
    if weighted:
        out.append(
            f"ips, snips and dr: learned from the first {cut} decisions, "
            f"evaluated on the other {len(log) - cut}."
        )
    if log.unrewarded:
        out.append(f"{log.unrewarded} decisions without a reward were left out.")
    if defaults:
        out.append(
            f"{defaults} of {len(log)} rewards are defaults for rewards that never came; "
            "they count like real ones."
        )
    return out
