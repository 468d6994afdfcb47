"""Experiments over HTTP: what a client can do."""

from __future__ import annotations

import csv
import io
import json
import threading

import pytest

import rolf
from rolf.experiments.storage.contract import PART
from rolf.testing.storage import current_state, folded_state
from support.served import FEATURES, ROWS, Client, problem, service
from support.stores import make_url

stores = pytest.mark.parametrize("kind", ["sqlite", "postgresql"])


@pytest.fixture(scope="module")
def client():
    with service() as client:
        yield client


@stores
def test_from_creation_to_deletion(kind):
    with service(kind) as client:
        answer = client.post("/v1/experiments", json={"name": "x 1", "arms": ROWS, "seed": 3})
        assert answer.status_code == 201
        assert answer.headers["location"] == "/v1/experiments/x%201"
        created = answer.json()
        assert created["policy"] == "rolf-bayes"
        assert created["columns"] == ["width", "colour=blue", "colour=red"]
        place = answer.headers["location"]
        [decision] = client.post(f"{place}/ask", json={}).json()["decisions"]
        assert decision["arm"] in "abc"
        assert 0.0 < decision["probability"] <= 1.0
        body = {"id": decision["id"], "reward": 1.5}
        assert client.post(f"{place}/tell", json=body).json() == {"told": 1, "new": 1}
        assert client.post(f"{place}/tell", json=body).json() == {"told": 1, "new": 0}
        shown = client.get(place).json()
        assert {**created, "asked": 1, "told": 1, "notes": []} == {**shown, "notes": []}
        status = client.get(f"{place}/status", params={"timeline": "true"}).json()
        assert (status["asked"], status["total_reward"]) == (1, 1.5)
        assert status["best"]["arm"] in "abc"
        assert len(status["timeline"]) == 1
        assert client.delete(f"{place}?confirm=x%201").status_code == 204
        problem(client.get(place), 404, "not-found")
        problem(client.post(f"{place}/ask", json={}), 404, "not-found")


def test_creating_again(client):
    body = {"name": "again", "features": FEATURES, "policy": "ucb", "seed": 1}
    first, second = (
        client.post("/v1/experiments", json=body),
        client.post("/v1/experiments", json=body),
    )
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json() == second.json()
    other = client.post("/v1/experiments", json={**body, "seed": 2})
    assert "a different seed" in problem(other, 409, "experiment-exists")["detail"]


