"""Microseconds per round of other bandit libraries, and the ratio to ours, measured side by side.

    make peers                                  # creates .venv-peers with the extra `peers`
    python benchmarks/peers.py                  # in any environment with some of them installed
    python benchmarks/peers.py --only river mabwiser
    python benchmarks/peers.py --quick          # one short repeat of everything

A round is: decide among K=30 arms with fixed features (30, 17), get a Gaussian reward, learn from
it. Ours is timed online (``ask`` and ``tell``) and in the compiled loop, alternating with the peer
in the same process, best of several repeats. Each peer uses its fastest documented incremental
path, and every library runs on one BLAS thread, which is faster at this size. Regret is not
compared: settings are close to the defaults.

The column "what was run" says how close the peer's work is to ours:

    same            our algorithm, up to constants and the schedule of widths; LinUCB and LinTS
                    with one linear model over the features of all arms
    draw per arm    the same model, but one Thompson draw per arm where ours needs one in total
    disjoint        one model per arm, the intended use of that library; all of them see one
                    context of the same size, the average of the arms' features
    nearest: ...    the library has no such algorithm; this is the closest
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from importlib import metadata
from multiprocessing import get_context
from typing import NamedTuple

import numpy as np

import rolf
from peer_libraries import (
    BayesianShared,
    ContextualDisjoint,
    ContextualShared,
    MabwiserDisjoint,
    MabwiserShared,
    MabwiserUCB,
    Peer,
    RiverDisjoint,
    RiverShared,
    RiverUCB,
    Vowpal,
)
from rolf.environments import Problem
from rounds import in_engine, interleaved, online

REPEATS = 7
SLICE = 0.2  # seconds per repeat of a peer
PILOT = 40  # rounds to warm a peer up, and again to estimate its speed
FEWEST, MOST = 100, 5_000  # rounds in one repeat
ONLINE_ROUNDS, ENGINE_ROUNDS = 2_000, 20_000  # of ours


# --- cases ---


class Case(NamedTuple):
    ours: str  # name in the catalogue
    ran: str
    make: Callable[[np.ndarray], Peer]


class Row(NamedTuple):
    peer: str
    version: str
    ours: str
    ran: str
    theirs: float  # microseconds per round
    online: float
    engine: float


CASES: dict[str, list[Case]] = {
    "mabwiser": [
        Case("linucb", "same", partial(MabwiserShared, policy="LinUCB", alpha=1.0)),
        Case("linucb", "disjoint", partial(MabwiserDisjoint, policy="LinUCB", alpha=1.0)),
        Case("lints", "draw per arm", partial(MabwiserShared, policy="LinTS", alpha=1.0)),
        Case("lints", "disjoint", partial(MabwiserDisjoint, policy="LinTS", alpha=1.0)),
        Case("ucb", "same: UCB1", MabwiserUCB),
    ],
    "river": [
        Case("linucb", "same", partial(RiverShared, draws=False)),
        Case("linucb", "disjoint", RiverDisjoint),
        Case("lints", "draw per arm", partial(RiverShared, draws=True)),
        Case("ucb", "same", RiverUCB),
    ],
    "contextualbandits": [
        Case("linucb", "same", partial(ContextualShared, score="bound")),
        Case("linucb", "disjoint", partial(ContextualDisjoint, policy="LinUCB", method="sm")),
        Case("lints", "same", partial(ContextualShared, score="coefficients")),
        Case("lints", "draw per arm", partial(ContextualShared, score="interval")),
        Case("lints", "disjoint", partial(ContextualDisjoint, policy="LinTS", sample_from="ci")),
    ],
    "bayesianbandits": [
        Case(
            "linucb",
            "nearest: quantile of 100 draws",
            partial(BayesianShared, policy="UpperConfidenceBound", alpha=0.95, samples=100),
        ),
        Case("lints", "same", partial(BayesianShared, policy="ThompsonSampling")),
    ],
    "vowpalwabbit": [
        Case(
            "linucb",
            "nearest: SquareCB, all lines",
            partial(Vowpal, options="--squarecb", parsed_once=False),
        ),
        Case(
            "linucb",
            "nearest: SquareCB, parsed once",
            partial(Vowpal, options="--squarecb", parsed_once=True),
        ),
        Case(
            "linucb",
            "nearest: epsilon-greedy, parsed once",
            partial(Vowpal, options="--epsilon 0.1", parsed_once=True),
        ),
        Case(
            "lints",
            "nearest: bag of 5, parsed once",
            partial(Vowpal, options="--bag 5", parsed_once=True),
        ),
    ],
}


# --- timing ---


def play(peer: Peer, problem: Problem, noise: np.ndarray) -> float:
    """Microseconds per round, over one round per entry of ``noise``."""
    start = time.perf_counter()
    for shock in noise:
        arm = peer.ask()
        peer.tell(arm, problem.means[arm] + shock)
    return (time.perf_counter() - start) / noise.size * 1e6


def playing(make: Callable[[np.ndarray], Peer], problem: Problem) -> Callable[[], float]:
    """Work for ``interleaved``: a fresh peer each time, for about SLICE seconds."""
    noise = np.random.default_rng(0).standard_normal(MOST) * problem.noise
    pilot = make(problem.features)
    play(pilot, problem, noise[:PILOT])
    pace = play(pilot, problem, noise[PILOT : 2 * PILOT])
    rounds = int(np.clip(SLICE * 1e6 / pace, FEWEST, MOST))
    return lambda: play(make(problem.features), problem, noise[:rounds])


def measure(peer: str, repeats: int) -> tuple[list[Row], list[str]]:
    """All rows of one peer, and one line per failed case."""
    warnings.simplefilter("ignore")
    problem = rolf.environments.paper(1, 1).draw(0)
    classes = {cls.name: cls for cls in rolf.policy_classes()}
    version = metadata.version(peer)
    rows, failures = [], []
    for case in CASES[peer]:
        cls = classes[case.ours]
        try:
            works = [playing(case.make, problem)]
            works += [online(cls, problem, ONLINE_ROUNDS), in_engine(cls, problem, ENGINE_ROUNDS)]
            times = interleaved(repeats, works)
        except Exception as error:
            failures.append(f"{peer} {version}, {case.ours}, {case.ran}: {short(error)}")
        else:
            rows.append(Row(peer, version, case.ours, case.ran, *times))
    return rows, failures


def short(error: BaseException) -> str:
    """An error as one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"


