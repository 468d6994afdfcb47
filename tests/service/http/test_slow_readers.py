"""Clients that send requests and do not read the answers shut nobody out."""

from __future__ import annotations

import contextlib
import os
import socket
import time

import pytest

from support.served import Client, Process, make_key, wait_until
from support.stores import make_url

#: a file that fills the buffers on both sides of a connection that is not read
FILE = b"GET /static/vendor/chart.umd.min.js HTTP/1.1\r\nHost: x\r\n\r\n"
PIPELINED = 40


def lazy(stack, client, requests=PIPELINED, buffer=2_048):
    """A connection with requests whose answers are not read."""
    connection = stack.enter_context(socket.socket())
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    connection.settimeout(10)
    connection.connect((client.base_url.host, client.base_url.port))
    connection.sendall(FILE * requests)
    return connection


MOST = 100


@pytest.fixture
def client():
    url = make_url("sqlite")
    arguments = ["--storage", url, "--max-connections", str(MOST), "--receive-timeout", "2"]
    arguments += ["--keep-alive", "2"]
    with Process(*arguments) as process, Client(process.url, make_key(url)) as client:
        client.make()
        client.process = process
        client.get("/healthz", headers={"Connection": "close"})
        yield client


def test_clients_that_do_not_read_shut_nobody_out(client):
    with contextlib.ExitStack() as stack:
        for _ in range(MOST):
            lazy(stack, client)
        key = client.headers["authorization"].split()[1]
        for _ in range(10):
            with Client(client.base_url, key) as newcomer:
                assert newcomer.get("/healthz").status_code == 200
                wait_until(lambda: newcomer.ask().status_code == 200, 5.0)


def test_clients_that_do_not_read_are_cut_off(client):
    folder = f"/proc/{client.process.process.pid}/fd"
    before = len(os.listdir(folder))
    with contextlib.ExitStack() as stack:
        for requests in (1, 2, 5, PIPELINED):
            for _ in range(5):
                lazy(stack, client, requests)
        wait_until(lambda: len(os.listdir(folder)) > before)
        wait_until(lambda: len(os.listdir(folder)) <= before + 1, 20.0)


def test_clients_that_read_slowly_get_their_answer(client):
    """As long as they read."""
    with contextlib.ExitStack() as stack:
        slow = lazy(stack, client, 10, 65_536)
        size, end = 0, time.monotonic() + 6.0
        while time.monotonic() < end:
            size += len(slow.recv(20_000))
            time.sleep(0.1)
        while size < 10 * 210_000:
            part = slow.recv(65_536)
            assert part
            size += len(part)
