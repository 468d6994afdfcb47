"""Use every policy, with every option that matters, online, in experiments, in simulations and in
replay, and print whatever had to be compiled on the way. tests/cli/test_compile.py runs it in a new
process.

    python tests/support/compile_walk.py [POLICY ...]
"""

from __future__ import annotations

import itertools
import sys
import time
import warnings
from contextlib import suppress

import numpy as np
import pandas
from numba.core import event

import rolf
from rolf.kernel.disk_cache import compilations
from rolf.policies.catalogue import CATALOG
from rolf.policies.registry import option_names
from rolf.policies.warm import _kind_of

ARMS = 5
FEATURES = np.random.default_rng(0).standard_normal((ARMS, 2))
#: the same features as users hold them: named, in rows of columns, read-only, nested lists
FRAME = pandas.DataFrame({"u": FEATURES[:, 0], "v": FEATURES[:, 1]}, index=list("abcde"))
READ_ONLY = np.asfortranarray(FEATURES)
READ_ONLY.flags.writeable = False
FORMS = [FRAME, READ_ONLY, FEATURES.tolist()]

#: values to try for every option of every policy; combinations that are refused are skipped
VALUES = {
    "basis": ["svd", "qr"],
    "bound": [1.0, 2],
    "c": [0.0, 3],
    "cap": ["text", "appendix"],
    "clip": [3.0, 2],
    "context": [None],  # makes features of the same type
    "coupling": ["action", "greedy"],
    "delta": [1e-4],
    "explore": [0.0, 0.05, 1],
    "exploration": [None, 3, "theory"],
    "forced": [10, 0.5],
    "horizon": [None, 100],
    "imputation": ["latest", "frozen", "previous"],
    "keep_scale": [None, True, False],
    "lam1": [None, 1],
    "lam2": [None, 1],
    "noise": [None, 0.3, 1],
    "p": [0.6],
    "penalty": [None, 1, 0.5, "theory", (1, 0.5)],
    "prior": [1.0, 2],
    "radius": [None, 2, "theory"],
    "rewards": ["real", "binary", "counts"],
    "ridge": [None, 1, 0.3],
    "rule": ["bound", "sample"],
    "scale": [None, 1.0, 2],
    "setting": ["paper", "tuned"],
    "unmatched": ["skip", "impute"],
    "width": [None, 2.75, 3],
}


def single_options(name):
    """Every value of every option, one at a time."""
    cls = rolf.policy_class(name)
    for option in option_names(cls):
        for value in VALUES[option]:
            with suppress(rolf.RolfError):  # refused
                cls(FEATURES, seed=0, **{option: value})
                yield {option: value}


def settings(name):
    """One choice of options for each combination of types that params and state can have.

    Tries all values of each pair of options.
    """
    cls = rolf.policy_class(name)
    kinds = {_kind_of(cls(FEATURES, seed=0)): {}}
    for pair in itertools.combinations_with_replacement(option_names(cls), 2):
        for values in itertools.product(*(VALUES[option] for option in pair)):
            options = dict(zip(pair, values, strict=True))
            with suppress(rolf.RolfError):  # refused
                kinds.setdefault(_kind_of(cls(FEATURES, seed=0, **options)), options)
    return list(kinds.values())


def table(cls, form, rows=slice(None)):
    """The features of a round, for policies that take them."""
    return {"features": form[rows]} if cls.varying else {}


