"""What is believed of the arms in a round: a service says what a local experiment says."""

from __future__ import annotations

import asyncio
import math
import threading
import time
import uuid
from functools import partial

import numpy as np
import pandas
import pytest

import rolf
from rolf.client.experiment import RemoteExperiment
from rolf.errors import InvalidArgument, ServiceError, UnknownExperiment
from rolf.experiments import experiment as local_beliefs
from rolf.service.result_cache import Results
from support.served import problem
from support.served import service as serve

NAMED = pandas.DataFrame(
    {"width": [1.0, 2.0, 3.0, 0.0], "height": [2.0, 0.0, 1.0, 3.0]}, index=list("abcd")
)
PLAIN = NAMED.to_numpy().tolist()
TURNED = NAMED.iloc[::-1][["height", "width"]]  # by name, in another order
WHO = {"hour": 3.0, "mobile": 1.0}
BY_NAME = pandas.Series({"mobile": 1.0, "hour": 3.0})
CONTEXT = {"context": ["hour", "mobile"]}
METHODS = ("estimates", "rank", "probability_best", "intervals")

both_kinds = pytest.mark.parametrize("arms", [NAMED, PLAIN], ids=["names", "numbers"])
varying_policies = pytest.mark.parametrize(
    "policy", ["rolf-bayes-varying", "rolf-varying", "linucb-varying"]
)


@pytest.fixture
def played(running, service):
    """Makes handles, a remote and a local one, on an experiment with rewards."""
    opened = []

    def make(arms=NAMED, rounds=40, round=None, **settings):
        remote = service.create(f"e {uuid.uuid4().hex}", features=arms, seed=7, **settings)
        rng = np.random.default_rng(3)
        for decision in remote.ask_many(rounds, **(round or {})) if rounds else ():
            remote.tell(decision, rng.normal() + (decision.arm in ("b", 1)))
        opened.append(rolf.open_experiment(running.storage, remote.name))
        return remote, opened[-1]

    yield make
    for local in opened:
        local.close()


def came_of(experiment, method, *args, **kwargs):
    """What a method returns or raises, to compare: exactly."""
    try:
        found = getattr(experiment, method)(*args, **kwargs)
    except InvalidArgument as error:
        return InvalidArgument, error.argument
    except rolf.RolfError as error:
        return type(error), str(error)
    if isinstance(found, list):
        return list, found
    labels = list(found.index) if hasattr(found, "index") else None
    return type(found), labels, np.asarray(found).tolist()


def failed(outcome):
    return issubclass(outcome[0], Exception)


def assert_same(remote, local, method, *args, fails=False, **kwargs):
    here = came_of(local, method, *args, **kwargs)
    end = time.monotonic() + 15.0
    while (there := came_of(remote, method, *args, **kwargs)) != here and time.monotonic() < end:
        time.sleep(0.2)  # a busy service repeats an answer that took long for a while
    assert there == here
    assert failed(here) == fails, (method, here)
    return here


@varying_policies
@both_kinds
def test_in_the_features_of_a_round(played, arms, policy):
    remote, local = played(arms, policy=policy, round={"features": PLAIN})
    remote.retire_arms([local.arm_table()[3].arm])
    no_posterior = policy != "rolf-bayes-varying"
    for features in [PLAIN, np.array(PLAIN) * 3.0, *([TURNED] if arms is NAMED else [])]:
        for method in METHODS:
            fails = no_posterior and method in ("probability_best", "intervals")
            assert_same(remote, local, method, features=features, fails=fails)
        assert_same(remote, local, "rank", 2, features=features)
    one = came_of(remote, "estimates", features=PLAIN)
    assert one != came_of(remote, "estimates", features=np.array(PLAIN) * 3.0)


@varying_policies
def test_in_a_context(played, policy):
    remote, local = played(policy=policy, round={"context": WHO}, **CONTEXT)
    no_posterior = policy != "rolf-bayes-varying"
    for method in METHODS:
        fails = no_posterior and method in ("probability_best", "intervals")
        ways = [
            assert_same(remote, local, method, context=context, fails=fails)
            for context in (WHO, BY_NAME, [3.0, 1.0], np.array([3.0, 1.0]))
        ]
        assert all(way == ways[0] for way in ways)
    there = came_of(remote, "estimates", context={**WHO, "hour": -3.0})
    assert there != came_of(remote, "estimates", context=WHO)


