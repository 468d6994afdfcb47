"""Create and play experiments in tests of stores."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas

from rolf.experiments.database import open_experiment
from rolf.experiments.experiment import Experiment
from rolf.experiments.log.replica import Replica, earlier_corrections
from rolf.experiments.log.snapshot import dump
from rolf.experiments.roster import Roster
from rolf.experiments.storage.contract import log_rows
from rolf.experiments.storage.rows import DECISION, Row, Snapshot

ARMS = 6
FEATURES = np.random.default_rng(0).standard_normal((ARMS, 3))
MEANS = np.random.default_rng(1).uniform(-1, 1, ARMS)
NAMED_FEATURES = pandas.DataFrame(FEATURES, index=list("abcdef"))

_numbers = itertools.count()


def new_name() -> str:
    """A name that is unique in this process."""
    return f"experiment {next(_numbers)}"


def create_experiment(url: str, name: str = "one", **arguments: Any) -> Experiment:
    """Create or open an experiment; RoLF-Ridge with fixed features and seed by default."""
    arguments = {"features": FEATURES, "policy": "rolf-ridge", "seed": 4, **arguments}
    return open_experiment(url, name, **arguments)


def round_features(experiment: Experiment) -> dict[str, Any]:
    """The features to pass to ``ask``, if the policy takes any."""
    return {"features": FEATURES} if experiment.synced.replica.policy.varying else {}


def accepted_reward(experiment: Experiment, reward: float) -> float:
    """The nearest reward the policy accepts."""
    return float(np.clip(reward, *experiment.synced.replica.policy.reward_range))


def decision_row(number: int) -> Row:
    """A decision for arm 1."""
    return Row(0, DECISION, number, 5.0, 1, 0.5, 1, 1, True, clock_steps=1)


def play(experiment: Experiment, rounds: int, seed: int = 0) -> list[Any]:
    """Ask and tell for some rounds; return the chosen arms."""
    rng = np.random.default_rng(seed)
    arms = []
    for _ in range(rounds):
        decision = experiment.ask(**round_features(experiment))
        arms.append(decision.arm)
        reward = MEANS[decision.arm] + 0.1 * rng.standard_normal()
        experiment.tell(decision, accepted_reward(experiment, reward))
    return arms


def rows_of(experiment: Experiment) -> list[Row]:
    """All rows of the log, in order."""
    return [Row(*row) for row in log_rows(experiment.synced.store, experiment.record)]


def roster_of(experiment: Experiment) -> Roster:
    """The current roster."""
    with experiment.current(defaults=False) as replica:
        return replica.roster


def current_state(experiment: Experiment) -> Snapshot:
    """The state of an experiment in this process, bit for bit."""
    return dump(experiment.synced.sync())


def folded_state(experiment: Experiment, upto: int | None = None) -> Snapshot:
    """The state from folding the log in its canonical order, bit for bit."""
    rows = list(log_rows(experiment.synced.store, experiment.record, 0, upto))
    replica = Replica(experiment.record, corrections=earlier_corrections(rows))
    replica.apply(rows)
    return dump(replica)