def online(name, options, form):
    cls = rolf.policy_class(name)
    policy = cls(form, seed=0, **options)
    extra = table(cls, form)
    labels = policy.arms.labels
    for round in range(3 * ARMS):
        decision = policy.ask(**extra)
        assert decision.probability > 0.0
        policy.tell(decision, round % 2)
    some = policy.ask_many(2, available=[labels[0], labels[3]], **extra)
    policy.tell_many(zip(some, [0.0, True], strict=True))
    policy.forget(policy.ask(**extra))
    policy.estimates(**extra)
    policy.probabilities(**extra)
    policy.rank(2, **extra)
    with suppress(rolf.RolfError):  # some cannot
        policy.learn(labels[:2], [0.0, 1], **table(cls, FEATURES, slice(2)))
    if hasattr(policy, "intervals"):
        policy.intervals(**extra)
        policy.probability_best(**extra)
    again = rolf.Policy.from_dict(policy.to_dict())
    again.tell(again.ask(**extra), 1.0)
    merged = rolf.Policy.from_dict(rolf.Policy.merge(policy.to_dict(), seed=3))
    merged.tell(merged.ask(**extra), 1.0)


def experiment(name, options, form):
    cls = rolf.policy_class(name)
    with rolf.open_experiment(
        "memory://",
        f"{name} {options} {type(form).__name__}",
        features=form,
        policy=name,
        options=options,
        reward_after=0.001,
    ) as running:
        extra = table(cls, form)
        for round in range(ARMS):
            running.tell(running.ask(**extra), round % 2)
        late = running.ask_many(2, **extra)
        time.sleep(0.01)
        running.ask(**extra)
        running.tell(late[0], 1.0)
        running.status(**extra)
        more = FRAME.tail(1).rename(index={"e": "f"}) if form is FRAME else [[0.3, 0.4]]
        grown = form
        with suppress(rolf.RolfError):  # some cannot
            running.add_arms(more)
            grown = pandas.concat([FRAME, more]) if form is FRAME else [*FEATURES.tolist(), *more]
        running.tell(running.ask(**table(cls, grown)), 1.0)
        running.snapshot()
        running.rebuild()
        running.estimates(**table(cls, grown))


def replay(name, options, form):
    rng = np.random.default_rng(1)
    arms = rng.integers(ARMS, size=120)
    labels = [str(label) for label in (FRAME.index if form is FRAME else range(ARMS))]
    columns = {}
    if rolf.policy_class(name).varying:
        columns = {f"x_{arm}_{each}": rng.random(120) for arm in labels for each in "uv"}
    rewards = (rng.random(120) < 0.4).astype(float)
    log = rolf.Log([labels[arm] for arm in arms], np.full(120, 1 / ARMS), rewards, columns)
    with suppress(rolf.RolfError):  # some cannot learn from a history
        rolf.replay(log, form, {name: (name, options)})


def engine(name, options, form):
    problems = rolf.environments
    families = [problems.paper(arms=5, size=6), problems.synthetic(arms=5), problems.two_arms()]
    families += [problems.three_arms(), problems.Problem(form, np.ones(ARMS))]
    if rolf.policy_class(name).varying:
        families.append(problems.varying(arms=5, observed=2))
    for family in families:
        rolf.simulate({name: (name, options)}, family, rounds=10, runs=1, seed=0)


def diagnose(form):
    for rewards in ([0.5, 1.5, 1.0, 0.2], [0, 1, 1, 0]):
        arms = [0, 1, 1, 3] if form is not FRAME else list("abbd")
        rolf.diagnose(zip(arms, rewards, strict=True), form)


def main():
    warnings.simplefilter("ignore", rolf.RolfWarning)
    names = sys.argv[1:] or list(CATALOG)
    steps = [
        (part, name, options, form)
        for name in names
        for options in settings(name)
        for form in FORMS
        for part in (online, experiment, replay, engine)
    ]
    steps += [
        (part, name, options, FRAME)
        for name in names
        for options in single_options(name)
        for part in (online, engine)
    ]
    for part, *arguments in [*steps, *((diagnose, form) for form in FORMS)]:
        with event.install_recorder("numba:compile") as recorder:
            part(*arguments)
        if recorder.buffer:
            print(part.__name__, *arguments[:2], "compiled", *compilations)
            compilations.clear()
    print("done")


if __name__ == "__main__":
    main()