@both_kinds
def test_levels_draws_and_some_of_the_arms(played, arms):
    remote, local = played(arms, policy="rolf-bayes")
    labels = [each.arm for each in local.arm_table()]
    for level in (0.5, np.float32(0.9), 0.999):
        assert_same(remote, local, "intervals", level)
    assert_same(remote, local, "probability_best", draws=np.int64(37))
    assert_same(remote, local, "probability_best", draws=100_000)
    for some in (labels[:2], iter(labels[1:]), np.array(labels)[2:], {labels[0]}):
        some = list(some)
        _, _, chances = assert_same(remote, local, "probability_best", available=some)
        assert sum(chances) == pytest.approx(1.0)
        assert all(c == 0.0 for a, c in zip(labels, chances, strict=True) if a not in some)
    remote.retire_arms(labels[:1])
    assert_same(remote, local, "probability_best", available=labels[:2])
    assert_same(remote, local, "probability_best", available=labels[:1], fails=True)
    remote.pause()
    for method in METHODS:
        assert_same(remote, local, method)
    assert_same(remote, local, "probability_best", available=labels[1:3])
    remote.retire_arms(labels[1:])
    assert_same(remote, local, "probability_best", fails=True)
    assert_same(remote, local, "probability_best", available=labels, fails=True)
    assert_same(remote, local, "probability_best", draws=10, fails=True)
    for method in ("estimates", "rank", "intervals"):
        assert_same(remote, local, method)


def test_before_there_are_rewards(played):
    for rounds in (0, 1):
        remote, local = played(policy="rolf-bayes-varying", rounds=rounds, round={"context": WHO},
                               **CONTEXT)  # fmt: skip
        for method in METHODS:
            assert_same(remote, local, method, context=WHO)
        assert np.isinf(remote.intervals(context=WHO).to_numpy()).all()
    ties = played([[1.0, 2.0]] * 80, policy="ucb", rounds=20)
    assert_same(*ties, "rank")


def test_mistakes_are_those_of_a_local_experiment(played):
    given = {"context": WHO}
    contexts = played(policy="rolf-bayes-varying", round=given, **CONTEXT)
    tables = played(policy="rolf-bayes-varying", round={"features": PLAIN})
    fixed = played(policy="rolf-bayes")
    for method in METHODS:
        for wrong in (
            {},
            {"context": {"hour": 3.0}},
            {"context": {**WHO, "day": 1.0}},
            {"context": BY_NAME.rename({"hour": "day"})},
            {"context": [3.0]},
            {"context": [3.0, 1.0, 2.0]},
            {"context": [3.0, math.inf]},
            {"features": PLAIN},
            {"context": WHO, "features": PLAIN},
        ):
            assert_same(*contexts, method, **wrong, fails=True)
        with pytest.raises(InvalidArgument, match=r"context\.mobile"):
            getattr(contexts[0], method)(context={**WHO, "mobile": "yes"})
        for wrong in (
            {},
            {"features": PLAIN[:3]},
            {"features": [row[:1] for row in PLAIN]},
            {"features": [[math.nan, 1.0], *PLAIN[1:]]},
            {"features": [["a", "b"], *PLAIN[1:]]},
            {"features": NAMED.rename(index={"a": "z"})},
            {"context": WHO},
        ):
            assert_same(*tables, method, **wrong, fails=True)
        with pytest.raises(InvalidArgument, match="depth"):
            getattr(tables[0], method)(features=NAMED.rename(columns={"width": "depth"}))
        for wrong in ({"features": PLAIN}, {"context": WHO}, {"context": [1.0]}):
            assert_same(*fixed, method, **wrong, fails=True)
    for remote, local in (contexts, fixed):
        round = given if local is contexts[1] else {}
        for level in (0.0, 1.0, 2.5, math.nan, "high", True, None):
            assert_same(remote, local, "intervals", level, **round, fails=True)
        for draws in (0, -1, 2.5, "many", True, None):
            assert_same(remote, local, "probability_best", draws=draws, **round, fails=True)
        for available in (["nobody"], [], "a", 3):
            assert_same(remote, local, "probability_best", available=available, **round, fails=True)
        for k in (0, 1.5, "all"):
            assert_same(remote, local, "rank", k, **round, fails=True)
    with pytest.raises(InvalidArgument, match=r"draws.*100000"):  # of a service alone
        fixed[0].probability_best(draws=100_001)


