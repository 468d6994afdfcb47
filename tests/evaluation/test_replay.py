"""Policies on logged decisions: arithmetic by hand, truth by simulation, refusals."""

from __future__ import annotations

import json
import math
import warnings

import numpy as np
import pytest
from scipy import stats

import rolf
from rolf.evaluation.offpolicy import check_overlap
from rolf.evaluation.replay import ESTIMATORS, replay
from rolf.evaluation.result import Evaluation, Value
from rolf.evaluation.sums import Overlap
from rolf.logs.log import Log

pytestmark = pytest.mark.compiled

MEANS = np.array([0.2, 0.5, 0.35, 0.6, 0.1])
FEATURES = np.random.default_rng(0).standard_normal((5, 2))
UNIFORM = np.full(5, 0.2)
SKEWED = np.array([0.4, 0.25, 0.15, 0.1, 0.1])
EVEN = ("rolf-ridge", {"exploration": 1e9})  # a uniform draw in every round
WEIGHTED = ("ips", "snips", "dr")
ONLY_REPLAY = 'only the estimator "replay" can be used'


def logged(seed, size=800, chances=UNIFORM, noise=0.3):
    rng = np.random.default_rng([seed, 9])
    arms = rng.choice(5, size, p=chances)
    return Log(arms, chances[arms], MEANS[arms] + noise * rng.standard_normal(size))


def quiet(*args, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rolf.RolfWarning)
        return replay(*args, **options)


# --- by hand ---------------------------------------------------------------------------------

# The first four teach greedy UCB that arm 1 is the better one; the last four are evaluated.
HAND = Log(
    [0, 1, 0, 1, 1, 0, 1, 0],
    [0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.25, 0.5],
    [0.0, 1.0, 0.0, 1.0, 1.0, 0.5, 3.0, 0.25],
)
GREEDY = {"greedy": ("ucb", {"scale": 0.0})}


def test_weighted_estimators_by_hand():
    with pytest.warns(rolf.RolfWarning, match=r"greedy: ips, snips, dr rest on an effective 2"):
        out = replay(HAND, [[1.0], [0.0]], GREEDY, estimators=WEIGHTED)
    # weights 2, 0, 4, 0
    ips, snips, dr = (out.find("greedy", name) for name in WEIGHTED)
    assert ips.value == pytest.approx((2 * 1 + 4 * 3) / 4)
    assert snips.value == pytest.approx((2 * 1 + 4 * 3) / 6)
    assert [row.effective for row in (ips, snips, dr)] == pytest.approx([36 / 20] * 3)
    terms = np.array([2.0, 0.0, 12.0, 0.0])
    reach = stats.t.ppf(0.975, 1.0) * terms.std(ddof=1) / 2
    assert (ips.low, ips.high) == (pytest.approx(3.5 - reach), pytest.approx(3.5 + reach))
    # features that are orthonormal: the model is a mean of each arm, shrunk by one
    expected = []
    for i, weight in zip(range(4, 8), (2, 0, 4, 0), strict=True):
        past, rewards = np.array(HAND.arms[:i]).astype(int), HAND.rewards[:i]
        centre = rewards.mean()
        model = [
            centre + (rewards[past == a] - centre).sum() / (1 + (past == a).sum()) for a in (0, 1)
        ]
        expected.append(model[1] + weight * (HAND.rewards[i] - model[int(HAND.arms[i])]))
    assert dr.value == pytest.approx(np.mean(expected))
    mean = out.find("as logged", "mean")
    assert mean.value == pytest.approx(4.75 / 4)


def test_clipping_cuts_weights():
    out = quiet(HAND, np.eye(2), GREEDY, estimators=["ips"], clip=3.0)
    assert out.find("greedy", "ips").value == pytest.approx((2 * 1 + 3 * 3) / 4)


def test_replay_by_hand():
    """A decision waits for the next logged one of its arm: rows 0, 3 and 5, or 3 and 5."""
    log = Log([0, 0, 0, 1, 1, 0], [0.5] * 6, [1.0, 9.0, 9.0, 0.0, 9.0, 4.0])
    seen = set()
    for seed in range(8):
        row = quiet(log, np.eye(2), GREEDY, estimators="replay", seed=seed).find("greedy", "replay")
        seen.add((row.effective, round(row.value, 9)))
    assert seen == {(3.0, round(5 / 3, 9)), (2.0, 2.0)}


