"""What those who run the service rely on: health, metrics, logs, settings, and how it ends."""

from __future__ import annotations

import json
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest

import rolf
from rolf.errors import InvalidArgument, MissingExtra
from rolf.experiments.storage.urls import connect
from rolf.service import settings
from rolf.service.result_cache import Results
from support.commands import invoke
from support.helpers import in_threads
from support.served import Client, Process, make_key, problem, service, wait_until
from support.stores import make_url, start_server

ROLF = [sys.executable, "-c", "from rolf.cli import main; main()"]


# --- health and metrics ------------------------------------------------------------------------


def test_health_readiness_and_metrics():
    with service() as client:
        nobody = client.as_(None)
        assert nobody.get("/healthz").json() == {"status": "ok"}
        assert nobody.get("/readyz").json() == {"status": "ok"}
        problem(nobody.get("/metrics"), 401, "unauthorized")
        client.make()
        for _ in range(2):
            [decision] = client.ask(key="visit").json()["decisions"]
        client.tell(decision, 1.0)
        client.tell(decision, 1.0)
        client.tell(decision, 2.0)
        nobody.get("/v1/experiments/one")
        nobody.get("/somewhere/else")
        text = client.get("/metrics").text
        for line in (
            'rolf_requests_total{method="POST",route="/v1/experiments",status="201"} 1.0',
            'rolf_request_seconds_count{method="POST",route="/v1/experiments/{name}/tell"} 3.0',
            "rolf_decisions_total 1.0",
            "rolf_rewards_total 1.0",
            'rolf_problems_total{problem="already-told"} 1.0',
            'rolf_problems_total{problem="unauthorized"} 2.0',
            "rolf_open_experiments 1.0",
            'rolf_requests_total{method="GET",route="unknown",status="404"} 1.0',
        ):
            assert line in text
        assert "process_resident_memory_bytes" in text
    with service(public_metrics=True) as client:
        assert client.as_(None).get("/metrics").status_code == 200


def test_a_database_that_is_locked_for_a_while():
    url = make_url("sqlite")
    with service(url=url, storage_timeout=0.2) as client:
        client.make()
        [decision] = client.ask().json()["decisions"]
        other = sqlite3.connect(url.removeprefix("sqlite:///"))
        other.execute("BEGIN EXCLUSIVE")
        for answer in (client.ask(), client.tell(decision, 1.0), client.ask(key="k")):
            problem(answer, 503, "unavailable")
            assert answer.headers["retry-after"] == "1"
            assert ".db" not in answer.text
        assert client.get("/healthz").status_code == 200
        other.rollback()
        other.close()
        assert client.tell(decision, 1.0).json()["new"] == 1
        assert client.ask(key="k").status_code == 200
        assert client.get("/v1/experiments/one").json()["asked"] == 2


@pytest.mark.slow
def test_a_database_that_stops_and_starts_again():
    server = start_server()
    try:
        with service(url=server.get_uri(), storage_timeout=2.0) as client:
            client.make()
            decisions = client.ask(n=5).json()["decisions"]
            process = server.get_postmaster_info().process
            process.send_signal(signal.SIGQUIT)
            process.wait(30)
            problem(client.get("/readyz"), 503, "unavailable")
            for answer in (client.ask(key="k"), client.tell(decisions[0], 1.0)):
                data = problem(answer, 503, "unavailable")
                assert "try again" in data["detail"]
                assert answer.headers["retry-after"] == "1"
            assert client.get("/healthz").status_code == 200
            server.ensure_postgres_running()
            wait_until(lambda: client.get("/readyz").status_code == 200)
            for decision in decisions:
                assert client.tell(decision, 1.0).json()["new"] == 1
            assert client.ask(key="k").json() == client.ask(key="k").json()
            shown = client.get("/v1/experiments/one").json()
            assert (shown["asked"], shown["told"]) == (6, 5)
    finally:
        server.cleanup()