def test_a_policy_without_a_posterior_of_its_own(played):
    remote, local = played(policy="ucb")
    for arguments in ({"draws": 10}, {"available": ["a", "b"]}, {}):
        assert_same(remote, local, "probability_best", **arguments, fails=True)
    assert_same(remote, local, "intervals", 0.5, fails=True)


def test_coroutines_take_the_same(played):
    remote, local = played(policy="rolf-bayes-varying", round={"context": WHO}, **CONTEXT)

    async def read():
        found = [
            await remote.aestimates(context=WHO),
            await remote.arank(2, context=WHO),
            await remote.aprobability_best(available=["a", "c"], draws=50, context=WHO),
            await remote.aintervals(0.5, context=WHO),
        ]
        await remote.aclose()
        return found

    expected = [
        local.estimates(context=WHO),
        local.rank(2, context=WHO),
        local.probability_best(available=["a", "c"], draws=50, context=WHO),
        local.intervals(0.5, context=WHO),
    ]
    for here, there in zip(expected, asyncio.run(read()), strict=True):
        np.testing.assert_array_equal(np.asarray(here), np.asarray(there))


def test_an_experiment_that_is_not_there(service):
    for method in METHODS:
        for round in ({}, {"context": [1.0]}):
            with pytest.raises(UnknownExperiment, match="no experiment named 'nobody'"):
                getattr(service.experiment("nobody"), method)(**round)


# --- over HTTP ---


def test_nothing_changes_and_nothing_given_is_what_get_says():
    with serve() as client:
        client.make()
        decisions = client.ask(n=20).json()["decisions"]
        rewards = [{"id": each["id"], "reward": float(each["arm"])} for each in decisions]
        client.post("/v1/experiments/one/tell", json={"rewards": rewards})
        place = "/v1/experiments/one/estimates"
        log = client.get("/v1/experiments/one/log").text
        found = client.get(place).json()
        assert client.post(place, json={}).json() == found
        assert client.post(place, json={"level": 0.9, "draws": 10_000}).json() == found
        narrow = client.post(place, json={"level": 0.2}).json()
        for wide, each in zip(found["arms"], narrow["arms"], strict=True):
            assert wide["low"] < each["low"] < each["high"] < wide["high"]
            assert wide["best"] == each["best"]
        assert client.get("/v1/experiments/one/log").text == log


def test_problems_are_those_of_an_ask():
    with serve() as client:
        client.make("crowd", context=["age", "night"], policy="rolf-bayes-varying")
        client.make("tables", policy="linucb-varying")
        for name, bodies in {
            "crowd": [{}, {"context": [1.0]}, {"context": {"age": 1.0, "day": 2.0}},
                      {"context": {"age": "old"}}, {"context": [1.0, 2.0], "available": [9]}],
            "tables": [{}, {"features": [[1.0, 2.0]]}, {"features": [[1.0]] * 4},
                       {"context": [1.0, 2.0]}],
        }.items():  # fmt: skip
            for body in bodies:
                asked = client.post(f"/v1/experiments/{name}/ask", json=body)
                read = client.post(f"/v1/experiments/{name}/estimates", json=body)
                expected = problem(asked, 422, "invalid")
                got = problem(read, 422, "invalid")
                assert {**got, "instance": ""} == {**expected, "instance": ""}