def test_of_those_who_create_at_the_same_time_one_is_first(client):
    together = threading.Barrier(8)
    answers = []

    def create():
        with Client(client.base_url, client.headers["authorization"].split()[1]) as other:
            other.get("/v1/whoami")
            together.wait(10)
            body = {"name": "contested", "features": FEATURES, "policy": "ucb"}
            answers.append(other.post("/v1/experiments", json=body).status_code)

    threads = [threading.Thread(target=create) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [200] * 7 + [201]


@pytest.mark.parametrize(
    "options",
    [{"horizon": 1000, "explore": 0.5}, {"context": 2}, {"context": ["age"], "horizon": 2**53}],
)
def test_options_are_what_was_sent(client, options):
    policy = "rolf-bayes-varying" if "context" in options else "rolf-bayes"
    name = f"options {len(str(options))}"
    made = client.make(name, policy=policy, options=options)["options"]
    assert {option: made[option] for option in options} == options


def test_arms_may_have_text_and_gaps(client):
    rows = [*ROWS, {"arm": "d", "colour": "green", "width": None}]
    created = client.make("gaps", arms=rows, features=None)
    assert "w" in created["notes"][0]
    assert "is empty" in created["notes"][0]
    url = client.app.state.service.settings.storage
    with rolf.open_experiment(url, "gaps") as other:
        other.ask()  # so that the arms are added at the second attempt
    more = {"arms": [{"arm": "e", "width": 3.0, "colour": "mauve"}]}
    added = client.post("/v1/experiments/gaps/arms", json=more)
    assert added.status_code == 201
    assert added.json()["added"] == ["e"]
    [note] = added.json()["notes"]
    assert "mauve" in note
    arms = client.get("/v1/experiments/gaps/arms").json()["arms"]
    assert [arm["arm"] for arm in arms] == ["a", "b", "c", "d", "e"]


def test_all_problems_of_a_table_are_listed(client):
    rows = [{"arm": "a", "x": 1.0}, {"arm": "a", "x": 2.0}, {"arm": "b", "x": "?"}]
    answer = client.post("/v1/experiments", json={"name": "bad", "arms": rows})
    data = problem(answer, 422, "invalid")
    assert data["errors"]
    problem(client.get("/v1/experiments/bad"), 404, "not-found")


def test_many_decisions_at_once(client):
    client.make("many")
    asked = client.ask("many", n=5, available=[0, 2]).json()["decisions"]
    assert len({decision["id"] for decision in asked}) == 5
    assert {decision["arm"] for decision in asked} <= {0, 2}
    rewards = [{"id": decision["id"], "reward": 1.0} for decision in asked]
    told = client.post("/v1/experiments/many/tell", json={"rewards": rewards})
    assert told.json() == {"told": 5, "new": 5}
    slate = client.ask("many", n=3, distinct=True).json()["decisions"]
    assert len({decision["arm"] for decision in slate}) == 3
    data = problem(client.ask("many", n=5, distinct=True), 422, "invalid")
    assert data["errors"][0]["argument"] == "n"


def test_rewards_are_told_all_or_none(client):
    client.make("none")
    first, second = client.ask("none", n=2).json()["decisions"]
    client.tell(first, 1.0, "none")
    both = [{"id": second["id"], "reward": 1.0}, {"id": first["id"], "reward": 2.0}]
    answer = client.post("/v1/experiments/none/tell", json={"rewards": both})
    problem(answer, 409, "already-told")
    assert client.get("/v1/experiments/none").json()["told"] == 1
    problem(client.tell({"id": "nobody-1"}, 1.0, "none"), 404, "unknown-decision")


@stores
def test_a_retried_ask_gives_the_same_decision(kind):
    url = make_url(kind)
    with service(url=url) as client, service(url=url) as other:
        client.make()
        first = client.ask(key="k1").json()
        assert client.ask(key="k1").json() == first
        assert other.ask(key="k1").json() == first
        assert other.ask(key="k2").json() != first
        problem(client.ask(key="k1", n=2), 409, "different-request")
        assert client.get("/v1/experiments/one").json()["asked"] == 2
    with service(url=url) as client:  # after a restart
        assert client.ask(key="k1").json() == first


def test_contexts(client):
    body = {"name": "crowd", "features": FEATURES, "context": ["age", "night"]}
    assert client.post("/v1/experiments", json=body).status_code == 201
    [decision] = client.ask("crowd", context={"night": 1, "age": 0.3}).json()["decisions"]
    assert client.tell(decision, 1.0, "crowd").status_code == 200
    data = problem(client.ask("crowd"), 422, "invalid")
    assert data["errors"][0]["argument"] == "context"
    [again] = client.ask("crowd", context=[0.3, 1]).json()["decisions"]
    assert again["id"] != decision["id"]
    log = client.get("/v1/experiments/crowd/log").text.splitlines()
    assert [json.loads(line)["context"]["age"] for line in log] == [0.3, 0.3]


def test_corrections_and_history(client):
    client.make("past")
    [decision] = client.ask("past").json()["decisions"]
    right = {"id": decision["id"], "reward": 2.0, "reason": "a typing error"}
    problem(client.post("/v1/experiments/past/correct", json=right), 409, "untold")
    client.tell(decision, 20.0, "past")
    answer = client.post("/v1/experiments/past/correct", json=right)
    assert answer.json() == {"id": decision["id"], "reward": 2.0}
    assert client.get("/v1/experiments/past/status").json()["total_reward"] == 2.0
    past = {"arms": [0, 1, 1], "rewards": [1, 0.5, 0.25], "source": "2025"}
    assert client.post("/v1/experiments/past/learn", json=past).json() == {"learned": 3}
    assert client.post("/v1/experiments/past/learn", json=past).json() == {"learned": 0}
    past["rewards"] = [1, 0.5]
    problem(client.post("/v1/experiments/past/learn", json=past), 422, "invalid")


def test_arms_come_and_go(client):
    client.make("arms")
    place = "/v1/experiments/arms/arms"
    assert client.post(place, json={"features": [[2.0, 2.0]]}).json()["added"] == [4]
    assert client.post(f"{place}/retire", json={"arms": [0, 1, 2, 3]}).status_code == 200
    [decision] = client.ask("arms").json()["decisions"]
    assert decision["arm"] == 4
    client.post(f"{place}/retire", json={"arms": [4]})
    assert "retired" in problem(client.ask("arms"), 409, "conflict")["detail"]
    client.post(f"{place}/restore", json={"arms": [2]})
    assert client.ask("arms").json()["decisions"][0]["arm"] == 2
    problem(client.post(f"{place}/retire", json={"arms": ["nix"]}), 422, "invalid")
    shown = client.get(place).json()["arms"]
    assert [arm["active"] for arm in shown] == [False, False, True, False, False]


def test_pausing(client):
    client.make("tea")
    [decision] = client.ask("tea").json()["decisions"]
    assert client.post("/v1/experiments/tea/pause").json() == {"paused": True}
    problem(client.ask("tea"), 409, "paused")
    assert client.tell(decision, 1.0, "tea").status_code == 200
    assert client.get("/v1/experiments/tea").json()["paused"] is True
    assert client.post("/v1/experiments/tea/resume").json() == {"paused": False}
    assert client.ask("tea").status_code == 200


def test_lists_come_page_by_page():
    with service() as client:
        for name in "cab":
            client.make(name)
        first = client.get("/v1/experiments", params={"limit": 2}).json()
        assert [each["name"] for each in first["experiments"]] == ["a", "b"]
        assert first["next"] == "b"
        rest = client.get("/v1/experiments", params={"after": "b"}).json()
        assert [each["name"] for each in rest["experiments"]] == ["c"]
        assert rest["next"] is None
        assert rest["experiments"][0]["arms"] == 4


def test_arms_of_a_status_can_be_found(client):
    rows = [{"arm": f"arm {i}", "x": float(i % 7)} for i in range(40)]
    client.make("forty", arms=rows, features=None)
    for _ in range(3):
        decisions = client.ask("forty", n=40).json()["decisions"]
        rewards = [{"id": each["id"], "reward": float(each["arm"][-1])} for each in decisions]
        client.post("/v1/experiments/forty/tell", json={"rewards": rewards})
    place = "/v1/experiments/forty/status"
    found = client.get(place, params={"search": "ARM 1", "sort": "plays", "top": 3}).json()
    assert (found["all_arms"], found["matching_arms"], len(found["arms"])) == (40, 11, 3)
    plays = [arm["plays"] for arm in found["arms"]]
    assert plays == sorted(plays, reverse=True)
    best = client.get(place, params={"sort": "best", "top": 1}).json()
    assert best["best"] == {"arm": best["arms"][0]["arm"], "probability": best["arms"][0]["best"]}
    against = client.get(place, params={"control": "arm 3"}).json()
    assert against["uplift"]["control"] == "arm 3"
    problem(client.get(place, params={"control": "nix"}), 422, "invalid")
    misspelt = problem(client.get(place, params={"timelin": "true"}), 422, "invalid")
    assert "timeline" in misspelt["detail"]
    estimates = client.get("/v1/experiments/forty/estimates").json()["arms"]
    assert len(estimates) == 40
    assert estimates[0]["low"] < estimates[0]["posterior_mean"] < estimates[0]["high"]
    diagnosis = client.get("/v1/experiments/forty/diagnosis").json()
    assert diagnosis["verdict"]
    assert diagnosis["rewards"] == 120


@stores
def test_a_streamed_log_is_an_exported_one(kind, tmp_path):
    url = make_url(kind)
    with service(url=url) as client:
        rows = [{"arm": "=1+1", "x": 1.0}, {"arm": "b, or c", "x": 2.0}]
        client.make(arms=rows, features=None)
        assert client.get("/v1/experiments/one/log").text == ""
        decisions = client.ask(n=PART).json()["decisions"]
        decisions += client.ask(n=PART // 2).json()["decisions"]
        rewards = [{"id": decision["id"], "reward": 0.5} for decision in decisions[::2]]
        client.post("/v1/experiments/one/tell", json={"rewards": rewards})
        right = {"id": decisions[0]["id"], "reward": 1.0, "reason": "wrong"}
        client.post("/v1/experiments/one/correct", json=right)
        lines = client.get("/v1/experiments/one/log").text.splitlines()
        text = client.get("/v1/experiments/one/log?format=csv").text
        problem(client.get("/v1/experiments/one/log?format=xml"), 422, "invalid")
    rows = [json.loads(line) for line in lines]
    assert [row["id"] for row in rows] == [decision["id"] for decision in decisions]
    assert rows[0]["reward"] == 1.0
    assert sum(row["reward"] is None for row in rows) == 3 * PART // 4
    table = list(csv.DictReader(io.StringIO(text)))
    assert len(table) == 3 * PART // 2
    path = tmp_path / "log.csv"
    path.write_text(text)
    original = rolf.open_experiment(url, "one")
    copy = rolf.open_experiment(
        make_url("memory"), "copy", features=rolf.read_arms(original_rows()), policy="ucb"
    )
    learned = copy.learn_file(path, "arm", "reward")
    assert learned.learned == sum(row["reward"] != "" for row in table)
    assert [arm.estimate for arm in copy.status().arms] == [
        arm.estimate for arm in original.status().arms
    ]


def original_rows():
    return [{"arm": "=1+1", "x": 1.0}, {"arm": "b, or c", "x": 2.0}]


@stores
def test_requests_at_the_same_time(kind):
    """Asks, rewards, retries and mistakes of many clients: each gets its own answer."""
    url = make_url(kind)
    with service(url=url, rate=0.0) as client:
        client.make(policy="rolf-bayes")
        problems = []

        def work(worker):
            try:
                for round in range(10):
                    [decision] = client.ask(key=f"{worker}-{round}").json()["decisions"]
                    assert client.ask(key=f"{worker}-{round}").json()["decisions"] == [decision]
                    problem(client.ask(available=["nix"]), 422, "invalid")
                    assert client.tell(decision, float(worker)).json()["new"] == 1
                    problem(client.tell(decision, -1.0), 409, "already-told")
                    [shared] = client.ask(key=f"shared-{round}").json()["decisions"]
                    client.tell(shared, 0.5)
            except BaseException as error:
                problems.append(error)

        threads = [threading.Thread(target=work, args=(worker,)) for worker in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not problems
        shown = client.get("/v1/experiments/one").json()
        assert (shown["asked"], shown["told"]) == (90, 90)
    experiment = rolf.open_experiment(url, "one")
    assert current_state(experiment) == folded_state(experiment)


def test_an_experiment_that_others_delete_and_create_again():
    url = make_url("sqlite")
    with service(url=url) as client:
        client.make()
        [old] = client.ask().json()["decisions"]
        rolf.connect(url).delete("one", confirm="one")
        assert client.get("/v1/experiments").json()["experiments"] == []
        problem(client.ask(), 404, "not-found")
        with rolf.open_experiment(url, "one", features=FEATURES[:2], policy="ucb") as other:
            decision = other.ask()
            problem(client.tell(old, 1.0), 404, "unknown-decision")
            assert client.tell({"id": decision.id}, 1.0).json()["new"] == 1
            assert client.get("/v1/experiments/one").json()["arms"] == 2
            rolf.connect(url).delete("one", confirm="one")
        with rolf.open_experiment(url, "one", features=FEATURES[:3], policy="ucb") as other:
            decision = other.ask()
            assert client.tell({"id": decision.id}, 1.0).json()["new"] == 1
            assert client.ask().status_code == 200


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_what_a_deleted_experiment_would_refuse_another_of_its_name_does(kind):
    """The service has the old one open when another process puts a new one in its place."""
    url = make_url(kind)
    with service(url=url) as client:

        def replaced(**settings):
            rolf.connect(url).delete("one", confirm="one")
            return rolf.open_experiment(url, "one", **settings)

        client.make(policy="beta-ts")
        assert client.ask().status_code == 200
        with replaced(features=ROWS, policy="ucb") as other:
            decision = other.ask()
            assert client.tell({"id": decision.id}, 5.0).json()["new"] == 1
        client.post("/v1/experiments/one/pause")
        problem(client.ask(), 409, "paused")
        with replaced(features=FEATURES, policy="ucb"):
            assert client.ask().status_code == 200
        with replaced(features=ROWS, policy="ucb"):
            assert client.ask(available=["a"]).status_code == 200


def test_experiments_that_are_not_in_memory_are_opened_again():
    with service(max_open=2) as client:
        for name in "abcde":
            client.make(name)
            client.ask(name)
        assert [client.ask(name).status_code for name in "abcde"] == [200] * 5
        names = client.get("/v1/experiments").json()["experiments"]
        assert [each["asked"] for each in names] == [2] * 5
        text = client.get("/metrics").text
        assert "rolf_open_experiments 2.0" in text
