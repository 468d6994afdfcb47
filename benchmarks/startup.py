"""Start-up costs: importing rolf, compiling everything once, the first decisions and the report of
a fresh installation, and later processes, in simulations and with ``rolf ask``.

Each number is measured in fresh processes: seconds, CPU seconds, and the memory of the largest
process. The import time is a ratio to NumPy's, measured alternately.

    python benchmarks/startup.py
    python benchmarks/startup.py --against 2028c25    # also as ratios to another commit
    python benchmarks/startup.py --report             # with all of ``make run``, after the install
    python benchmarks/startup.py --quick              # once, with existing compiled code
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable

from against import COMMAND, OURS, Library, Usage, libraries, recipe, run

POLICIES = ("rolf-lasso", "rolf-ridge", "linucb", "lints", "ucb")
FOUR = ("rolf-lasso", "rolf-ridge", "linucb", "ucb")

IMPORT = "import time; t = time.perf_counter(); import {}; print(time.perf_counter() - t)"

FIRST_ASK = """
import time
import rolf
start = time.process_time()
with rolf.open_experiment("memory://", "e", features=[[0.0], [1.0], [2.0]]) as experiment:
    experiment.ask()
print(time.process_time() - start)
"""

FIRST_ROUNDS = """
import rolf
policy = rolf.RoLFBayes([[0.0], [1.0], [2.0]], seed=0)
for round in range(20):
    policy.tell(policy.ask(), float(round % 3))
"""

FOUR_POLICIES = """
import sys
import rolf
rolf.simulate({name: name for name in sys.argv[1:]}, rolf.environments.paper(), rounds=100, runs=1)
"""

#: compile all options in one process, so one after the other
COMPILE_BAYES = """
from rolf.simulation.loop import compile_policy
compile_policy("rolf-bayes")
"""

NEW = """
import sys
import rolf
with rolf.open_experiment(sys.argv[1], "e", features=[[0.0], [1.0], [2.0]]) as experiment:
    experiment.tell(experiment.ask(), 1.0)
"""


def with_fresh_cache(library: Library, code: str, *args: str) -> Usage:
    with tempfile.TemporaryDirectory() as cache:
        return run(library, code, *args, cache=cache)


def make_run(library: Library) -> Usage:
    """Run the commands of ``make run`` after the installation."""
    commands = recipe(library, "run")
    with tempfile.TemporaryDirectory() as cache, tempfile.TemporaryDirectory() as folder:
        used = [run(library, COMMAND, *args, cache=cache, cwd=folder) for args in commands]
    wall, cpu = sum(each.wall for each in used), sum(each.cpu for each in used)
    return Usage(wall, cpu, max(each.peak for each in used), "")


#: costs of a fresh installation, with target ratios to commit 2028c25
FRESH: dict[str, tuple[Callable[[Library], Usage], float | None]] = {
    "rolf compile": (lambda each: with_fresh_cache(each, COMMAND, "compile"), 0.4),
    "rolf-bayes, all options": (lambda each: with_fresh_cache(each, COMPILE_BAYES), None),
    "four policies, 100 rounds": (lambda each: with_fresh_cache(each, FOUR_POLICIES, *FOUR), None),
    "rolf-bayes, 20 ask and tell": (lambda each: with_fresh_cache(each, FIRST_ROUNDS), None),
}
#: MiB of the largest process of ``rolf compile``, and seconds of ``make run`` on two quiet cores
MEMORY, REPORT = 600.0, 105.0


def fresh_installation(compared: list[Library], names: list[str]) -> None:
    header = f"{'a fresh installation':30}{'':12}{'s':>7}{'CPU s':>8}{'MiB':>7}"
    print(header + (f"{'ratio':>8}{'CPU':>6}{'MiB':>6}" if len(compared) > 1 else ""))
    for name in names:
        measure, target = FRESH.get(name, (make_run, None))
        used = [measure(library) for library in reversed(compared)]
        for library, each in zip(reversed(compared), used, strict=True):
            line = f"{name:30}{library.name:12}{each.wall:7.1f}{each.cpu:8.1f}{each.peak:7.0f}"
            if library is OURS and len(compared) > 1:
                ratios = [mine / theirs for mine, theirs in zip(each[:3], used[0][:3], strict=True)]
                line += "{:8.2f}{:6.2f}{:6.2f}".format(*ratios)
                line += "" if target is None else f"   (target {target})"
            print(line, flush=True)
    print(f"(targets: rolf compile {MEMORY:.0f} MiB, make run {REPORT:.0f} s on two quiet cores)\n")


def least(repeats: int, measure: Callable[[], float]) -> float:
    return min(measure() for _ in range(repeats))


def printed(library: Library, code: str, cache: str) -> float:
    return float(run(library, code, cache=cache).output.split()[-1])


def later_processes(library: Library, cache: str, repeats: int) -> None:
    """The cost of every process after the first."""
    best = {"rolf": float("inf"), "numpy": float("inf")}
    for _ in range(3 * repeats):
        for name in best:
            best[name] = min(best[name], printed(library, IMPORT.format(name), cache))
    print(
        f"{library.name}: import rolf / import numpy {best['rolf'] / best['numpy']:.2f} (target 2)"
    )
    ask = least(repeats, lambda: printed(library, FIRST_ASK, cache))
    print(f"{library.name}: first ask of rolf-bayes {ask:.2f} s of CPU (target 0.5)")
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/e.db"
        run(library, NEW, url, cache=cache)
        whole = least(repeats, lambda: run(library, COMMAND, "ask", url, "e", cache=cache).cpu)
    print(f"{library.name}: rolf ask, the whole process {whole:.2f} s of CPU (target 0.6)")
    for name in POLICIES[: 1 if repeats == 1 else None]:
        later = least(repeats, lambda: run(library, FOUR_POLICIES, name, cache=cache).wall)  # noqa: B023
        print(f"{library.name}: 100 rounds of {name} {later:.2f} s (target 2)", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="once, without recompiling")
    parser.add_argument("--report", action="store_true", help="with all of make run")
    parser.add_argument("--against", metavar="REV", help="a commit to compare with")
    options = parser.parse_args()
    with libraries(options.against) as compared:
        if options.quick:
            for library in compared:
                later_processes(library, os.environ.get("ROLF_CACHE_DIR", ""), 1)
            return
        fresh_installation(compared, [*FRESH, *(["make run"] if options.report else [])])
        for library in compared:
            with tempfile.TemporaryDirectory() as cache:
                run(library, COMMAND, "compile", cache=cache)
                later_processes(library, cache, 5)


if __name__ == "__main__":
    main()
