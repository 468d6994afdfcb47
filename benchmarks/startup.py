"""What starting costs: importing rolf, compiling everything once, and every process after that.

Each figure is measured in fresh processes. The import is given as a ratio to NumPy's own; the two
are measured in turn.

    python benchmarks/startup.py
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time

COMPILE = """
import time
start = time.perf_counter()
import rolf
policies = {cls.name: cls.name for cls in rolf.policy_classes()}
family = rolf.environments.paper(arms=8, size=9)
rolf.simulate(policies, family, rounds=20, runs=1, seed=0, jobs=2)
print(time.perf_counter() - start)
"""

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


def import_ratio(repeats: int = 15) -> tuple[float, float]:
    """Best time of ``import rolf`` and of ``import numpy``, measured in turn."""
    code = "import time; t = time.perf_counter(); import {}; print(time.perf_counter() - t)"
    best = {"rolf": float("inf"), "numpy": float("inf")}
    for _ in range(repeats):
        for name in best:
            best[name] = min(best[name], seconds(code.format(name), ""))
    return best["rolf"], best["numpy"]


def main() -> None:
    ours, numpys = import_ratio()
    print(f"import rolf / import numpy: {ours / numpys:.2f} (target 2)")
    with tempfile.TemporaryDirectory() as cache:
        start = time.perf_counter()
        first = seconds(COMPILE, cache, quiet=False)
        print(f"first compilation of all policies: {first:.1f} s (target 60)")
        for name in ("rolf-lasso", "rolf-ridge", "linucb", "lints", "ucb"):
            later = min(seconds(FIRST_ROUND.format(name=name), cache) for _ in range(3))
            print(f"later process, 100 rounds of {name}: {later:.2f} s (target 2)")
        print(f"everything: {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