def test_an_interval_accounts_for_rewards_too_rare_to_be_seen():
    """No click in 100: Clopper and Pearson say up to 3.6%, a normal interval nothing."""
    arms = np.tile([0, 1], 200)
    clicks = np.zeros(400)
    clicks[:4:2] = 1.0  # arm 0, early
    with pytest.warns(rolf.RolfWarning, match="too few rewards other than 0: an effective 0"):
        out = replay(Log(arms, np.full(400, 0.5), clicks), np.eye(2), GREEDY, estimators=["snips"])
    row = out.find("greedy", "snips")
    assert (row.value, row.low, row.effective) == (0.0, 0.0, pytest.approx(100.0))
    assert row.high == pytest.approx(1 - 0.025**0.01)


# --- truth by simulation -----------------------------------------------------------------------


def rule_of(log):
    """The evaluated rule, without the code under test."""
    policy = rolf.UCB(FEATURES, setting="tuned", noise=0.3, seed=0)
    half = len(log) // 2
    policy.learn([int(a) for a in log.arms[:half]], log.rewards[:half])
    return policy.probabilities()


@pytest.mark.slow
@pytest.mark.parametrize("chances", [UNIFORM, SKEWED], ids=["uniform", "skewed"])
def test_unbiased_and_covering(chances):
    """400 logs: bias within 3.5 standard errors (false alarm 1 in 2,000), coverage of 95%."""
    errors, inside = {}, {}
    for seed in range(400):
        log = logged(seed, chances=chances)
        policies = {"p": ("ucb", {"setting": "tuned", "noise": 0.3}), "e": EVEN}
        out = quiet(log, FEATURES, policies, seed=seed)
        truth = {"p": float(rule_of(log) @ MEANS), "e": MEANS.mean()}
        for row in out[1:]:
            if row.policy == "p" and row.estimator == "replay":
                continue  # learns: the next test
            key = row.policy, row.estimator
            errors.setdefault(key, []).append(row.value - truth[row.policy])
            inside.setdefault(key, []).append(row.low <= truth[row.policy] <= row.high)
    assert len(errors) == 7
    for key, values in errors.items():
        assert abs(np.mean(values)) < 3.5 * np.std(values) / 20, key
        assert 0.90 <= np.mean(inside[key]) <= 0.98, (key, np.mean(inside[key]))


@pytest.mark.parametrize("chances", [UNIFORM, SKEWED], ids=["uniform", "skewed"])
def test_replay_of_a_learning_policy_is_what_it_does_online(chances):
    """No bias. Intervals are about one pass: they hold the mean over passes a bit less often."""
    options = {"setting": "tuned", "noise": 0.3}
    gaps, ends, online = [], [], []
    for seed in range(200):
        out = quiet(
            logged(seed, chances=chances),
            FEATURES,
            {"p": ("ucb", options)},
            estimators="replay",
            seed=seed,
        )
        row = out.find("p", "replay")
        problem = rolf.environments.Problem(FEATURES, MEANS, 0.3)
        rng = np.random.default_rng([seed, 3])
        policy = rolf.UCB(FEATURES, seed=seed, **options)
        total = 0.0
        for _ in range(int(row.effective)):
            decision = policy.ask()
            reward = problem.reward(decision.arm, rng)
            policy.tell(decision, reward)
            total += reward
        online.append(total / row.effective)
        gaps.append(row.value - online[-1])
        ends.append((row.low, row.high))
    assert abs(np.mean(gaps)) < 3.5 * np.std(gaps) / math.sqrt(200)
    low, high = np.transpose(ends)
    assert 0.85 <= np.mean((low <= np.mean(online)) & (np.mean(online) <= high)) <= 0.98


def contextual(seed, size=600):
    """Arms whose features of the round are good are logged more often, and pay more."""
    rng = np.random.default_rng([seed, 4])
    table = rng.standard_normal((size, 3))
    pull = np.exp(table)
    chances = 0.1 + 0.7 * pull / pull.sum(axis=1, keepdims=True)
    arms = (chances.cumsum(axis=1) > rng.random((size, 1))).argmax(axis=1)
    rows = np.arange(size)
    means = 0.5 * table + [0.0, 0.3, -0.3]
    rewards = means[rows, arms] + 0.2 * rng.standard_normal(size)
    columns = {f"x_{arm}_size": table[:, arm] for arm in range(3)}
    return Log(arms, chances[rows, arms], rewards, columns)