def measure_apart(peer: str, repeats: int) -> tuple[list[Row], list[str]]:
    """The same in a separate process, in case the library crashes."""
    if importlib.util.find_spec(peer) is None:
        return [], [f"{peer}: not installed"]
    try:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            return pool.submit(measure, peer, repeats).result()
    except Exception as error:
        return [], [f"{peer}: {short(error)}"]


# --- printing ---


def print_header() -> None:
    print("K=30, d=17; microseconds per round; a ratio above 1 means that ours is faster\n")
    print(f"{'peer':18}{'version':9}{'algorithm':11}{'what was run':37}{'theirs':>9}", end="")
    print(f"{'online':>9}{'ratio':>8}{'engine':>9}{'ratio':>8}")


def print_row(row: Row) -> None:
    print(f"{row.peer:18}{row.version:9}{row.ours:11}{row.ran:37}{row.theirs:9.1f}", end="")
    print(f"{row.online:9.1f}{row.theirs / row.online:8.2f}", end="")
    print(f"{row.engine:9.2f}{row.theirs / row.engine:8.0f}", flush=True)


def verdict(rows: list[Row]) -> str:
    """The last line: ahead everywhere, or where we are behind."""
    if not rows:
        return "no peer library could be measured"
    lost = [
        f"{row.peer} {row.ours} ({row.ran}), {ours}"
        for row in rows
        for ours, taken in (("online", row.online), ("engine", row.engine))
        if taken >= row.theirs
    ]
    return "behind: " + "; ".join(lost) if lost else "ahead of every peer on every row"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--repeats", type=int, default=REPEATS, help="take the best of this many")
    parser.add_argument("--quick", action="store_true", help="one repeat")
    args = parser.parse_args()
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")  # read by the processes started below
    print_header()
    rows, failures = [], []
    for peer in args.only:
        measured, failed = measure_apart(peer, 1 if args.quick else args.repeats)
        for row in measured:
            print_row(row)
        rows += measured
        failures += failed
    print()
    for failure in failures:
        print(failure)
    print(verdict(rows))


if __name__ == "__main__":
    main()
