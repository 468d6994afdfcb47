"""Decisions without a reward yet, here and over HTTP."""

from __future__ import annotations

import math
import time
from itertools import chain

import numpy as np
import pytest

import rolf
from rolf.errors import ExperimentError, InvalidArgument, UnknownExperiment
from rolf.experiments.status.pending import AT_A_TIME, LATEST, Pending, PendingDecision
from rolf.experiments.storage.rows import DECISION, DEFAULT, REWARD
from rolf.experiments.transfer.backup import fill_experiment
from rolf.testing.experiments import rows_of
from rolf.testing.storage import (
    FEATURES,
    NAMED_FEATURES,
    create_experiment,
    decision_row,
    round_features,
)
from support.served import problem, service
from support.stores import make_url

WRONG = [0, -1, LATEST + 1, 1.5, True, None, "3", math.nan]


def ids(waiting):
    return [decision.id for decision in waiting.decisions]


def unrewarded(experiment):
    """The ids of all decisions without a reward, the latest first, from the whole log."""
    log = rows_of(experiment)
    rewarded = {row.number for row in log if row.kind in (REWARD, DEFAULT)}
    asked = {row.number for row in log if row.kind == DECISION}
    return [experiment.record.decision_id(n) for n in sorted(asked - rewarded, reverse=True)]


# --- which decisions wait ---


def test_a_decision_waits_until_it_is_told(url):
    experiment = create_experiment(url, features=NAMED_FEATURES)
    assert experiment.pending() == Pending([], 0, 0)
    before = time.time()
    first, second = experiment.ask(), experiment.ask()
    found = experiment.pending()
    assert found.decisions == [
        PendingDecision(each.id, each.arm, each.probability, shown.asked_at)
        for each, shown in zip([second, first], found.decisions, strict=True)
    ]
    assert before - 1 < found.decisions[1].asked_at <= found.decisions[0].asked_at < time.time() + 1
    assert (found.total, found.looked_at) == (2, 2)
    experiment.tell(second, 1.0)
    assert ids(experiment.pending()) == [first.id]
    experiment.tell(first.id, 1.0)
    assert experiment.pending() == Pending([], 0, 0)
    experiment.correct(first, 2.0, "a slip")
    assert experiment.pending().decisions == []


def test_batches_slates_keys_and_changes_of_the_arms(url):
    experiment = create_experiment(url, features=NAMED_FEATURES, policy="ucb")
    batch = experiment.ask_many(4)
    keyed = experiment.ask_many(3, idempotency_key="my key")
    assert experiment.ask_many(3, idempotency_key="my key") == keyed  # which are no more decisions
    experiment.retire_arms([keyed[0].arm])
    slate = experiment.ask_many(2, distinct=True)
    asked = [*batch, *keyed, *slate]
    assert ids(experiment.pending()) == [each.id for each in reversed(asked)]
    assert [each.arm for each in experiment.pending().decisions] == [
        each.arm for each in reversed(asked)
    ]
    experiment.tell_many({each.id: 0.5 for each in asked[1:8:2]})
    experiment.add_arms(NAMED_FEATURES.iloc[:1].rename(index={"a": "new"}))
    left = [each.id for each in asked if each not in asked[1:8:2]]
    assert ids(experiment.pending()) == left[::-1] == unrewarded(experiment)
    assert experiment.pending().total == len(left)
    latest = experiment.ask(available=["new"])
    assert experiment.pending(1).decisions[0][:2] == (latest.id, "new")


def test_default_rewards_end_the_waiting(url):
    experiment = create_experiment(url, default_reward=0.0, reward_after=60.0)
    now = 1000.0
    experiment.synced.now = lambda: now
    old = experiment.ask_many(3)
    now = 1050.0
    new = experiment.ask_many(2)
    now = 1000.0
    experiment.ask()  # where the clock is slow: the latest, and yet due first
    assert len(experiment.pending().decisions) == 6
    now = 1070.0  # nobody has asked or told since
    found = experiment.pending()
    assert ids(found) == [new[1].id, new[0].id]
    assert found.total == 2
    assert [each.asked_at for each in found.decisions] == [1050.0, 1050.0]
    experiment.tell(old[0], 1.0)  # in place of the default
    experiment.correct(old[0], 2.0, "a slip")
    assert ids(experiment.pending()) == [new[1].id, new[0].id]
    now = 1200.0
    assert experiment.pending() == Pending([], 0, 0)
    assert experiment.status().pending == 0