@pytest.mark.slow
def test_thinning_undoes_what_a_contextual_log_favours():
    """The log's own mean is far above that of a uniform draw, which is 0."""
    values = {"logged": [], "fixed": [], "varying": []}
    policies = {"fixed": EVEN, "varying": ("rolf-varying", {"exploration": 1e9})}
    for seed in range(100):
        out = quiet(
            contextual(seed),
            np.zeros((3, 1)),
            policies,
            estimators=["replay", "dr"],
            seed=seed,
        )
        values["logged"].append(out[0].value)
        for label in policies:
            values[label].append(out.find(label, "replay").value)
            values.setdefault(f"{label}-dr", []).append(out.find(label, "dr").value)
    assert np.mean(values.pop("logged")) > 0.15
    for key, errors in values.items():  # the truth is 0
        assert abs(np.mean(errors)) < 3.5 * np.std(errors) / 10, key


def test_a_varying_policy_finds_what_pays():
    log = contextual(0, size=2000)
    out = replay(log, np.zeros((3, 1)), ["rolf-bayes-varying", "ucb"])
    for name in ESTIMATORS:
        assert out.find("rolf-bayes-varying", name).low > out.find("ucb", name).high
    assert out.find("rolf-bayes-varying", "dr").value == pytest.approx(0.49, abs=0.05)


def test_forced_exploration_counts_as_done_and_can_be_asked_for():
    out = quiet(logged(0), FEATURES, {"best": "rolf-ridge", "even": EVEN}, estimators=["dr"])
    assert out.find("even", "dr").value < 0.45 < out.find("best", "dr").value


def test_same_seed_same_values():
    first, again, other = (
        replay(logged(1), FEATURES, ["rolf-ridge"], seed=s).to_dict() for s in (0, 0, 1)
    )
    assert first == again != other


# --- refusals ----------------------------------------------------------------------------------


def test_a_deterministic_log_is_refused():
    log = logged(0)
    sure = Log(log.arms, np.ones(len(log)), log.rewards)
    with pytest.raises(rolf.RolfError, match=f"probability 1 for every .*{ONLY_REPLAY}"):
        replay(sure, FEATURES, ["ucb"], estimators=WEIGHTED)
    almost = Log(log.arms, np.r_[0.9, np.ones(len(log) - 1)], log.rewards)
    with pytest.raises(rolf.RolfError, match=f"probability 1 for 100% .*{ONLY_REPLAY}"):
        replay(almost, FEATURES, ["ucb"], estimators=WEIGHTED)
    only = Log(np.zeros(100, int), np.full(100, 0.99), np.arange(100.0))
    with pytest.raises(rolf.RolfError, match="none of the decisions that ucb would take"):
        replay(only, FEATURES, ["ucb"], estimators=WEIGHTED)
    doubled = Log(log.arms, 0.5 * log.probabilities, log.rewards)
    with pytest.raises(rolf.RolfError, match="probabilities that give even weights of 2 on"):
        replay(doubled, FEATURES, {"even": EVEN}, estimators=WEIGHTED)


def test_what_works_is_kept_where_something_is_refused():
    """A log that stays with one arm: so does greedy UCB, but an even draw would take both."""
    log = logged(0)
    sure = Log(log.arms, np.ones(len(log)), log.rewards)
    with pytest.warns(rolf.RolfWarning, match="ips, snips, dr left out: log: got 'probability 1"):
        out = replay(sure, FEATURES, ["ucb", "rolf-ridge"])
    assert [row.estimator for row in out] == ["mean", "replay", "replay"]
    assert any(ONLY_REPLAY in note for note in out.notes)
    assert not any("--" in note for note in out.notes)
    arms, chances = np.r_[1, np.zeros(399, int)], np.r_[0.5, np.ones(399)]
    one = Log(arms, chances, np.r_[0.0, 5.0 + np.sin(np.arange(399.0))])
    policies = {"greedy": ("ucb", {"scale": 0.0}), "even": EVEN}
    with pytest.warns(rolf.RolfWarning, match="even: ips, dr left out: log: got 'probability 1"):
        out = replay(one, np.eye(2), policies, estimators=["ips", "dr"])
    assert [row.policy for row in out] == ["as logged", "greedy", "greedy"]
    assert len(out.notes) == 2


