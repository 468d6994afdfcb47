"""Connections to the service, and to its database, that others keep, cut off or lose."""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import threading

import httpx
import psycopg
import pytest

from rolf.experiments.storage.urls import connect
from support.helpers import in_threads
from support.served import Client, problem, service, wait_until
from support.stores import make_url


def connected(client):
    return socket.create_connection((client.base_url.host, client.base_url.port), timeout=20)


def begun_ask(client, key):
    """A connection on which half of an ask was sent."""
    connection = connected(client)
    head = (
        f"POST /v1/experiments/one/ask HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n"
        "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{"
    )
    connection.sendall(head.encode())
    return connection


def received(connection):
    """An answer in JSON."""
    answer = b""
    while not answer.endswith(b"}"):
        part = connection.recv(65_536)
        assert part, answer
        answer += part
    return answer


def in_flight(client):
    (metric,) = client.app.state.service.metrics.in_flight.collect()
    return metric.samples[0].value


def key_of(client):
    return client.headers["authorization"].split()[1]


# --- no HTTP ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sent",
    [
        b"hello\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200) + b"\r\n\r\n",  # TLS
        b"GET /healthz HTTP/1.1\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    ],
    ids=["words", "TLS", "no host", "two lengths"],
)
def test_what_is_not_http_is_a_bad_request(sent):
    with service() as client, connected(client) as connection:
        connection.sendall(sent)
        head, _, body = received(connection).partition(b"\r\n\r\n")
        status, *lines = head.decode().split("\r\n")
        headers = httpx.Headers([line.split(": ", 1) for line in lines])
        answer = httpx.Response(int(status.split()[1]), headers=headers, content=body)
        problem(answer, 400, "bad-request")
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert connection.recv(100) == b""  # closed


# --- too many connections ----------------------------------------------------------------------


def test_idle_connections_of_strangers_lock_nobody_out():
    with service(max_connections=6) as client, contextlib.ExitStack() as stack:
        client.make()
        mine = stack.enter_context(connected(client))
        request = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
        mine.sendall(request)
        assert b" 200 " in received(mine)
        for _ in range(30):
            stack.enter_context(connected(client))
        assert client.get("/healthz").status_code == 200
        mine.sendall(request)
        assert b" 200 " in received(mine)
        assert client.ask().status_code == 200
        with Client(client.base_url, key_of(client)) as newcomer:
            assert newcomer.ask().status_code == 200


def test_connections_at_work_are_kept_and_new_ones_are_for_checks_of_health():
    with service(max_connections=3) as client:
        client.make()
        client.get("/healthz", headers={"Connection": "close"})
        with contextlib.ExitStack() as stack:
            busy = [stack.enter_context(begun_ask(client, key_of(client))) for _ in range(3)]
            wait_until(lambda: in_flight(client) == 3)
            new = stack.enter_context(connected(client))
            new.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b" 200 " in received(new)
            new.sendall(b"GET /v1/whoami HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b" 503 " in received(new)
            assert new.recv(1) == b""
            for each in busy:
                each.sendall(b"}")
                assert b" 200 " in received(each)
        assert client.ask().status_code == 200


# --- the end -----------------------------------------------------------------------------------


def test_a_request_that_the_end_cuts_off_is_told_to_try_again(caplog):
    caplog.set_level(logging.INFO, "rolf.service")
    with contextlib.ExitStack() as stack:
        with service(shutdown_grace=1.0) as client:
            client.make()
            slow = stack.enter_context(begun_ask(client, key_of(client)))
            wait_until(lambda: in_flight(client) == 1)
        head, _, body = received(slow).partition(b"\r\n\r\n")
    assert b" 503 " in head.splitlines()[0]
    assert b"retry-after: 1" in head
    assert json.loads(body)["type"] == "/problems/unavailable"
    assert "database" not in body.decode()
    requests = [each.fields for each in caplog.records if each.msg == "request"]
    assert (requests[-1]["status"], requests[-1]["problem"]) == (503, "unavailable")
    assert not any(each.exc_info for each in caplog.records)


def test_readiness_at_the_end_blames_no_database():
    with service() as client:
        client.app.state.service.closing = True
        data = problem(client.get("/readyz"), 503, "unavailable")
        assert "database" not in data["title"] + data["detail"]


# --- a database that loses all connections -----------------------------------------------------


def test_a_restart_of_the_database_between_two_requests_is_not_noticed():
    url = make_url("postgresql")
    store = connect(url, 5.0)
    pool = store._pool
    together = threading.Barrier(4)
    backends = []

    def work(connection):
        together.wait(10)
        backends.append(connection.info.backend_pid)

    in_threads(pool.run, *[work] * 4)
    assert len(set(backends)) == 4
    with psycopg.connect(url, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(pid, 5000) FROM unnest(%s) AS pid", [backends])
    before = store.reconnects
    assert store.record("nobody") is None
    assert store.reconnects == before + 1
    store.close()
