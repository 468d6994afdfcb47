"""Take screenshots of the service's page with Chromium.

python docs/scripts/page_picture.py
python docs/scripts/page_picture.py FOLDER    # more pictures: both widths, light and dark
python docs/scripts/page_picture.py --quick   # of an experiment with a few decisions
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from playwright.sync_api import sync_playwright

import rolf
from quick import mode_of, parser

PICTURE = "service.png"
NAME = "welcome-mail"
SUBJECTS = [
    f"{greeting}, {offer}"
    for greeting in ("Welcome", "Hello", "Good to see you", "Hi there", "You made it", "Nice")
    for offer in ("10% off", "free delivery", "a gift inside", "pick a colour", "see what is new")
]


def make_experiment(url: str, batches: int) -> None:
    """Clicks on mails, with features that explain part of the differences."""
    rng = np.random.default_rng(7)
    features = pd.DataFrame(
        {
            "characters": [len(subject) for subject in SUBJECTS],
            "discount": ["%" in subject or "free" in subject for subject in SUBJECTS],
            "question": rng.integers(0, 2, len(SUBJECTS)),
        },
        index=SUBJECTS,
    ).astype(float)
    scaled = (features - features.mean()) / features.std()
    odds = scaled.to_numpy() @ [-0.25, 0.5, 0.2] + 0.35 * rng.normal(size=len(SUBJECTS)) - 1.2
    chance = dict(zip(SUBJECTS, 1.0 / (1.0 + np.exp(-odds)), strict=True))
    options = {"rewards": "binary", "rule": "sample"}
    with rolf.open_experiment(url, NAME, features=features, options=options, seed=1) as experiment:
        for _ in range(batches):
            decisions = experiment.ask_many(40)
            told = [each for each in decisions if rng.random() < 0.97]
            experiment.tell_many([(each, float(rng.random() < chance[each.arm])) for each in told])


def take(address: str, pictures: dict[Path, tuple[int, str]]) -> None:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for path, (width, scheme) in pictures.items():
            page = browser.new_page(viewport={"width": width, "height": 1200}, color_scheme=scheme)
            page.goto(f"{address}/#/experiments/{NAME}")
            page.locator("tbody tr").first.wait_for()
            page.wait_for_timeout(1500)
            page.screenshot(path=path, full_page=path.name != PICTURE)
            page.close()
        browser.close()


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("folder", nargs="?", type=Path, help="for pictures in both widths")
    args = arguments.parse_args()
    mode = mode_of(args)
    with tempfile.TemporaryDirectory() as place:
        url = f"sqlite:///{place}/page.db"
        make_experiment(url, 3 if mode.quick else 150)
        rolf_command = [sys.executable, "-c", "from rolf.cli import main; main()"]
        command = [*rolf_command, "serve", "--storage", url, "--port", "0", "--insecure-local"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            address = process.stdout.readline().split()[-1]
            pictures = {mode.images / PICTURE: (1400, "light")}
            if args.folder is not None:
                pictures = {
                    args.folder / f"{width}-{scheme}.png": (width, scheme)
                    for width in (390, 1400)
                    for scheme in ("light", "dark")
                }
            try:
                take(address, pictures)
            finally:
                process.terminate()


if __name__ == "__main__":
    main()
