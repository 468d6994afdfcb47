"""The client of the service: what it does with a real server, and when connections fail."""

from __future__ import annotations

import asyncio
import copy
import inspect
import math
import os
import pickle
import subprocess
import sys
import uuid

import numpy as np
import pandas
import pytest

import rolf
from rolf.errors import (
    AccessDenied,
    DifferentExperiment,
    InvalidArgument,
    RolfWarning,
    UnknownExperiment,
)
from rolf.experiments.protocol import METHODS, ExperimentProtocol
from rolf.testing.service import add_key, free_port
from support.proxies import BEFORE

FEATURES = [[0.0, 1.0], [1.0, 0.5], [0.3, 0.2]]
NAMED = pandas.DataFrame(
    {"width": [1.0, 2.0, 3.0, 1.0], "colour": ["red", "blue", "red", "green"]},
    index=["a", "b", "c", "d"],
)


def new(service, features=FEATURES, **settings):
    return service.create(f"e {uuid.uuid4().hex}", features=features, seed=7, **settings)


# --- the same as a local experiment ---


class Coroutines:
    """A remote experiment whose coroutines are run one by one, in one event loop."""

    def __init__(self, experiment, runner):
        self._experiment, self._runner = experiment, runner

    def __getattr__(self, name):
        if name in ("name", "paused", "policy", "arms"):
            return getattr(self._experiment, name)
        coroutine = getattr(self._experiment, f"a{name}")
        return lambda *args, **kwargs: self._runner.run(coroutine(*args, **kwargs))


def number(decision):
    """A decision without the part of its id that differs between experiments."""
    return {**decision.to_dict(), "id": decision.id.rpartition("-")[2]}


def outcome(action):
    """What an action returns or raises, to compare."""
    try:
        result = action()
    except InvalidArgument as error:
        return type(error), error.argument
    except rolf.RolfError as error:
        return type(error), str(error)
    if isinstance(result, rolf.Decision):
        return number(result)
    if isinstance(result, list) and result and isinstance(result[0], rolf.Decision):
        return [number(each) for each in result]
    if isinstance(result, tuple):
        return list(result)
    return result.tolist() if hasattr(result, "tolist") else result


def play(experiment, arms, tag):
    """Everything that a user does with an experiment; what came of each step."""

    def named(step):  # ids hold a random part
        return lambda: outcome_without_tag(step, tag())

    def outcome_without_tag(step, text):
        found = outcome(step)
        return (found[0], found[1].replace(text, "tag")) if isinstance(found, tuple) else found

    first, second = experiment.ask(), experiment.ask(idempotency_key="my-key")
    steps = [
        lambda: experiment.ask(idempotency_key="my-key"),
        lambda: experiment.ask_many(5),
        lambda: experiment.ask_many(2, available=[arms[0], arms[1]], distinct=True),
        lambda: experiment.ask(available=(each for each in arms[:2])),
        lambda: experiment.ask_many(np.int64(1), available=np.array(arms[1:])),
        lambda: experiment.ask_many(2, idempotency_key="my-key"),
        lambda: experiment.ask_many(0),
        lambda: experiment.ask(available=["nobody"]),
        lambda: experiment.ask(available=arms[0]),
        lambda: experiment.tell(first, 1),
        lambda: experiment.tell(first.id, 1.0),
        lambda: experiment.tell(first, 2.0),
        lambda: experiment.tell(first, math.nan),
        lambda: experiment.tell(first, "much"),
        lambda: experiment.tell(3, 1.0),
        lambda: experiment.tell("nobody-1", 1.0),
        lambda: experiment.tell_many({second.id: 0.5}),
        lambda: experiment.tell_many([(each, np.float32(0.25)) for each in experiment.ask_many(4)]),
        lambda: experiment.tell_many([(first, 1.0), ("nobody-1", 1.0)]),
        lambda: experiment.tell_many([1, 2]),
        lambda: experiment.tell_many([]),
        lambda: experiment.correct(first, 3.0, "a slip"),
        lambda: experiment.correct(experiment.ask(), 3.0, "too early"),
        lambda: experiment.correct(first, 3.0, ""),
        lambda: experiment.learn(arms[:2], [1.0, 0.0], source="old"),
        lambda: experiment.learn(arms[:2], [1.0, 0.0], source="old"),
        lambda: experiment.learn(np.array(arms[:2]), np.array([0.5, 0.5])),
        lambda: experiment.learn(arms[:2], [0.5, 0.5]),
        lambda: experiment.learn(arms[:2], [0.5]),
        lambda: experiment.retire_arms([arms[0]]),
        lambda: experiment.retire_arms(arms[0]),
        lambda: experiment.ask(available=[arms[0]]),
        lambda: experiment.restore_arms([arms[0]]),
        lambda: experiment.retire_arms(["nobody"]),
        experiment.pause,
        lambda: experiment.paused,
        experiment.ask,
        lambda: experiment.ask(idempotency_key="my-key"),
        experiment.resume,
        lambda: experiment.paused,
        experiment.estimates,
        lambda: experiment.status(control=arms[1]).to_dict() | {"name": ""},
        lambda: str(experiment.status()).partition(":")[2],
        experiment.counts,
        lambda: experiment.pending(2)[1:],
        lambda: [(each.id.rpartition("-")[2], *each[1:3]) for each in experiment.pending()[0]],
        lambda: experiment.pending(1001),
        experiment.arm_table,
        lambda: experiment.arms,
        lambda: experiment.policy,
        lambda: experiment.delete(confirm="something else"),
        experiment.ask,
    ]
    return [named(step)() for step in steps]


