"""Long answers, clients that do not read them, and bugs."""

from __future__ import annotations

import socket
import tracemalloc
from pathlib import Path

import httpx
import pytest

import rolf
from rolf.errors import UnknownExperiment
from rolf.experiments.database import Database
from rolf.experiments.storage.contract import PART
from rolf.experiments.transfer.backup import fill_experiment
from rolf.experiments.transfer.streaming import stream_log
from rolf.policies import warm
from rolf.service import settings
from rolf.service.http.logging import is_news
from rolf.testing.storage import create_experiment, decision_row, play
from support.helpers import delete_decisions
from support.served import problem, service, wait_until
from support.stores import make_url

LONG = 30_000


def long_log(url):
    """An experiment with a long log."""
    short = create_experiment(url, "short", policy="ucb")
    rows = [decision_row(number) for number in range(1, LONG + 1)]
    fill_experiment(short.synced.store, short.record._replace(name="long", tag="long"), rows)
    short.close()


@pytest.mark.slow
def test_a_log_is_exported_a_part_at_a_time():
    url = make_url("sqlite")
    long_log(url)
    with rolf.open_experiment(url, "long") as experiment:
        next(stream_log(experiment, "jsonl"))
        tracemalloc.start()
        sizes = [part.count("\n") for part in stream_log(experiment, "jsonl")]
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert sum(sizes) == LONG
    assert max(sizes) == PART
    assert most < 20e6


@pytest.mark.parametrize(("name", "parts"), [("short", 0), ("short", 1), ("long", 0), ("long", 3)])
def test_a_log_of_an_experiment_that_is_deleted_meanwhile(monkeypatch, caplog, name, parts):
    url = make_url("sqlite")
    long_log(url)

    def deleted_after(experiment, format):
        for part, lines in enumerate(stream_log(experiment, format)):
            if part == parts:
                delete()
            yield lines
            if part + 1 == parts:
                delete()

    def delete():
        if name in Database(url).names():
            rolf.connect(url).delete(name, confirm=name)

    monkeypatch.setattr("rolf.service.routes.log.stream_log", deleted_after)
    with service(url=url) as client:
        place = f"/v1/experiments/{name}/log"
        if parts < 3:
            problem(client.get(place), 404, "not-found")
        else:
            with pytest.raises(httpx.RemoteProtocolError):  # nobody takes it for the whole log
                client.get(place)
    lines = [each for each in caplog.records if each.levelname != "INFO" and is_news(each)]
    assert [each.msg for each in lines] == ["cut off"] * (parts == 3)
    assert not any(each.exc_info for each in lines)


def test_a_log_whose_decisions_are_being_deleted(monkeypatch):
    experiment = create_experiment(make_url("sqlite"), policy="ucb")
    play(experiment, 5)
    find = experiment.synced.store.find

    def find_after_deletion(*arguments):
        delete_decisions(experiment)
        return find(*arguments)

    monkeypatch.setattr(experiment.synced.store, "find", find_after_deletion)
    with pytest.raises(UnknownExperiment):
        list(stream_log(experiment, "jsonl"))


def test_a_client_that_does_not_read_is_left():
    url = make_url("sqlite")
    long_log(url)
    with service(url=url, receive_timeout=0.3) as client:
        whole = client.get("/v1/experiments/long/log").text
        assert whole.count("\n") == LONG
        key = client.headers["authorization"]
        with socket.socket() as lazy:
            lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            lazy.connect((client.base_url.host, client.base_url.port))
            text = f"GET /v1/experiments/long/log HTTP/1.1\r\nHost: x\r\nAuthorization: {key}"
            lazy.sendall(f"{text}\r\n\r\n".encode())
            in_flight = client.app.state.service.metrics.in_flight
            wait_until(lambda: in_flight._value.get() == 1.0)
            wait_until(lambda: in_flight._value.get() == 0.0)
        assert client.get("/healthz").status_code == 200


def test_a_bug_is_no_news_for_clients(monkeypatch, caplog):
    with service() as client:
        client.make()

        def broken(*_, **__):
            raise ZeroDivisionError("rolf_secret in /etc/shadow")

        monkeypatch.setattr("rolf.experiments.experiment.Experiment.arm_table", broken)
        monkeypatch.setattr("rolf.experiments.experiment.Experiment.submit", broken)
        for answer in (client.get("/v1/experiments/one/arms"), client.ask()):
            problem(answer, 500, "internal")
            assert "shadow" not in answer.text
            assert answer.headers["x-content-type-options"] == "nosniff"
        monkeypatch.undo()
        assert client.ask().status_code == 200
    assert "shadow" in caplog.text


def test_policies_are_warm_before_the_service_is_ready(monkeypatch):
    url = make_url("sqlite")
    create_experiment(url, policy="linucb").close()
    monkeypatch.setattr(warm, "_warm", set())
    with service(url=url) as client:
        client.app.state.service.experiments.warm_up()
    assert {"LinUCB", "RoLFBayes"} <= {kind[0].__name__ for kind in warm._warm}


def test_what_is_deployed():
    folder = Path(__file__).parents[3] / "deploy"
    found = settings.load({}, folder / "rolf.toml")
    assert found.host == "127.0.0.1"
    unit = (folder / "rolf.service").read_text()
    assert "rolf serve --config" in unit
    stop = int(unit.split("TimeoutStopSec=")[1].split()[0])
    assert stop > found.drain + found.shutdown_grace
    for path in folder.iterdir():
        text = path.read_text()
        assert "index-url" not in text
        assert "://" not in text.replace("postgresql://", "").replace("http://127.0.0.1", "")