def test_other_handles_and_reopening(shared_url):
    one, other = create_experiment(shared_url), create_experiment(shared_url)
    decisions = one.ask_many(3)
    assert ids(other.pending()) == [each.id for each in decisions[::-1]]
    other.tell(decisions[1], 1.0)
    assert ids(one.pending()) == [decisions[2].id, decisions[0].id]
    one.snapshot()
    again = rolf.open_experiment(shared_url, "one")
    assert again.pending() == one.pending()


def test_any_order_of_rewards(url):
    experiment, rng = create_experiment(url, policy="ucb"), np.random.default_rng(5)
    waiting = []
    for _ in range(30):
        waiting += experiment.ask_many(int(rng.integers(1, 30)))
        rng.shuffle(waiting)
        told = [waiting.pop() for _ in range(int(rng.integers(0, len(waiting) + 1)))]
        experiment.tell_many([(each, 1.0) for each in told])
        expected = unrewarded(experiment)
        most = int(rng.integers(1, LATEST + 1))
        found = experiment.pending(most)
        assert ids(found) == expected[:most]
        assert found.total == len(expected) == len(waiting)


def test_features_with_every_ask_and_unknown_chances():
    experiment = create_experiment(make_url("sqlite"), policy="linucb-varying")
    decision = experiment.ask(features=FEATURES)
    assert experiment.pending().decisions[0].id == decision.id
    experiment = create_experiment(make_url("sqlite"), policy="lints")
    decision = experiment.ask(**round_features(experiment))
    chance = experiment.pending().decisions[0].probability
    assert chance is None if math.isnan(decision.probability) else chance == decision.probability


# --- how far it looks ---


def long_log(url, numbers, told=()):
    """An experiment with decisions of these numbers, some of which have rewards."""
    short = create_experiment(url, "short", policy="ucb")
    rows = []
    for number in numbers:
        row = decision_row(number)
        rows += [row, row.rewarded(REWARD, 1.0, 6.0)] if number in told else [row]
    fill_experiment(short.synced.store, short.record._replace(name="long", tag="long"), rows)
    return rolf.open_experiment(url, "long")


def test_only_the_latest_thousand_are_looked_at(url, monkeypatch):
    count = LATEST + 500
    early, late = 400, (650, LATEST + 2)  # of those that wait
    told = set(range(1, count + 1)) - {early, *late}
    experiment = long_log(url, range(1, count + 1), told)
    calls = []
    find = experiment.synced.store.find

    def counted(id, numbers):
        calls.append(numbers)
        return find(id, numbers)

    monkeypatch.setattr(experiment.synced.store, "find", counted)
    found = experiment.pending()
    assert ids(found) == [f"long-{number}" for number in reversed(late)]
    assert found.decisions[0] == PendingDecision(f"long-{LATEST + 2}", 1, 0.5, 5.0)
    assert (found.total, found.looked_at) == (3, LATEST)
    assert list(chain(*calls)) == list(range(count, count - LATEST, -1))
    assert len(calls) <= 10
    calls.clear()
    found = experiment.pending(1)  # no more than is needed
    assert (ids(found), found.total) == ([f"long-{LATEST + 2}"], 3)
    assert found.looked_at == count - (LATEST + 2) + 1
    assert len(list(chain(*calls))) < LATEST
    for number in late:
        experiment.tell(f"long-{number}", 1.0)
    assert experiment.pending() == Pending([], 1, LATEST)  # a reader sees that an older one waits
    experiment.tell(f"long-{early}", 1.0)
    calls.clear()
    assert experiment.pending() == Pending([], 0, 0)
    assert calls == []


def test_a_full_list(url):
    experiment = long_log(url, range(1, LATEST + 301))
    assert experiment.pending(LATEST).looked_at == LATEST
    assert len(experiment.pending(LATEST).decisions) == LATEST
    for most in (1, AT_A_TIME - 1, AT_A_TIME, AT_A_TIME + 1, 2 * AT_A_TIME):
        found = experiment.pending(most)
        assert ids(found) == [f"long-{n}" for n in range(LATEST + 300, LATEST + 300 - most, -1)]
        assert (found.total, found.looked_at) == (LATEST + 300, most)
    assert len(experiment.pending().decisions) == 100