@pytest.mark.parametrize("way", ["calls", "coroutines"])
@pytest.mark.parametrize("features", [FEATURES, NAMED], ids=["numbers", "table"])
def test_a_remote_experiment_is_like_a_local_one(service, features, way):
    arms = list(NAMED.index) if features is NAMED else [0, 1, 2]
    local = rolf.open_experiment(
        f"memory://{uuid.uuid4().hex}", "e", features=features, policy="ucb", seed=7
    )
    remote = new(service, features, policy="ucb")
    tag = remote.ask().id.rpartition("-")[0]
    local.ask()
    expected = play(local, arms, lambda: local.record.tag)
    if way == "coroutines":
        with asyncio.Runner() as runner:
            got = play(Coroutines(remote, runner), arms, lambda: tag)
            runner.run(service.aclose())
    else:
        got = play(remote, arms, lambda: tag)
    for place, (here, there) in enumerate(zip(expected, got, strict=True)):
        assert here == there, place


@pytest.mark.parametrize("form", [rolf.Experiment, rolf.RemoteExperiment])
def test_every_form_keeps_to_the_protocol(form):
    declared = {name for name in vars(ExperimentProtocol) if not name.startswith("_")}
    properties = {name for name in declared if isinstance(vars(ExperimentProtocol)[name], property)}
    assert declared - properties == set(METHODS)
    for name in properties:
        assert isinstance(inspect.getattr_static(form, name), property)
    for name in METHODS:
        coroutine = getattr(form, f"a{name}")
        assert inspect.iscoroutinefunction(coroutine)
        assert coroutine.__name__ == f"a{name}"
        method = getattr(form, name)
        assert (
            list(inspect.signature(method).parameters.values())[1:]
            == list(inspect.signature(coroutine).parameters.values())[1:]
        ), name
        has = inspect.signature(method).parameters
        for each in list(inspect.signature(getattr(ExperimentProtocol, name)).parameters.values())[
            1:
        ]:
            assert str(has[each.name]) == str(each), (name, each)


def test_contexts_and_features_of_a_round(service):
    contexts = {"policy": "rolf-bayes-varying", "context": ["hour", "mobile"]}
    local = rolf.open_experiment("memory://contexts", "e", features=NAMED, seed=7, **contexts)
    remote = new(service, NAMED, **contexts)
    for context in ({"hour": np.float64(3.0), "mobile": 1.0}, [2.0, 0.0], np.array([1.0, 1.0])):
        assert number(remote.ask(context=context)) == number(local.ask(context=context))
    assert outcome(remote.ask) == outcome(local.ask)
    assert outcome(lambda: remote.ask(context={"hour": 1.0})) == outcome(
        lambda: local.ask(context={"hour": 1.0})
    )
    with pytest.raises(InvalidArgument, match="context"):
        remote.ask(context=[math.inf, 1.0])
    named = NAMED[["width"]].assign(height=[1.0, 2.0, 0.0, 4.0])
    local = rolf.open_experiment(
        "memory://varying", "e", features=named, policy="linucb-varying", seed=7
    )
    remote = new(service, named, policy="linucb-varying")
    turned = named.iloc[::-1][["height", "width"]]  # by name, in another order
    for features in (named, turned, named.to_numpy().tolist()):
        here, there = local.ask(features=features), remote.ask(features=features)
        assert number(here) == number(there)
        local.tell(here, 1.0)
        remote.tell(there, 1.0)
    assert outcome(lambda: remote.ask(features=named[:2])) == outcome(
        lambda: local.ask(features=named[:2])
    )