def test_chance_does_not_refuse_an_honest_log():
    """A rule of one arm with chance 2%: about ten of 500 decisions, sometimes far fewer."""
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(2000):
        weights = np.where(rng.random(500) < 0.02, 50.0, 0.0)
        try:
            check_overlap("p", Overlap.of(weights))
        except rolf.RolfError:
            refused += 1
    assert refused <= 6


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"estimators": ["dm"]}, "dm"),
        ({"estimators": []}, "estimators"),
        ({"level": 95}, "level"),
        ({"split": 0.0}, "split"),
        ({"split": 0.9999}, "split after"),
        ({"clip": 0.0}, "clip"),
        ({"seed": -1}, "seed"),
        ({"policies": {"p": "none"}}, "none"),
        ({"policies": {"as logged": "ucb"}}, "label"),
        ({"policies": {"p": ("ucb", {"nose": 1})}}, "nose"),
        ({"policies": ["rolf-varying"]}, "x_<arm>_<feature>"),
        ({"features": FEATURES[:4]}, "arm '4'"),
    ],
)
def test_wrong_arguments_are_named(change, expected):
    arguments = {"features": FEATURES, "policies": ["ucb"], **change}
    with pytest.raises(rolf.RolfError, match=expected):
        replay(logged(0), **arguments)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (([0], [0.5], [1.0, 2.0]), "rewards"),
        (([0], [0.0], [1.0]), "probabilities"),
        (([0], [1.5], [1.0]), "probabilities"),
        (([0], [0.5], [math.nan]), "rewards"),
        (([0], ["x"], [1.0]), "probabilities"),
        (([0], [0.5], [[1.0]]), "rewards"),
        (([0], 0.5, [1.0]), "probabilities"),
    ],
)
def test_a_log_is_checked(arguments, expected):
    with pytest.raises(rolf.RolfError, match=expected):
        Log(*arguments)


# --- results -------------------------------------------------------------------------------------


def test_table_data_and_picture(tmp_path):
    out = replay(logged(0), FEATURES, {"$a_b$": "ucb", "rolf-ridge": "rolf-ridge"})
    assert len(out) == 9
    assert str(out).splitlines()[0].split() == [
        *("policy", "estimator", "value", "low", "high", "effective")
    ]
    data = json.loads(json.dumps(out.to_dict(), allow_nan=False))
    assert data["rows"][0]["policy"] == "as logged"
    assert data["decisions"] == 800
    assert [(row.policy, row.estimator) for row in out[1:]] == [
        (label, name) for label in ("$a_b$", "rolf-ridge") for name in ESTIMATORS
    ]
    for name in ("x.png", "x.svg"):
        out.plot(tmp_path / name)
        assert (tmp_path / name).stat().st_size > 1000
    with pytest.raises(rolf.RolfError, match="rolf-ridge/dr"):
        out.find("rolf-ridge", "dm")


def test_numbers_show_the_narrowest_interval_with_two_digits():
    wide = Value("p", "ips", 0.5, 0.0, 1.0, 1234.5)
    narrow = Value("longer", "dr", 0.123456, 0.12, 0.1234567, 9.0)
    assert str(Evaluation([wide, narrow], 0.95, 10, [])) == (
        "policy  estimator   value     low    high  effective\n"
        "p       ips        0.5000  0.0000  1.0000       1234\n"
        "longer  dr         0.1235  0.1200  0.1235          9"
    )
    assert str(Evaluation([wide], 0.95, 10, [])).splitlines()[1].split()[2] == "0.50"
    exact = Value("p", "ips", 1.0, 1.0, 1.0, 3.0)
    assert "1.00" in str(Evaluation([exact], 0.95, 10, []))


def test_nothing_accepted_is_said_and_drawn(tmp_path):
    log = Log(["0", "0", "0", "0"], [0.5] * 4, [0.1, 0.2, 0.3, 0.4])
    accepted = set()
    for seed in range(8):
        with pytest.warns(rolf.RolfWarning, match="p: replay rests on"):
            out = replay(log, np.eye(2), {"p": "ucb"}, estimators="replay", seed=seed)
        row = out.find("p", "replay")
        accepted.add(row.effective)
        assert json.dumps(out.to_dict(), allow_nan=False)
        out.plot(tmp_path / "x.png")
    assert accepted == {0.0, 1.0}


def test_progress_is_reported():
    seen = []
    replay(logged(0), FEATURES, ["ucb"], progress=seen.append)
    assert seen == ["ucb"] * 40


def test_pairs_are_a_log_and_a_result_has_a_table(tmp_path):
    log = logged(1)
    pairs = zip(log.arms, log.rewards, strict=True)
    result = replay(pairs, FEATURES, ["ucb"], estimators=["replay"])
    assert result.to_dict() == quiet(log, FEATURES, ["ucb"], estimators=["replay"]).to_dict()
    table = result.table()
    assert [row["estimator"] for row in table.to_dicts()] == ["mean", "replay"]
    assert table.to_pandas()["value"].tolist() == [row.value for row in result]
    assert json.loads(result.save(tmp_path / "r.json").read_text()) == result.to_dict()
    assert result.save(tmp_path / "r.csv").read_text().startswith("policy,estimator,value")
    with pytest.raises(rolf.RolfError, match=r"log: got .* pairs of an arm and its reward"):
        replay([1, 2, 3], FEATURES, ["ucb"])
