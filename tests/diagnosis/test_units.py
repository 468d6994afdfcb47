"""Diagnoses of rewards of any size that is accepted."""

from __future__ import annotations

import json
import math

import numpy as np
import pandas
import pytest

import rolf
from rolf.diagnosis.diagnose import ROLF
from rolf.diagnosis.evidence import Evidence
from support.diagnosing import diagnose
from support.served import service

ARMS = 12


def log(seed=3, plays=20):
    """Features, and rewards that they explain in part."""
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((ARMS, 2))
    means = features @ [1.0, -1.0] + rng.standard_normal(ARMS)
    arms = np.tile(np.arange(ARMS), plays)
    return features, arms, means[arms] + 0.3 * rng.standard_normal(arms.size)


def in_unit(diagnosis, unit):
    """The numbers of a diagnosis, in another unit of rewards."""
    out = diagnosis.to_dict()
    for name in ("explained", "latent", "noise"):
        out[name] = out[name] / unit / unit
    for arm in out["arms"]:
        for name in ("mean", "mean_stderr", "mean_low", "mean_high", "fit", "latent"):
            arm[name] /= unit
        arm["latent_stderr"] /= unit
    return out


def close(one, other, rel=1e-9):
    """Whether plain data are the same but for rounding."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(close(one[k], other[k], rel) for k in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(close, one, other, [rel] * len(one)))
    return (
        one == pytest.approx(other, rel=rel, abs=1e-12) if isinstance(one, float) else one == other
    )


@pytest.mark.parametrize("power", [-400, -300, -101, -99, 99, 101, 200, 265, 330])
def test_the_unit_of_rewards_changes_nothing_else(power):
    features, arms, rewards = log()
    unit = 2.0**power
    expected = diagnose(features, arms, rewards, randomised=True)
    found = diagnose(features, arms, rewards * unit, randomised=True)
    assert expected.verdict == ROLF
    assert close(in_unit(found, unit), expected.to_dict())
    assert "nan" not in str(found)


@pytest.mark.parametrize("size", [1e80, 1e100])
def test_the_largest_rewards(size):
    features, arms, rewards = log()
    rewards *= size / np.abs(rewards).max()
    found = diagnose(features, arms, rewards)
    assert found.verdict == ROLF
    assert math.sqrt(found.noise) == pytest.approx(0.3 * size / 5.0, rel=0.5)
    json.dumps(found.to_dict(), allow_nan=False)
    same = diagnose(features, arms, np.full(arms.size, size))
    assert "All rewards are equal" in same.reason
    assert same.noise >= 0.0
    once = diagnose(features, np.arange(ARMS), rewards[:ARMS])
    assert [part.mean for part in once.arms] == pytest.approx(rewards[:ARMS].tolist())


@pytest.mark.parametrize("seed", range(3))
def test_one_arm_with_huge_mistakes_that_cancel(seed):
    features, arms, rewards = log(seed)
    rewards[:2], arms[:2] = (1e100, -1e100), 0
    assert str(diagnose(features, arms, rewards))  # a warning would be an error


@pytest.mark.parametrize("sizes", [(1.0, 1e90), (1e90, 1.0), (1e-90, 1e-90), (0.0, 1e-90)])
def test_parts_of_a_log_may_have_rewards_of_different_sizes(tmp_path, sizes):
    features, arms, rewards = log()
    half = arms.size // 2
    rewards[:half] *= sizes[0]
    rewards[half:] *= sizes[1]
    frame = pandas.DataFrame({"arm": arms, "reward": rewards})
    for place, part in enumerate((frame[:half], frame[half:])):
        part.to_parquet(tmp_path / f"{place}.parquet")
    expected = diagnose(features, arms, rewards)
    found = rolf.diagnose(tmp_path, features, progress=False)
    size = max(sizes)
    assert close(in_unit(found, size), in_unit(expected, size), 1e-6)


def test_units_of_parts_are_brought_together():
    rng = np.random.default_rng(4)
    positions = rng.integers(0, 3, 300)
    rewards = rng.standard_normal(300) * np.repeat([1e40, 1e45, 1.0], 100)
    whole = Evidence.of(positions, rewards, 3, 2.0)
    parts = [Evidence.of(positions[i::3], rewards[i::3], 3, 2.0) for i in range(3)]
    blocks = [
        Evidence.of(positions[i : i + 100], rewards[i : i + 100], 3, 2.0) for i in (0, 100, 200)
    ]
    for first, second, third in (parts, blocks):
        added = first.plus(second).plus(third)
        assert added.unit == whole.unit
        for name in ("means", "m2", "m3", "m4"):
            assert getattr(added, name) == pytest.approx(getattr(whole, name), rel=1e-9)


def test_a_service_diagnoses_large_rewards():
    features, _, rewards = log()
    with service() as client:
        client.make("large", features=features.tolist())
        with rolf.connect(str(client.base_url), client.headers["authorization"][7:]) as there:
            experiment = there.experiment("large")
            decisions = experiment.ask_many(60)
            experiment.tell_many([(each, 1e80 * rewards[each.arm]) for each in decisions])
        answer = client.get("/v1/experiments/large/diagnosis")
    assert answer.status_code == 200, answer.text
    assert answer.json()["verdict"]
