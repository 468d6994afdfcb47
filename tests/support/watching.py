"""A service in a process of its own, with experiments to watch in a browser."""

from __future__ import annotations

import re
import signal
import subprocess
import sys

import numpy as np
import pandas as pd

import rolf

ROLF = [sys.executable, "-c", "from rolf.cli import main; main()"]
#: milliseconds to wait for something to happen
SOON = 20_000
NASTY = "<img src=x onerror=alert(1)>"
BIG, SMALL, PRICES = "headlines of the day", "buttons", "prices"


class Service:
    """``rolf serve`` in a process of its own, on a SQLite file."""

    def __init__(self, folder, *options, storage=None):
        self.storage = storage or f"sqlite:///{folder / 'page.db'}"
        self.log = folder / "log.txt"
        self.options = options
        self.port = 0
        self.process = None

    def start(self):
        command = [*ROLF, "serve", "--storage", self.storage]
        command += ["--port", str(self.port), *self.options]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        found = re.search(r"http://127\.0\.0\.1:(\d+)", self.process.stdout.readline())
        if found is None:
            self.stop()
            raise AssertionError(self.log.read_text())
        self.address, self.port = found[0], int(found[1])
        return self

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=30)
        self.process.stdout.close()

    def rolf(self, *words):
        command = [*ROLF, *words, "--storage", self.storage]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def key(self, scope, *more):
        return self.rolf("keys", "new", "--scope", scope, *more).split()[-1]


def play(experiment, rounds, rng, told=1.0):
    """Ask and tell; better rewards for arms with a larger first feature."""
    means = {record.arm: record.features["width"] for record in experiment.arm_table()}
    for _ in range(rounds):
        decision = experiment.ask()
        if rng.random() < told:
            experiment.tell(decision, means[decision.arm] + 0.1 * float(rng.normal()))


def make_experiments(url):
    """One has a thousand arms, one has three (one of them retired), and one has numbers as arms."""
    rng = np.random.default_rng(0)
    names = {
        BIG: [NASTY, "The END", *(f"headline {number}" for number in range(998))],
        SMALL: ["green", "red", NASTY],
        PRICES: [0.5, 1.0, 2.0],
    }
    for name, arms in names.items():
        features = pd.DataFrame(
            {"width": np.linspace(0.0, 1.0, len(arms)), "height": rng.normal(size=len(arms))},
            index=arms,
        )
        with rolf.open_experiment(url, name, features=features, seed=1) as experiment:
            play(experiment, 60, rng, told=0.9)
            if name == SMALL:
                experiment.retire_arms(["red"])


def place_of(name):
    return f"#/experiments/{name.replace(' ', '%20')}"


def rows_of(page):
    return page.locator("tbody tr")


def column(page, number):
    return page.locator(f"tbody tr > :nth-child({number})").all_inner_texts()


def text_of(page, part):
    return page.locator(f"[data-part={part}]").inner_text()


def drawn(page, part):
    """What Chart.js has drawn on a canvas."""
    return page.evaluate(
        """part => {
          const canvas = document.querySelector(`[data-part=${part}]`);
          return Chart.getChart(canvas).data.datasets.map(({ data }) => data);
        }""",
        part,
    )
