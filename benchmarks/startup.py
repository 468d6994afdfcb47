"""What starting costs: importing rolf, compiling everything once, and every process after that, in
simulations and with ``rolf ask``.

Each figure is measured in fresh processes. The import is given as a ratio to NumPy's own; the two
are measured in turn.

    python benchmarks/startup.py
    python benchmarks/startup.py --quick    # once, with what has been compiled before
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

import rolf

POLICIES = ("rolf-lasso", "rolf-ridge", "linucb", "lints", "ucb")

COMPILE = """
import sys, time
start = time.perf_counter()
sys.argv = ["rolf", "compile"]
from rolf.cli import main
main()
print(time.perf_counter() - start)
"""

FIRST_ASK = """
import time
import rolf
start = time.process_time()
with rolf.open_experiment("memory://", "e", features=[[0.0], [1.0], [2.0]]) as experiment:
    experiment.ask()
print(time.process_time() - start)
"""

ASK = "import sys; sys.argv[0] = 'rolf'; from rolf.cli import main; main()"

FIRST_ROUND = """
import time
start = time.perf_counter()
import rolf
rolf.simulate({{"p": "{name}"}}, rolf.environments.paper(), rounds=100, runs=1, seed=0)
print(time.perf_counter() - start)
"""


def seconds(code: str, cache: str, *, quiet: bool = True) -> float:
    """Seconds that the code took, in a fresh process; it prints them itself."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL if quiet else None,
        env={**os.environ, "ROLF_CACHE_DIR": cache},
    )
    return float(done.stdout.strip().splitlines()[-1])


def import_ratio(repeats: int) -> tuple[float, float]:
    """Best time of ``import rolf`` and of ``import numpy``, measured in turn."""
    code = "import time; t = time.perf_counter(); import {}; print(time.perf_counter() - t)"
    best = {"rolf": float("inf"), "numpy": float("inf")}
    for _ in range(repeats):
        for name in best:
            best[name] = min(best[name], seconds(code.format(name), ""))
    return best["rolf"], best["numpy"]


def command_cpu(cache: str, repeats: int) -> float:
    """The least processor time of ``rolf ask``, from the start of its process to the end."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/e.db"
        with rolf.open_experiment(url, "e", features=[[0.0], [1.0], [2.0]]) as experiment:
            experiment.tell(experiment.ask(), 1.0)
        least = float("inf")
        for _ in range(repeats):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            command = [sys.executable, "-c", ASK, "ask", url, "e"]
            environment = {**os.environ, "ROLF_CACHE_DIR": cache}
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            least = min(least, used)
    return least


def later_processes(cache: str, repeats: int, policies: Sequence[str]) -> None:
    """What every process costs after the first."""
    ask = min(seconds(FIRST_ASK, cache) for _ in range(repeats))
    print(f"later process, first ask of rolf-bayes: {ask:.2f} s of CPU (target 0.5)")
    print(f"rolf ask, the whole process: {command_cpu(cache, repeats):.2f} s of CPU (target 0.6)")
    for name in policies:
        later = min(seconds(FIRST_ROUND.format(name=name), cache) for _ in range(repeats))
        print(f"later process, 100 rounds of {name}: {later:.2f} s (target 2)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="once, compiling nothing again")
    quick = parser.parse_args().quick
    ours, numpys = import_ratio(1 if quick else 15)
    print(f"import rolf / import numpy: {ours / numpys:.2f} (target 2)")
    if quick:
        later_processes(os.environ.get("ROLF_CACHE_DIR", ""), 1, POLICIES[:1])
        return
    with tempfile.TemporaryDirectory() as cache:
        start = time.perf_counter()
        first = seconds(COMPILE, cache, quiet=False)
        print(f"first compilation of everything, two processes: {first:.1f} s (target 120)")
        later_processes(cache, 5, POLICIES)
        print(f"everything: {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
