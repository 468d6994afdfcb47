"""A simulated experiment that runs by itself, to be watched."""

from __future__ import annotations

import random
import threading
from typing import Any

from rolf.errors import RolfError, UnknownExperiment
from rolf.experiments.experiment import Experiment
from rolf.service.open_experiments import OpenExperiments

NAME = "headlines"
ROUNDS_AT_START = 300
PAUSE = 0.1  # seconds between rounds
#: one decision in this many never gets its reward
FORGOTTEN = 40

#: topic, length in words, a number in it, and what no feature says: how much more often it is read
HEADLINES = {
    "Ten ways to fold a map": ("travel", 6, 10, 0.02),
    "A cat that rides the bus": ("animals", 6, 0, 0.22),
    "Rain until Thursday": ("weather", 3, 0, 0.0),
    "The bridge reopens": ("city", 3, 0, 0.06),
    "Three soups for winter": ("food", 4, 3, 0.0),
    "Why trains run late": ("travel", 4, 0, 0.04),
    "Seven birds of the park": ("animals", 5, 7, -0.04),
    "Bread without an oven": ("food", 4, 0, 0.12),
    "Snow in the hills": ("weather", 4, 0, -0.02),
    "A new square for the old town": ("city", 7, 0, -0.03),
    "Twelve walks by the river": ("travel", 5, 12, 0.0),
    "What the election changes": ("city", 4, 0, 0.01),
}
#: a headline that was added meanwhile
ADDED = ("city", 0, 0, 0.0)
READERS = {"travel": 0.12, "animals": 0.2, "weather": 0.08, "city": 0.1, "food": 0.15}


class Demo:
    """Simulated visitors, who read headlines or not."""

    def __init__(self, experiments: OpenExperiments) -> None:
        rows: list[dict[str, Any]] = [
            {"arm": title, "topic": topic, "words": words, "number": number > 0}
            for title, (topic, words, number, _) in HEADLINES.items()
        ]
        self._experiment, _, _ = experiments.create(
            NAME, features=rows, options={"rewards": "binary", "rule": "sample"}, seed=1
        )
        self._random = random.Random(1)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._play, name="rolf-demo", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _play(self) -> None:
        rounds = 0
        while not self._stop.wait(0.0 if rounds < ROUNDS_AT_START else PAUSE):
            try:
                self._round(self._experiment)
                rounds += 1
            except UnknownExperiment:  # deleted
                return
            except RolfError:  # paused, for instance
                self._stop.wait(PAUSE)

    def _round(self, experiment: Experiment) -> None:
        decision = experiment.ask()
        if self._random.randrange(FORGOTTEN):
            topic, _, _, more = HEADLINES.get(decision.arm, ADDED)
            read = self._random.random() < READERS[topic] + more
            experiment.tell(decision, float(read))
