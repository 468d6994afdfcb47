"""Draw the figures of docs/research/results.md: run the reproduction and copy its pictures.

python docs/scripts/result_figures.py    # --quick: two of them, from short runs
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from quick import read_mode
from rolf.paper.page import NARROW
from rolf.paper.reproduce import reproduce

KEYS = [
    "figure1",
    "figure2",
    "figure1-tuned",
    "lower-bounds",
    "learnability",
    "clicks",
    "parts",
    "noise",
]


def main() -> None:
    mode = read_mode(__doc__)
    mode.images.mkdir(exist_ok=True)
    keys = ["figure2", "noise"] if mode.quick else KEYS
    short = {"runs": 1, "rounds": 60} if mode.quick else {}
    with tempfile.TemporaryDirectory() as folder:
        reproduce(folder, figure=keys, **short)
        for key in keys:
            for ending in (".png", NARROW):
                shutil.copy(Path(folder) / f"{key}{ending}", mode.images / f"{key}{ending}")


if __name__ == "__main__":
    main()
