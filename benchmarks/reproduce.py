"""Time to play the paper's five panels, with five runs and with a thousand.

Six policies, T=1200, figures 1 and 2. Each part runs in a fresh process once everything is
compiled, and reports its peak memory.

    python benchmarks/reproduce.py            # five runs, then a thousand (some minutes)
    python benchmarks/reproduce.py --quick    # five runs only
"""

from __future__ import annotations

import argparse
import subprocess
import sys

PANELS = """
import resource, time
start = time.perf_counter()
import rolf
from rolf.paper.figures import figures
for key in ("figure1", "figure2"):
    for panel in figures()[key].panels:
        rolf.simulate(panel.policies, panel.problem, rounds=1200, runs={runs}, seed=panel.offset,
                      progress=False)
print(time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def measure(runs: int) -> tuple[float, float]:
    """Seconds and peak MiB for all five panels, imports included."""
    done = subprocess.run(
        [sys.executable, "-c", PANELS.format(runs=runs)], check=True, capture_output=True, text=True
    )
    seconds, memory = done.stdout.split()
    return float(seconds), float(memory)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="five runs only")
    quick = parser.parse_args().quick
    measure(1)  # compiles what is not compiled yet
    seconds, memory = measure(5)
    print(f"five panels, six policies, 5 runs: {seconds:.1f} s (target 5), {memory:.0f} MiB")
    if not quick:
        seconds, memory = measure(1000)
        print(
            f"five panels, six policies, 1000 runs: {seconds / 60:.1f} min (target 6), "
            f"{memory:.0f} MiB (target 1024)"
        )


if __name__ == "__main__":
    main()