def test_a_damaged_experiment_is_no_trouble_for_others():
    url = make_url("sqlite")
    with service(url=url) as client:
        client.make("bad")
        client.make("good")
        with sqlite3.connect(url.removeprefix("sqlite:///")) as database:
            database.execute("UPDATE rolf_experiments SET policy = 'x:Y' WHERE name = 'bad'")
        database.close()
        client.app.state.service.experiments.drop("bad")
        listed = client.get("/v1/experiments").json()["experiments"]
        assert [(each["name"], each["asked"]) for each in listed] == [("bad", None), ("good", 0)]
        assert client.ask("bad").status_code in (409, 500)
        assert client.ask("good").status_code == 200
        assert client.delete("/v1/experiments/bad?confirm=bad").status_code == 204


# --- long calls --------------------------------------------------------------------------------


@pytest.mark.slow
def test_long_calls_do_not_block_asks():
    with service(max_batch=5_000) as client:
        features = [[float(i % 71), float(i % 53)] for i in range(5_000)]
        client.make(features=features, policy="rolf-bayes", options={"rule": "sample"})
        decisions = client.ask(n=50).json()["decisions"]
        rewards = [{"id": each["id"], "reward": float(i)} for i, each in enumerate(decisions)]
        client.post("/v1/experiments/one/tell", json={"rewards": rewards})
        took = []

        def look():
            began = time.monotonic()
            other = Client(client.base_url, client.headers["authorization"].split()[1])
            with other:
                assert other.get("/v1/experiments/one/status").json()["all_arms"] == 5_000
                assert other.get("/v1/experiments/one/diagnosis").status_code == 200
            took.append(time.monotonic() - began)

        client.make("small")
        client.ask("small")
        looking = threading.Thread(target=look)
        looking.start()
        waits = []
        while looking.is_alive() and len(waits) < 200:
            began = time.monotonic()
            assert client.ask("small").status_code == 200
            waits.append(time.monotonic() - began)
        looking.join()
        assert len(waits) > 3
        assert sorted(waits)[len(waits) // 2] < max(0.1, took[0] / 4)


def test_long_results_are_computed_once_and_given_again_for_a_while():
    results = Results()
    calls = []

    def compute():
        calls.append(1)
        time.sleep(0.15)
        return len(calls)

    assert in_threads(lambda _: results.get("a", compute), *range(4)) == [1] * 4
    assert len(calls) == 1
    assert results.get("a", compute) == 1
    assert results.get("b", lambda: "quick") == "quick"
    assert results.get("b", lambda: "quick again") == "quick again"
    with pytest.raises(ZeroDivisionError):
        results.get("c", lambda: 1 / 0)
    assert results.get("c", lambda: 3) == 3


# --- a real process ----------------------------------------------------------------------------


def test_a_process_from_its_first_key_to_its_end(tmp_path):
    """Keys on the command line, structured logs without secrets, and an end that finishes what it
    has begun."""
    word = ["--storage", "sqlite:///x.db"]
    made = subprocess.run(
        [*ROLF, "keys", "new", "--scope", "admin", *word],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    key = made.stdout.split()[-1]
    assert re.fullmatch(r"rolf_[0-9a-f]{12}_[A-Za-z0-9_-]{43}", key)
    with Process(*word, "--drain", "1.5", cwd=tmp_path) as process:
        with Client(process.url, key) as client:
            client.make()
            name = 'x"\n{"level": "error"}'
            client.get(f"/v1/experiments/{name}".replace("\n", "%0A"))
            client.get("/v1/whoami", headers={"X-Request-Id": "mine-1"})
            client.as_("rolf_000000000000_" + "S" * 43).get("/v1/whoami")
            host = (client.base_url.host, client.base_url.port)
            head = (
                f"POST /v1/experiments/one/ask HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}"
                "\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{"
            )
            with socket.create_connection(host, timeout=20) as slow:
                slow.sendall(head.encode())
                wait_until(lambda: "rolf_requests_in_flight 2.0" in client.get("/metrics").text)
                process.process.send_signal(signal.SIGTERM)
                wait_until(lambda: client.get("/readyz").status_code == 503)
                assert client.get("/healthz").status_code == 200
                wait_until(lambda: not _listens(host))
                assert process.process.poll() is None
                slow.sendall(b"}")
                answer = b""
                while b'"decisions"' not in answer:
                    part = slow.recv(65_536)
                    assert part, answer
                    answer += part
                assert b" 200 " in answer.splitlines()[0]
        assert process.process.wait(20) == 0
        lines = process.lines()
        text = process.log.read_text()
    assert [line["event"] for line in lines[:1] + lines[-1:]] == ["starting", "stopped"]
    requests = [line for line in lines if line["event"] == "request"]
    assert {"time", "level", "request", "method", "route", "status", "ms"} <= requests[0].keys()
    named = next(line for line in requests if line["request"] == "mine-1")
    assert named["key"] == key.split("_")[1]
    assert named["route"] == "/v1/whoami"
    assert any(line.get("experiment") == name for line in requests)
    assert requests[-1]["route"] == "/v1/experiments/{name}/ask"
    for secret in (key, key[18:], "S" * 43, "Bearer"):
        assert secret not in text
    with rolf.open_experiment(f"sqlite:///{tmp_path}/x.db", "one") as experiment:
        assert experiment.counts().asked == 1


def _listens(address):
    try:
        socket.create_connection(address, timeout=5).close()
    except ConnectionRefusedError:
        return False
    return True


def test_the_demo_changes_within_seconds():
    with Process("--demo") as process:
        client = httpx.Client(base_url=process.url, trust_env=False)
        with client:
            assert "<html" in client.get("/").text
            place = "/v1/experiments/headlines"
            before = client.get(place).json()["asked"]
            wait_until(lambda: client.get(place).json()["told"] > before + 5)
            status = client.get(f"{place}/status?timeline=true").json()
            assert status["best"]["probability"] > 0.0
            answer = client.get(place, headers={"Host": "evil.example"})
            problem(answer, 403, "forbidden")
        storage = next(line["storage"] for line in process.lines() if line["event"] == "starting")
        assert process.stop() == 0
    assert not Path(storage.removeprefix("sqlite:///")).exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--insecure-local", "--host", "0.0.0.0"], "--insecure-local is only for this machine"),
        (["--demo", "--host", "0.0.0.0"], "--insecure-local is only for this machine"),
        (["--demo", "--storage", "sqlite:///x.db"], "--demo uses its own"),
        (["--storage", "postgresql://me:secret@127.0.0.1:1/x"], "cannot be reached"),
        (["--storage", "memory://"], "keeps no API keys"),
        (["--storage", "mysql://me:secret@x"], "sqlite:///file.db"),
        (["--log-level", "loud"], "log_level"),
        (["--max-batch", "0"], "max_batch"),
        (["--host", ""], "host"),
        (["--storage", " "], "storage"),
    ],
)
def test_what_cannot_be_served_is_refused_at_once(words, message, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROLF_SERVE_STORAGE_TIMEOUT", "1")
    monkeypatch.setattr("rolf.service.http.logging.set_up", lambda level: None)
    monkeypatch.setattr("rolf.service.open_experiments.warm_up", lambda *_, **__: None)
    result = invoke("serve", "--port", "0", *words)
    assert result.exit_code != 0
    assert message in str(result.exception)
    assert "secret" not in str(result.exception)


# --- keys --------------------------------------------------------------------------------------


def test_keys_on_the_command_line(tmp_path):
    storage = ["--storage", f"sqlite:///{tmp_path}/keys.db"]
    first = invoke("keys", "new", "--scope", "decide", "--experiment", "shop", *storage)
    second = invoke("keys", "new", "--scope", "read", "--note", "dashboard", "--json", *storage)
    key, other = first.stdout.split()[-1], json.loads(second.stdout)["key"]
    id = key.split("_")[1]
    assert first.stdout.startswith(f"created: {id}, decide, for shop")
    shown = invoke("keys", "list", *storage).stdout
    assert id in shown
    assert "dashboard" in shown
    listed = json.loads(invoke("keys", "list", "--json", *storage).stdout)
    assert [each["scope"] for each in listed] == ["decide", "read"]
    for text in (key[18:], other[18:], "digest"):
        assert text not in shown + json.dumps(listed)
    assert invoke("keys", "revoke", id, *storage).stdout == f"revoked: {id}\n"
    assert invoke("keys", "revoke", other, *storage).exit_code == 0
    listed = json.loads(invoke("keys", "list", "--json", *storage).stdout)
    assert all(each["revoked"] for each in listed)
    assert isinstance(invoke("keys", "revoke", "nobody", *storage).exception, InvalidArgument)
    assert isinstance(invoke("keys", "new", "--scope", "root", *storage).exception, InvalidArgument)
    for_none = invoke("keys", "new", "--scope", "read", "--experiment", "", *storage)
    assert isinstance(for_none.exception, InvalidArgument)
    nowhere = invoke("keys", "list", "--storage", f"sqlite:///{tmp_path}/none.db")
    assert isinstance(nowhere.exception, InvalidArgument)


# --- settings ----------------------------------------------------------------------------------


def test_flags_come_before_the_environment_and_that_before_a_file(tmp_path, monkeypatch):
    path = tmp_path / "rolf.toml"
    path.write_text('port = 1\nrate = 5\nburst = 7\nstorage = "sqlite:///a.db"\n')
    monkeypatch.setenv("ROLF_SERVE_RATE", "6.5")
    monkeypatch.setenv("ROLF_SERVE_PORT", "2")
    monkeypatch.setenv("ROLF_SERVE_INSECURE_LOCAL", "true")
    found = settings.load({"port": 3, "rate": None}, path)
    assert (found.port, found.rate, found.burst) == (3, 6.5, 7)
    assert found.storage == "sqlite:///a.db"
    assert found.insecure_local


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("colour = 1", "colour"),
        ("port = true", "port"),
        ('port = "80"', "port"),
        ("rate = nan", "rate"),
        ("storage = 1", "storage"),
        ("port = ", "TOML"),
        ("max_open = 0", "max_open"),
    ],
)
def test_files_with_mistakes(tmp_path, text, message):
    path = tmp_path / "rolf.toml"
    path.write_text(text)
    with pytest.raises(InvalidArgument, match=message):
        settings.load({}, path)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("PORT", "eighty"),
        ("RATE", "inf"),
        ("INSECURE_LOCAL", "yes"),
        ("HOST", ""),
        ("STORAGE", ""),
    ],
)
def test_variables_with_mistakes(monkeypatch, name, text):
    monkeypatch.setenv(f"ROLF_SERVE_{name}", text)
    with pytest.raises(InvalidArgument, match=f"(?i){name}"):
        settings.load({})


def test_what_to_install_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "fastapi", None)
    result = invoke("serve")
    assert isinstance(result.exception, MissingExtra)
    assert "rolf-bandits[service]" in str(result.exception)


def test_keys_in_a_database_of_several_instances():
    """A key made, and revoked, anywhere counts everywhere at once."""
    url = make_url("postgresql")
    with service(url=url) as one, service(url=url) as two:
        key = make_key(url, "read")
        assert one.as_(key).get("/v1/whoami").status_code == 200
        assert two.as_(key).get("/v1/whoami").status_code == 200
        store = connect(url)
        store.revoke_key(key.split("_")[1], time.time())
        store.close()
        problem(one.as_(key).get("/v1/whoami"), 401, "unauthorized")
        problem(two.as_(key).ask(), 401, "unauthorized")
