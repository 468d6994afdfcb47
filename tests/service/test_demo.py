"""The demonstration goes on whatever its visitors do."""

from __future__ import annotations

import time

import rolf
from rolf.service.demo import NAME, Demo
from rolf.service.open_experiments import OpenExperiments
from support.served import wait_until
from support.stores import make_url


def test_it_goes_on_after_a_pause_and_with_new_arms_and_ends_when_deleted():
    url = make_url("sqlite")
    experiments = OpenExperiments(url, 5.0, 10)
    demo = Demo(experiments)
    demo.start()
    try:
        with rolf.open_experiment(url, NAME) as experiment:
            experiment.pause()
            time.sleep(0.3)
            paused_at = experiment.counts().asked
            time.sleep(0.2)
            assert experiment.counts().asked == paused_at
            experiment.resume()
            wait_until(lambda: experiment.counts().asked > paused_at)
            old = experiment.arms
            new = {"arm": "Fog", "topic": "weather", "words": 1, "number": False}
            experiment.add_arms([new])
            experiment.retire_arms(old)
            later = experiment.counts().told
            wait_until(lambda: experiment.counts().told > later + 3)
        rolf.connect(url).delete(NAME, confirm=NAME)
        wait_until(lambda: not demo._thread.is_alive())
    finally:
        demo.stop()
        experiments.close()
