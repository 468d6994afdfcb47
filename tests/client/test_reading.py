"""What a client reads: the log, the diagnosis, and what is believed of the arms."""

from __future__ import annotations

import asyncio
import math
import re
import uuid
from pathlib import Path

import numpy as np
import pandas
import pytest

import rolf
from rolf.diagnosis.result import Diagnosis
from rolf.errors import (
    ExperimentError,
    InvalidArgument,
    ServiceError,
    ServiceUnavailable,
    UnknownExperiment,
)
from rolf.experiments.status.pending import Pending
from support.diagnosing import diagnose
from support.proxies import BEFORE

NAMED = pandas.DataFrame(
    {"width": [1.0, 2.0, 3.0, 0.0, 1.5], "height": [2.0, 0.0, 1.0, 3.0, 0.5]}, index=list("abcde")
)


def played(service, features=NAMED, policy="rolf-bayes", rounds=60):
    """A local and a remote experiment with the same decisions and rewards."""
    url, name = f"memory://{uuid.uuid4().hex}", f"e {uuid.uuid4().hex}"
    local = rolf.open_experiment(url, "e", features=features, policy=policy, seed=7)
    remote = service.create(name, features=features, policy=policy, seed=7)
    labels = list(NAMED.index) if features is NAMED else list(range(5))
    for experiment in (local, remote):
        rng = np.random.default_rng(1)
        for decision in experiment.ask_many(rounds):
            noise = 0.1 * rng.standard_normal()
            experiment.tell(decision, math.sin(2.0 * labels.index(decision.arm)) + noise)
    return local, remote


@pytest.mark.parametrize("features", [NAMED, NAMED.to_numpy().tolist()], ids=["names", "numbers"])
def test_beliefs_are_those_of_a_local_experiment(service, features):
    local, remote = played(service, features)
    arms = local.rank()
    for experiment in (local, remote):
        experiment.retire_arms(arms[1:2])
    assert remote.rank() == local.rank()
    assert remote.rank(2) == local.rank(2)
    for name in ("probability_best", "intervals"):
        here, there = getattr(local, name)(), getattr(remote, name)()
        assert type(here) is type(there)
        np.testing.assert_array_equal(np.asarray(here), np.asarray(there))
        if features is NAMED:
            assert list(there.index) == list("abcde")
    assert list(asyncio.run(arank(service, remote.name))) == local.rank()
    with pytest.raises(InvalidArgument, match="k"):
        remote.rank(0)


async def arank(service, name):
    found = await service.experiment(name).arank()
    await service.aclose()
    return found


def test_beliefs_before_and_without_rewards(service):
    local, remote = played(service, rounds=1)
    np.testing.assert_array_equal(local.intervals(), remote.intervals())
    local, remote = played(service, policy="ucb", rounds=3)
    for action in ("probability_best", "intervals"):
        with pytest.raises(ExperimentError, match="ucb has no posterior"):
            getattr(local, action)()
        with pytest.raises(ExperimentError, match="ucb has no posterior"):
            getattr(remote, action)()
    for experiment in (local, remote):  # arguments are checked first
        with pytest.raises(InvalidArgument, match="level"):
            experiment.intervals(2.0)
        with pytest.raises(InvalidArgument, match="draws"):
            experiment.probability_best(draws=0)


def test_the_diagnosis(service):
    empty = service.create(uuid.uuid4().hex, features=NAMED).diagnosis()
    assert (empty.verdict, empty.rewards) == ("not enough data", 0)
    assert "no decision has a reward yet" in str(empty)
    _, remote = played(service)
    rows = [row for row in remote.log() if row.reward is not None]
    arms, rewards = [row.arm for row in rows], [row.reward for row in rows]
    chances = [row.probability for row in rows]
    found = remote.diagnosis(level=0.8)
    expected = diagnose(NAMED, arms, rewards, level=0.8, probabilities=chances)
    assert isinstance(found, Diagnosis)
    assert found.to_dict() == expected.to_dict()
    assert str(found) == str(expected)
    with pytest.raises(InvalidArgument, match="level"):
        remote.diagnosis(level=1.5)


@pytest.mark.parametrize("policy", ["ucb", "lints"])  # with and without chances
@pytest.mark.parametrize("features", [NAMED, NAMED.to_numpy().tolist()], ids=["names", "numbers"])
def test_what_waits_is_what_waits_in_the_database(running, service, features, policy):
    remote = service.create(uuid.uuid4().hex, features=features, policy=policy)
    with rolf.open_experiment(running.storage, remote.name) as local:
        assert remote.pending() == local.pending() == ([], 0, 0)
        batch = remote.ask_many(130)
        remote.tell_many([(each, 1.0) for each in batch[100:120]])
        for most in ({}, {"limit": 7}, {"limit": 1000}):
            assert remote.pending(**most) == local.pending(**most)
        found = remote.pending(12)
        assert [each.id for each in found.decisions[9:]] == [batch[n].id for n in (120, 99, 98)]
        assert (type(found), found.total, found.looked_at) == (Pending, 110, 32)
        assert asyncio.run(apending(service, remote.name, 12)) == found
    for most in (0, 1001, 2.0, "5"):
        with pytest.raises(InvalidArgument, match="limit"):
            remote.pending(most)
    with pytest.raises(UnknownExperiment, match="no experiment named"):
        service.experiment("nobody").pending()


async def apending(service, name, most):
    found = await service.experiment(name).apending(most)
    await service.aclose()
    return found


def test_the_log_is_that_of_the_database(running, service):
    _, remote = played(service, policy="ucb", rounds=5)
    pending = remote.ask()
    rows = remote.log()
    assert rows[-1].id == pending.id
    assert [row.reward is None for row in rows] == [False] * 5 + [True]
    assert rows[0].arm in NAMED.index
    remote.correct(rows[0].id, 0.25, "a slip")
    rows = remote.log()
    with rolf.open_experiment(running.storage, remote.name) as here:
        assert here.log() == rows
    (correction,) = rows[0].corrections
    assert (correction.reward, correction.reason, rows[0].reward) == (0.25, "a slip", 0.25)

    async def read():
        found = await remote.alog()
        await remote.aclose()
        return found

    assert asyncio.run(read()) == rows
    with pytest.raises(UnknownExperiment, match="no experiment named"):
        service.experiment("nobody").log()


def test_a_log_that_cannot_be_read(proxy, running):
    with rolf.connect(proxy.url, running.key) as service:
        experiment = service.create(uuid.uuid4().hex, features=NAMED, policy="ucb")
        proxy.faults += [BEFORE]
        with pytest.raises(ServiceUnavailable, match="try again"):
            experiment.log()
        for text in ("<html>", "3"):
            proxy.faults += [(200, {}, text)]
            with pytest.raises(ServiceError, match="not one of rolf's"):
                experiment.log()
        proxy.faults += [(503, {})]
        with pytest.raises(ServiceUnavailable):
            experiment.log()


def test_the_page_lists_what_a_local_experiment_has_besides():
    text = (Path(__file__).parents[2] / "docs" / "production" / "clients.md").read_text()
    listed = text.partition("There is no ")[2].partition("\n- ")[0]
    missing = {
        name
        for name in dir(rolf.Experiment)
        if not name.startswith("_") and not hasattr(rolf.RemoteExperiment, name)
    }
    missing -= {f"a{name}" for name in missing}  # coroutines
    assert set(re.findall(r"`(\w+)`", listed)) == missing
