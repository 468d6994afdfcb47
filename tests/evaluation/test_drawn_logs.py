"""The logs of RoLF-Bayes that draws its decisions: exported, then evaluated by our own tools."""

from __future__ import annotations

import csv
import json
import math

import numpy as np
import pytest

import rolf
from cli.test_experiments import run
from evaluation.test_replay import quiet
from rolf.errors import InvalidArgument
from support.stores import make_url, quick_folder

NAMES = [f"ad-{number}" for number in range(5)]
FEATURES = np.random.default_rng(0).standard_normal((5, 2))
MEANS = np.array([0.2, 0.5, 0.35, 0.6, 0.1])
ESTIMATORS = ("replay", "ips", "snips", "dr")
EVEN = ("rolf-ridge", {"exploration": 1e9})  # a uniform draw in every round
DRAWING = [{"explore": 0.05}, {"explore": 0.3}, {"rule": "sample"}]
WRONG = [
    ({"explore": 2}, "explore: got 2, wanted"),
    ({"explore": -1}, "explore: got -1, wanted"),
    ({"rule": "random"}, "rule: got 'random', wanted"),
    ({"rule": "sample", "horizon": 9}, 'horizon: got 9, wanted nothing with rule="sample"'),
]


@pytest.fixture
def items(tmp_path):
    path = tmp_path / "items.csv"
    with path.open("w", newline="") as file:
        rows = [[name, *map(float, row)] for name, row in zip(NAMES, FEATURES, strict=True)]
        csv.writer(file).writerows([["arm", "size", "price"], *rows])
    return path


def played(url, items, options, kind="real", rounds=400):
    """An experiment, created and played; rewards are around MEANS, or clicks."""
    more = {"rewards": "binary"} if kind == "binary" else {}
    words = ("--features", items, "--options", json.dumps({**options, **more}), "--seed", 2)
    run("new", url, "ads", *words)
    rng = np.random.default_rng(3)
    with rolf.open_experiment(url, "ads") as experiment:
        for _ in range(rounds // 4):
            asked = experiment.ask_many(4)
            means = [MEANS[NAMES.index(each.arm)] for each in asked]
            rewards = rng.binomial(1, means) if kind == "binary" else rng.normal(means, 0.3)
            experiment.tell_many(list(zip(asked, map(float, rewards), strict=True)))


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("kind", ["real", "binary"])
@pytest.mark.parametrize("options", DRAWING, ids=str)
def test_every_estimator_takes_an_exported_log(items, tmp_path, options, kind, ending):
    url, log = f"sqlite:///{quick_folder('rolf-logs')}/x.db", tmp_path / f"log.{ending}"
    played(url, items, options, kind)
    run("export", url, "ads", log)
    out = quiet(log, items, {"rolf-bayes": "rolf-bayes", "even": EVEN})
    words = ("replay", log, items, "--policy", "rolf-bayes", "--json")
    shown = json.loads(run(*words))
    assert not any("left out" in note for note in shown["notes"])
    rows = {row["estimator"]: row for row in shown["rows"] if row["policy"] == "rolf-bayes"}
    assert set(rows) == set(ESTIMATORS)
    for name in ESTIMATORS:
        row = out.find("rolf-bayes", name)
        assert row.value == pytest.approx(rows[name]["value"])
        assert row.low < row.value < row.high
        assert math.isfinite(out.find("even", name).value)
        if name != "replay":  # the rule that was learned
            assert row.effective > 50
            assert row.low < 0.6 < row.high
            even = out.find("even", name)
            assert even.effective < 50 or even.low < MEANS.mean() < even.high


@pytest.mark.parametrize("options", [{"explore": 0.3}, {"rule": "sample", "explore": 0.3}], ids=str)
def test_features_of_the_round_are_in_the_log(items, tmp_path, options):
    rng = np.random.default_rng(4)
    log = tmp_path / "log.csv"
    with rolf.open_experiment(
        make_url("memory"),
        "x",
        features=items,
        policy="rolf-bayes-varying",
        options=options,
        seed=1,
    ) as experiment:
        for _ in range(400):
            table = FEATURES + rng.standard_normal(FEATURES.shape)
            decision = experiment.ask(features=table)
            place = NAMES.index(decision.arm)
            mean = MEANS[place] + table[place] @ [0.5, 0.2]
            experiment.tell(decision, rng.normal(mean, 0.3))
        experiment.export(log)
    names = ("rolf-bayes-varying", "rolf-varying")
    out = quiet(log, items, names)
    for policy in names:
        for name in ESTIMATORS[1:]:
            row = out.find(policy, name)
            assert row.effective > 50
            assert row.low < row.value < row.high
    # the first half taught it to play better than the log, which draws 0.3 of its arms uniformly
    assert out.find(names[0], "dr").value > out.find("as logged", "mean").value


def covered(options, logs, rounds):
    """How often 95% intervals hold the value, by what is evaluated and estimator."""
    out = {}
    for seed in range(logs):
        policy = rolf.RoLFBayes(FEATURES, seed=seed, **options)
        rng = np.random.default_rng([seed, 1])
        arms, chances = [], []
        rewards = rng.normal(0.0, 0.3, rounds)
        for turn in range(rounds):
            decision = policy.ask()
            rewards[turn] += MEANS[decision.arm]
            policy.tell(decision, rewards[turn])
            arms.append(decision.arm)
            chances.append(decision.probability)
        half, rule = rounds // 2, rolf.RoLFBayes(FEATURES, seed=0)
        rule.learn(arms[:half], rewards[:half])
        truth = {"next": float(rule.probabilities() @ MEANS), "even": MEANS.mean()}
        result = quiet(
            rolf.Log(arms, chances, rewards),
            FEATURES,
            {"next": "rolf-bayes", "even": EVEN},
            estimators=ESTIMATORS[1:],
            seed=seed,
        )
        for row in result[1:]:
            inside = row.low <= truth[row.policy] <= row.high
            out.setdefault((row.policy, row.estimator), []).append(inside)
    return {key: float(np.mean(values)) for key, values in out.items()}


@pytest.mark.slow
@pytest.mark.parametrize("explore", [0.05, 0.2])
def test_intervals_cover_where_a_share_is_drawn_uniformly(explore):
    """200 logs: at a coverage of 95%, between 90 and 99% of them. That of ips is lower where
    chances are small: two arms are close, and while the log prefers the other one, the arm of the
    rule has a weight of 100, which may not come up."""
    shares = covered({"explore": explore}, 200, 1200)
    assert len(shares) == 6
    for key, share in shares.items():
        least = 0.86 if (key, explore) == (("next", "ips"), 0.05) else 0.9
        assert least <= share <= 0.99, (key, share)


@pytest.mark.slow
def test_intervals_cover_what_a_sampling_policy_plays():
    """The arm that it plays most is judged well; for arms that it has given up, little is left."""
    shares = covered({"rule": "sample"}, 200, 1200)
    for name in ESTIMATORS[1:]:
        assert 0.9 <= shares["next", name] <= 0.99
        assert 0.8 <= shares["even", name] <= 0.99


@pytest.mark.parametrize(("options", "words"), WRONG, ids=[str(each[0]) for each in WRONG])
def test_wrong_options_are_named_on_the_command_line(items, options, words):
    url = f"sqlite:///{quick_folder('rolf-logs')}/x.db"
    new = ("new", url, "x", "--features", items)
    with pytest.raises(InvalidArgument, match=words):
        run(*new, "--options", json.dumps(options), ok=False)
    run(*new)  # nothing was created