def test_numbers_with_gaps():
    """As in a log that was imported in part."""
    experiment = long_log(make_url("sqlite"), [1, 5, 900, 5000], told={900})
    found = experiment.pending()
    assert (ids(found), found.total) == (["long-5000"], 3)


# --- what may happen meanwhile ---


def test_what_is_told_meanwhile_fits_the_total(shared_url, monkeypatch):
    experiment, other = create_experiment(shared_url), create_experiment(shared_url)
    decisions = experiment.ask_many(3)
    find = experiment.synced.store.find

    def late(id, numbers):
        other.tell(decisions[2], 1.0)
        other.ask()
        return find(id, numbers)

    monkeypatch.setattr(experiment.synced.store, "find", late)
    found = experiment.pending()
    assert ids(found) == [each.id for each in decisions[::-1]]
    assert found.total == 3
    monkeypatch.undo()
    found = experiment.pending()
    assert decisions[2].id not in ids(found)
    assert len(found.decisions) == found.total == 3


def test_a_deleted_experiment_is_not_one_in_which_nothing_waits(url):
    experiment = create_experiment(url)
    experiment.ask()
    create_experiment(url).delete(confirm="one")
    with pytest.raises(UnknownExperiment, match="deleted"):
        experiment.pending()
    closed = create_experiment(url)
    closed.close()
    with pytest.raises(ExperimentError, match="closed"):
        closed.pending()


@pytest.mark.parametrize("most", WRONG, ids=repr)
def test_numbers_that_are_refused(most):
    experiment = create_experiment(make_url("memory"))
    with pytest.raises(InvalidArgument, match="limit") as caught:
        experiment.pending(most)
    assert f"from 1 to {LATEST}" in str(caught.value)


# --- over HTTP ---


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_the_route(kind):
    with service(kind) as client:
        client.make("one", default_reward=0.0, reward_after=1e6)
        path = "/v1/experiments/one/pending"
        assert client.get(path).json() == {"decisions": [], "total": 0, "looked_at": 0}
        asked = client.ask(n=5).json()["decisions"]
        answer = client.get(path)
        assert answer.status_code == 200
        found = answer.json()
        assert [each["id"] for each in found["decisions"]] == [each["id"] for each in asked[::-1]]
        assert [each["arm"] for each in found["decisions"]] == [each["arm"] for each in asked[::-1]]
        for each in found["decisions"]:
            assert each.keys() == {"id", "arm", "probability", "asked_at"}
            assert abs(each["asked_at"] - time.time()) < 60.0
        assert (found["total"], found["looked_at"]) == (5, 5)
        client.tell(asked[4], 1.0)
        found = client.get(path, params={"limit": 2}).json()
        assert [each["id"] for each in found["decisions"]] == [asked[3]["id"], asked[2]["id"]]
        assert (found["total"], found["looked_at"]) == (4, 3)


def test_answers_that_took_long_are_given_again(client, monkeypatch):
    quick, calls = rolf.Experiment.pending, []

    def slow(experiment, most):
        calls.append(most)
        time.sleep(0.5)
        return quick(experiment, most)

    monkeypatch.setattr(rolf.Experiment, "pending", slow)
    client.make("slow")
    client.ask("slow", n=3)
    for most in (1, 1, 2):
        answer = client.get("/v1/experiments/slow/pending", params={"limit": most})
        assert len(answer.json()["decisions"]) == most
    assert calls == [1, 2]


@pytest.mark.parametrize("limit", ["0", "-1", "1001", "x", "1.5", "", "null"])
def test_a_route_with_a_wrong_limit(client, limit):
    answer = client.get("/v1/experiments/mine/pending", params={"limit": limit})
    (error,) = problem(answer, 422, "invalid")["errors"]
    assert error["argument"] == "limit"


def test_a_route_with_other_parameters_or_names(client):
    answer = client.get("/v1/experiments/mine/pending", params={"least": 1})
    assert "wanted one of limit" in problem(answer, 422, "invalid")["detail"]
    problem(client.get("/v1/experiments/nobody/pending"), 404, "not-found")


def test_the_route_of_an_experiment_that_was_deleted():
    with service() as client:
        client.make("one")
        client.ask()
        url = client.app.state.service.settings.storage
        rolf.connect(url).delete("one", confirm="one")
        problem(client.get("/v1/experiments/one/pending"), 404, "not-found")
