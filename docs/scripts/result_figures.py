"""Draw the figures of docs/research/results.md: run the reproduction and copy its pictures.

python docs/scripts/result_figures.py
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from rolf.paper.page import NARROW
from rolf.paper.reproduce import reproduce

IMAGES = Path(__file__).parent.parent / "images"
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
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        reproduce(folder, figure=KEYS)
        for key in KEYS:
            for ending in (".png", NARROW):
                shutil.copy(Path(folder) / f"{key}{ending}", IMAGES / f"{key}{ending}")


if __name__ == "__main__":
    main()
