"""What a server does: warms up, asks and tells from coroutines, logs, moves to other processes."""

from __future__ import annotations

import asyncio
import copy
import os
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest
from numba.core import event

import rolf
from rolf.policies import warm as warming

FEATURES = [[0.0, 1.0], [1.0, 0.5], [0.3, 0.2]]


def test_many_coroutines_share_an_experiment(url):
    async def visitor(experiment, number):
        decision = await experiment.aask()
        await experiment.atell(decision, float(number % 2))
        return decision

    async def serve():
        with rolf.open_experiment(url, "e", features=FEATURES) as experiment:
            decisions = await asyncio.gather(*(visitor(experiment, each) for each in range(40)))
            batch = await experiment.aask_many(3, available=[0, 1])
            await experiment.atell_many([(decision, 1.0) for decision in batch])
            status = await experiment.astatus()
            with pytest.raises(rolf.RolfError, match="not issued"):
                await experiment.atell("nobody-1", 1.0)
        return [*decisions, *batch], status

    decisions, status = asyncio.run(serve())
    assert len({decision.id for decision in decisions}) == 43
    assert (status.asked, status.told) == (43, 43)


def test_the_event_loop_goes_on_while_an_ask_waits(monkeypatch):
    experiment = rolf.open_experiment("memory://", "waits", features=FEATURES, policy="ucb")
    go, before = threading.Event(), rolf.Experiment.ask

    def slow(self, *args, **kwargs):
        assert go.wait(20.0)
        return before(self, *args, **kwargs)

    monkeypatch.setattr(rolf.Experiment, "ask", slow)

    async def serve():
        asking = asyncio.create_task(experiment.aask())
        await asyncio.sleep(0)  # would never return if the loop waited
        go.set()
        return await asking

    assert asyncio.run(serve()).arm in (0, 1, 2)


@pytest.mark.parametrize("call", [pickle.dumps, copy.copy, copy.deepcopy])
def test_an_experiment_says_why_it_cannot_be_pickled(call, shared_url):
    with rolf.open_experiment(shared_url, "e", features=FEATURES, policy="ucb") as experiment:
        with pytest.raises(rolf.RolfError, match=r"URL and name.*rolf\.open_experiment") as raised:
            call(experiment)
        assert shared_url not in str(raised.value)


# --- warming up and logging --------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["rolf-bayes", "rolf-bayes-varying", "rolf-lasso"])
def test_after_warming_up_nothing_is_loaded(policy):
    rolf.warm_up(policy)
    extra = {"features": FEATURES} if "varying" in policy else {}
    with rolf.open_experiment("memory://", policy, features=FEATURES, policy=policy) as experiment:
        experiment.warm_up()
        with event.install_recorder("numba:run_pass") as passes:
            experiment.tell(experiment.ask(**extra), 1.0)
            experiment.status(**extra)
        assert not passes.buffer


def test_warming_up_takes_policies_and_options(monkeypatch):
    monkeypatch.setattr(warming, "_warm", set())
    rolf.warm_up("rolf-bayes", options={"rewards": "binary", "rule": "sample"})
    rolf.warm_up(rolf.UCB(np.eye(3)))
    assert {kind[0] for kind in warming._warm} == {rolf.RoLFBayes, rolf.UCB}
    with pytest.raises(rolf.RolfError, match="did you mean 'explore'"):
        rolf.warm_up("rolf-bayes", options={"explor": 0.1})
    with pytest.raises(rolf.RolfError, match="options"):
        rolf.warm_up(rolf.UCB(np.eye(3)), options={})
    with pytest.raises(rolf.RolfError, match="policy"):
        rolf.warm_up("nobody")


LOGGED = """
import logging, sys
logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s", stream=sys.stdout)
from rolf.kernel import compiled
from rolf.kernel.disk_cache import compilations
from rolf.linalg import dot
import numpy as np
for _ in range(2):
    assert compiled(dot, title="twice")(np.ones(2), np.ones(2)) == 2.0
assert compilations == ["twice"]
"""


def test_compilations_are_logged(tmp_path):
    """Once: the second time the code is read from the disk. In a process of its own, because code
    of classes that other tests have defined would be kept elsewhere, or not at all."""
    environment = {**os.environ, "ROLF_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", LOGGED], env=environment, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    first, second = done.stdout.splitlines()
    assert first == "WARNING compiling twice (once) ..."
    assert second.startswith("INFO twice compiled in ")
