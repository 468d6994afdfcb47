"""A policy with an estimator of its own: the file of CONTRIBUTING, as a user would write it."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import rolf
from rolf.errors import IncompatibleState, InvalidArgument
from rolf.testing.experiments import current_state, folded_state
from support.stores import make_url

pytestmark = pytest.mark.compiled

ROOT = Path(__file__).parents[2]
FILE = re.compile(r"^```python file=medians.py\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FEATURES = np.random.default_rng(0).standard_normal((5, 2))


@pytest.fixture(scope="module")
def medians(tmp_path_factory):
    """The file, imported."""
    folder = tmp_path_factory.mktemp("medians")
    code = FILE.search((ROOT / "CONTRIBUTING.md").read_text())[1]
    assert code.count("\n") <= 60
    (folder / "medians.py").write_text(code)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        import medians

        yield medians
    sys.modules.pop("medians")


def test_it_is_a_policy_like_any_other(medians):
    rolf.testing.check_policy(medians.MedianGreedy)
    rolf.testing.check_policy(medians.MedianGreedy, window=3, epsilon=0.5)


def test_simulations_compile_it(medians):
    plan, family = {"m": medians.MedianGreedy}, rolf.environments.paper(arms=6, size=8)
    fast = rolf.simulate(plan, family, rounds=300, runs=2, seed=0)
    slow = rolf.simulate(plan, family, rounds=300, runs=2, seed=0, compiled=False)
    assert (fast.regret == slow.regret).all()


def test_estimates_are_the_medians_of_the_latest_rewards(medians):
    policy, told = medians.MedianGreedy(FEATURES, window=4, seed=1), [[] for _ in FEATURES]
    for reward in np.random.default_rng(2).standard_cauchy(60):
        decision = policy.ask()
        policy.tell(decision, reward)
        told[decision.arm].append(reward)
    expected = [np.median(rewards[-4:]) if rewards else 0.0 for rewards in told]
    assert policy.estimates() == pytest.approx(expected, abs=0)


def test_it_is_saved_but_not_merged(medians):
    policy = medians.MedianGreedy(FEATURES, seed=1)
    for _ in range(30):
        policy.tell(policy.ask(), 1.0)
    data = json.loads(json.dumps(policy.to_dict()))
    again = rolf.Policy.from_dict(data)
    assert [again.ask().arm for _ in range(20)] == [policy.ask().arm for _ in range(20)]
    with pytest.raises(IncompatibleState, match="a median does not follow from sums"):
        rolf.Policy.merge(data, medians.MedianGreedy(FEATURES, seed=2).to_dict())
    with pytest.raises(IncompatibleState, match="a median does not follow from sums"):
        rolf.Policy.merge(data, base=medians.MedianGreedy(FEATURES, seed=2).to_dict())


def test_experiments_run_it_and_correct_rewards(medians):
    url, name = make_url("sqlite"), "medians:MedianGreedy"
    options = {"window": 3}
    with rolf.open_experiment(
        url, "one", features=FEATURES, policy=name, options=options, seed=1
    ) as experiment:
        told = {}
        for round in range(40):
            decision = experiment.ask()
            experiment.tell(decision, float(round % 7))
            told[decision.id] = (decision.arm, float(round % 7))
        for key in list(told)[::9]:
            experiment.correct(key, 50.0, "absurd")
            told[key] = (told[key][0], 50.0)
        experiment.add_arms([[1.0, 2.0]])
        experiment.snapshot()
        kept = [[y for arm, y in told.values() if arm == each][-3:] for each in range(6)]
        expected = [np.median(rewards) if rewards else 0.0 for rewards in kept]
        assert experiment.estimates() == pytest.approx(expected, abs=0)
    with rolf.open_experiment(url, "one") as again:
        assert again.estimates() == pytest.approx(expected, abs=0)
        assert current_state(again) == folded_state(again)
    with pytest.raises(InvalidArgument, match="a median does not follow from sums"):
        rolf.open_experiment(url, "two", features=FEATURES, policy=name, reward_after=60.0)