def test_more_decisions_than_fit_in_a_request(service):
    experiment = new(service, policy="ucb")
    decisions = experiment.ask_many(2_500)
    assert [int(each.id.rpartition("-")[2]) for each in decisions] == list(range(1, 2_501))
    experiment.tell_many([(each, 1.0) for each in decisions])
    assert experiment.counts() == (2_500, 2_500)


def test_experiments_are_listed_created_and_deleted(service, running):
    known = {each.name for each in service.experiments()}
    names = [new(service, policy="ucb").name for _ in range(3)]
    found = {each.name: each for each in service.experiments()}
    assert found.keys() == known | set(names)
    assert found[names[0]][1] == "ucb"
    assert (found[names[0]].arms, found[names[0]].asked, found[names[0]].paused) == (3, 0, False)
    again = service.create(names[0], features=FEATURES, policy="ucb", seed=7)
    assert again.name == names[0]
    with pytest.raises(DifferentExperiment, match="seed"):
        service.create(names[0], features=FEATURES, policy="ucb", seed=8)
    again.delete(confirm=names[0])
    for action in (again.ask, again.status, lambda: again.tell("x-1", 1.0)):
        with pytest.raises(UnknownExperiment, match="no experiment named"):
            action()
    with pytest.raises(UnknownExperiment):
        again.delete(confirm=names[0])


def test_pages_of_a_long_list(service, monkeypatch):
    monkeypatch.setattr("rolf.client.database.PAGE", 2)
    names = {new(service, policy="ucb").name for _ in range(5)}
    found = [each.name for each in service.experiments()]
    assert found == sorted(found)
    assert names <= set(found)


def test_arms_with_names_and_cells(service, tmp_path):
    path = tmp_path / "arms.csv"
    path.write_text("arm,width,colour\na,1.5,red\nb,2,blue\nc,,red\n")
    for source in (path, str(path)):
        with pytest.warns(RolfWarning, match="1 of 3 cells is empty"):
            new(service, source, policy="ucb")
    rows = [{"arm": "a", "width": 1.5}, {"arm": "b", "width": 2}]
    experiment = new(service, rows, policy="ucb")
    assert [each.arm for each in experiment.arm_table()] == ["a", "b"]
    frame = pandas.DataFrame({"width": [4.0]}, index=["z"])
    assert experiment.add_arms(frame) == ["z"]
    with pytest.raises(InvalidArgument, match="new arms"):
        experiment.add_arms(frame)
    assert new(service, policy="ucb").add_arms([[1.0, 1.0], [2.0, 2.0]]) == [3, 4]
    numbered = pandas.DataFrame({"width": [1.0, 2.0, 3.0]}, index=[10, 20, 30])
    experiment = new(service, numbered, policy="ucb")
    assert experiment.ask(available=[20]).arm == 20
    assert experiment.add_arms(pandas.DataFrame({"width": [4.0]}, index=[40])) == [40]
    assert list(experiment.estimates().index) == [10, 20, 30, 40]
    with pytest.raises(InvalidArgument, match="its file"):
        new(service, "nowhere.csv")


# --- keys and arguments ---


def test_an_ask_with_a_key_is_the_same_request_for_a_local_experiment(service, running):
    remote = new(service, NAMED, context=["age"])
    local = rolf.open_experiment(running.storage, remote.name)
    wanted = {"context": {"age": 1}, "available": {"a", "b", "c"}}
    for first, second in ((remote, local), (local, remote)):
        key = uuid.uuid4().hex
        assert first.ask(idempotency_key=key, **wanted) == second.ask(idempotency_key=key, **wanted)
        key = uuid.uuid4().hex
        assert first.ask_many(2, idempotency_key=key, **wanted) == second.ask_many(
            2, idempotency_key=key, **wanted
        )
    local.close()