def test_what_takes_long_is_computed_once_and_nobody_waits_for_it(monkeypatch):
    monkeypatch.setattr(Results, "LONG", 0.0)
    begun, go_on, computed = threading.Event(), threading.Event(), []
    compute = local_beliefs.status_of

    def slowly(name, view, **question):
        computed.append(question["level"])
        begun.set()
        assert go_on.wait(30.0)
        time.sleep(0.5)  # good for 2.5 s
        return compute(name, view, **question)

    monkeypatch.setattr(local_beliefs, "status_of", slowly)
    with serve() as client:
        client.make(context=["age"], policy="rolf-bayes-varying")
        place, answers = "/v1/experiments/one/estimates", []
        ask = partial(client.post, place, json={"context": [1.0], "level": 0.5})
        threads = [threading.Thread(target=lambda: answers.append(ask())) for _ in range(3)]
        for thread in threads:
            thread.start()
        assert begun.wait(30.0)
        assert client.get("/healthz").status_code == 200
        assert client.ask(context=[2.0]).status_code == 200
        go_on.set()
        for thread in threads:
            thread.join()
        assert computed == [0.5]
        assert {answer.status_code for answer in answers} == {200}
        assert len({answer.text for answer in answers}) == 1
        assert client.post(place, json={"context": [2.0], "level": 0.5}).status_code == 200
        assert client.post(place, json={"context": [1.0], "level": 0.6}).status_code == 200
        assert computed == [0.5, 0.5, 0.6]


def test_methods_without_arguments_use_get(service):
    for method in METHODS:
        request = next(getattr(RemoteExperiment, method).__wrapped__(service.experiment("one")))
        assert (request.method, request.body) == ("GET", None)


@both_kinds
def test_probabilities_of_the_next_ask(played, arms):
    for policy in ("rolf-bayes", "ucb", "lints"):
        remote, local = played(arms, policy=policy)
        names = remote.arms
        remote.retire_arms([names[3]])
        assert_same(remote, local, "probabilities")
        assert_same(remote, local, "probabilities", available=names[:2], draws=500)
        assert_same(remote, local, "probabilities", available=["x"], fails=True)
        assert_same(remote, local, "probabilities", draws=0, fails=True)
    remote, local = played(arms, policy="rolf-varying", round={"features": PLAIN})
    assert_same(remote, local, "probabilities", features=np.array(PLAIN))
    assert_same(remote, local, "probabilities", fails=True)


@both_kinds
def test_totals_are_learned_once(played, arms):
    remote, local = played(arms, policy="ucb", rounds=0)
    assert remote.learn_totals([3, 0, 2, 1], np.array([1.5, 0.0, 1.0, 0.5]), source="May") == 6
    assert remote.learn_totals([3, 0, 2, 1], [1.5, 0.0, 1.0, 0.5], source="May") == 0
    assert remote.learn_totals([1, 0, 0, 0], [0.5, 0.0, 0.0, 0.0]) == 1
    assert [each.history for each in local.status().arms] == [4, 0, 2, 1]
    assert_same(remote, local, "estimates")
    with pytest.raises(InvalidArgument, match="counts"):
        remote.learn_totals([1], [0.5])


@both_kinds
def test_features_are_corrected(played, arms):
    remote, local = played(arms, policy="rolf-ridge")
    first, *_ = remote.arms
    remote.update_features({first: [5.0, 6.0]})
    assert list(local.arm_table()[0].features.values()) == [5.0, 6.0]
    remote.update_features(arms)
    assert list(local.arm_table()[0].features.values()) == [1.0, 2.0]
    assert_same(remote, local, "estimates")
    with pytest.raises(InvalidArgument):
        remote.update_features({"nothing": [5.0, 6.0]})


def test_what_only_databases_can_do(played, tmp_path):
    remote, _ = played(rounds=1)
    for call in (
        lambda: remote.backup(tmp_path / "x.db"),
        lambda: remote.export(tmp_path / "x.csv"),
        lambda: remote.learn_file(tmp_path / "x.csv", "arm", "reward"),
        lambda: asyncio.run(remote.abackup(tmp_path / "x.db")),
    ):
        with pytest.raises(ServiceError, match="over HTTP"):
            call()
