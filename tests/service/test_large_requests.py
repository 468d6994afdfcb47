"""What large requests cost others: those of strangers next to nothing, all others little."""

from __future__ import annotations

import json
import os
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from support.served import Client, Process, make_key, problem
from support.stores import make_url

#: well-formed, but not a key that exists
NO_KEY = f"rolf_{'0' * 12}_{'x' * 43}"
REQUESTS = 10
#: what took others out for a minute
EMPTY = b'{"rewards":[' + b",".join([b"{}"] * 2_600_000) + b"]}"


@pytest.fixture(scope="module")
def server():
    url = make_url("sqlite")
    with Process("--storage", url) as process, Client(process.url, make_key(url)) as client:
        client.make("one")
        process.client = client
        yield process


def cpu_seconds(process):
    fields = Path(f"/proc/{process.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_bytes(process):
    for line in Path(f"/proc/{process.process.pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return 1024 * int(line.split()[1])


@contextmanager
def watched(url):
    """The longest time that the service took to say that it is alive, meanwhile."""
    longest, done = [0.0], threading.Event()

    def watch():
        with httpx.Client(base_url=url, trust_env=False, timeout=120.0) as client:
            while not done.is_set():
                start = time.monotonic()
                assert client.get("/healthz").status_code == 200
                longest[0] = max(longest[0], time.monotonic() - start)
                time.sleep(0.002)

    thread = threading.Thread(target=watch)
    thread.start()
    time.sleep(0.1)
    try:
        yield longest
    finally:
        time.sleep(0.1)
        done.set()
        thread.join()


def send(client, path, body, key=None):
    headers = {"Content-Type": "application/json"}
    if key is not None:
        headers["Authorization"] = f"Bearer {key}"
    return client.post(path, content=body, headers=headers)


@pytest.mark.parametrize("body", [EMPTY, EMPTY[:7_900]], ids=["large", "small"])
@pytest.mark.parametrize("path", ["/v1/experiments/one/tell", "/v1/experiments/one/ask"])
def test_a_request_of_a_stranger_costs_next_to_nothing(server, path, body):
    """Five milliseconds of the processor and a megabyte: figures are shown by ``pytest -s``."""
    send(server.client, path, body, NO_KEY)
    cpu, peak = cpu_seconds(server), peak_bytes(server)
    for _ in range(REQUESTS):
        problem(send(server.client, path, body, NO_KEY), 401, "unauthorized")
    each = (cpu_seconds(server) - cpu) / REQUESTS
    more = peak_bytes(server) - peak
    print(f"{len(body)} bytes: {1000.0 * each:.1f} ms of CPU, {more / 1e6:.1f} MB")
    assert each < 0.03  # where the processor is shared with other tests
    assert more < 3e6


def numbers(rows, columns=100):
    return [[0.123456789 + column for column in range(columns)]] * rows


#: the largest that are taken, or of the kind that takes longest to refuse
HEAVY = {
    "empty objects": ("tell", EMPTY),
    "wrong objects": ("tell", {"rewards": [{}] * 49_000}),
    "rewards": ("tell", {"rewards": [{"id": "x-1", "reward": 1.5}] * 16_000}),
    "features": ("ask", {"features": numbers(980)}),
    "labels": ("ask", {"available": [f"arm {i}" for i in range(90_000)]}),
    "wrong labels": ("ask", {"available": [[]] * 49_000}),
    "unknown fields": ("ask", {f"a{i}": i for i in range(49_000)}),
    "wrong cells": ("arms", {"arms": [{"arm": "a", **{f"x{i}": {} for i in range(900)}}]}),
    "arms": ("arms", {"arms": [{"arm": i, "x": 1.0} for i in range(16_000)]}),
    "table": ("arms", {"features": numbers(4_000)}),
    "history": ("learn", {"arms": [0] * 9_000, "rewards": [0.25] * 9_000}),
    "rounds": (
        "learn",
        {"arms": [0] * 4_000, "rewards": [0.25] * 4_000, "features": numbers(4_000)},
    ),
}


@pytest.mark.parametrize("name", HEAVY)
def test_a_large_request_does_not_keep_others_waiting(server, name):
    path, content = HEAVY[name]
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    assert len(body) < 8_000_000
    with watched(server.url) as longest:
        for _ in range(3):
            answer = send(server.client, f"/v1/experiments/one/{path}", body)
            assert answer.status_code in (200, 413, 422)
    print(f"{name}: {len(body)} bytes, others wait for {1000.0 * longest[0]:.0f} ms at most")
    assert longest[0] < 1.0  # where the processor is shared with other tests