def test_keys(running, monkeypatch):
    monkeypatch.delenv("ROLF_KEY", raising=False)
    experiment = new(rolf.connect(running.url, running.key), policy="ucb")
    name = experiment.name
    with pytest.raises(AccessDenied):
        rolf.connect(running.url).experiment(name).ask()
    with pytest.raises(AccessDenied):
        rolf.connect(running.url, running.key[:-1] + "?").experiment(name).ask()
    read = rolf.connect(running.url, add_key(running.storage, "read")).experiment(name)
    assert read.counts() == (0, 0)
    with pytest.raises(AccessDenied):
        read.ask()
    monkeypatch.setenv("ROLF_KEY", running.key)
    service = rolf.connect(running.url)
    assert service.experiment(name).ask().arm in (0, 1, 2)
    for shown in (repr(service), repr(service.experiment(name)), str(vars(experiment))):
        assert running.key not in shown


def test_no_proxy_leads_to_this_machine(running, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{free_port()}")
    with rolf.connect(running.url, running.key, timeout=2.0) as service:
        service.experiments()


def test_errors_do_not_show_the_key(proxy, running):
    service = rolf.connect(proxy.url, running.key, timeout=0.3)
    proxy.faults += [BEFORE] * 20
    for action in (
        lambda: service.experiment("e").ask(),
        lambda: rolf.connect(running.url, f"{running.key}\n"),
        lambda: rolf.connect(f"http://user:{running.key}@host"),
        lambda: rolf.connect(f"http://host?key={running.key}"),
        lambda: pickle.dumps(service),
        lambda: copy.copy(service.experiment("e")),
    ):
        with pytest.raises(rolf.RolfError) as raised:
            action()
        error = raised.value
        while error is not None:
            assert running.key not in f"{error!r} {error} {vars(error)}"
            error = error.__context__


@pytest.mark.parametrize("url", ["", "localhost:8000", "ftp://host", "http://", "http://h:x", 3])
def test_addresses_that_are_none(url):
    with pytest.raises(InvalidArgument, match="url"):
        rolf.connect(url, "k")


@pytest.mark.parametrize("end", ["/", "/v1", "/v1/"])
def test_the_address_of_the_api_is_one_of_the_service(running, end):
    with rolf.connect(running.url + end, running.key) as service:
        assert new(service, policy="ucb").ask().arm in (0, 1, 2)
        assert service.url == running.url


@pytest.mark.parametrize("name", ["", ".", "..", 3, None])
def test_names_that_are_none(service, name):
    with pytest.raises(InvalidArgument, match="name"):
        service.experiment(name)


def test_names_cannot_lead_elsewhere(proxy, running):
    with rolf.connect(proxy.url, running.key) as service:
        for name in ("../keys", "a/b?c=d#e", "ä ö", "%2e%2e"):
            with pytest.raises((UnknownExperiment, InvalidArgument)):
                service.experiment(name).ask()
    for _, path, _ in proxy.seen:
        assert path.startswith("/v1/experiments/")
        assert path.endswith("/ask")
        assert path.count("/") == 4


@pytest.mark.parametrize("key", ["", "with blank", "ä", "x" * 256, 3])
def test_keys_of_asks_that_are_none(service, key):
    with pytest.raises(InvalidArgument, match="key"):
        service.experiment("e").ask(idempotency_key=key)


def test_forked_processes_have_connections_of_their_own(service):
    experiment = new(service, policy="ucb")
    experiment.ask()
    pid = os.fork()
    if not pid:
        try:
            experiment.ask_many(3)
            os._exit(0)
        except BaseException:
            os._exit(1)
    experiment.ask()
    assert os.waitpid(pid, 0)[1] == 0
    assert experiment.counts().asked == 5


def test_httpx_is_only_needed_for_the_client():
    code = (
        "import sys; sys.modules['httpx'] = None\nimport rolf\n"
        "from rolf.errors import MissingExtra\n"
        "try:\n    rolf.connect('http://localhost')\n"
        "except MissingExtra as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "pip install 'rolf-bandits[service]'" in done.stdout, done.stderr
