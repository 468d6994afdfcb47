"""Simulations on every backend and at chosen rounds: the same numbers, bit for bit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

import rolf
from rolf.cli import main as command
from rolf.errors import InvalidArgument
from rolf.simulation import runs as chunks

FAMILY = rolf.environments.paper(arms=6, size=8)
CLUSTERS = [pytest.param(name, marks=pytest.mark.slow) for name in ("dask", "ray")]


@pytest.fixture(scope="module", autouse=True)
def clusters_end():
    yield
    rolf.parallel.shutdown()


class Slow:
    """A user's policy in plain Python that records which process it plays in."""

    def __init__(self, features, *, folder=None, seed=None):
        self.arms, self.rng = len(features), np.random.default_rng(seed)
        if folder is not None:
            open(os.path.join(folder, str(os.getpid())), "w").close()

    def ask(self):
        return int(self.rng.integers(self.arms))

    def tell(self, decision, reward):
        for _ in range(200):
            self.last = reward


PLAN = {"ucb": "ucb", "ridge": "rolf-ridge", "mine": Slow}


@pytest.fixture(scope="module")
def expected():
    return rolf.simulate(PLAN, FAMILY, rounds=150, runs=6, seed=4, backend="threads")


@pytest.mark.parametrize("backend", ["local", *CLUSTERS])
def test_the_same_numbers_on_every_backend(backend, expected):
    seen = []
    result = rolf.simulate(
        PLAN, FAMILY, rounds=150, runs=6, seed=4, backend=backend, jobs=2, progress=seen.append
    )
    assert (result.regret == expected.regret).all()
    assert sorted(seen) == sorted([*PLAN] * 6)


@pytest.mark.parametrize("backend", ["local", *CLUSTERS])
def test_a_policy_in_python_uses_several_processes(backend, tmp_path):
    plan = {"mine": (Slow, {"folder": str(tmp_path)})}
    rolf.simulate(plan, FAMILY, rounds=2000, runs=40, seed=0, backend=backend, jobs=2)
    assert len({*os.listdir(tmp_path)} - {str(os.getpid())}) == 2


@pytest.mark.parametrize("backend", ["local", *CLUSTERS])
def test_a_script_plays_its_own_policy(backend, tmp_path):
    """One class from __main__, one from a module beside the script."""
    (tmp_path / "beside.py").write_text(
        "class First:\n"
        "    def __init__(self, features): pass\n"
        "    def ask(self): return 0\n"
        "    def tell(self, decision, reward): pass\n"
    )
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(f"""
        import beside, rolf

        class Last(beside.First):
            def __init__(self, features): self.last = len(features) - 1
            def ask(self): return self.last

        if __name__ == "__main__":
            plan, family = {{"a": Last, "b": beside.First}}, rolf.environments.paper(arms=4, size=6)
            one, two = (
                rolf.simulate(plan, family, rounds=20, runs=6, seed=0, jobs=2, backend=backend)
                for backend in ("threads", "{backend}")
            )
            assert (one.regret == two.regret).all()
            print("same")
        """)
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", script], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.stdout.strip() == "same", done.stderr


def test_a_policy_that_cannot_be_pickled_is_played_here():
    class Held(Slow):
        lock = threading.Lock()

    with pytest.warns(rolf.RolfWarning, match=r"policies\['a'\].*on one core"):
        result = rolf.simulate({"a": Held}, FAMILY, rounds=20, runs=2, seed=4, jobs=2)
    same = rolf.simulate({"a": Slow}, FAMILY, rounds=20, runs=2, seed=4, backend="threads")
    assert (result.regret == same.regret).all()
    with pytest.raises(InvalidArgument, match=r"policies\['a'\].*can be pickled"):
        rolf.simulate({"a": Held}, FAMILY, rounds=20, runs=2, backend="dask")


@pytest.mark.parametrize("name", ["simulate", "reproduce"])
def test_backends_of_the_command_line(name, tmp_path, monkeypatch, capsys):
    config = tmp_path / "plan.toml"
    config.write_text('[policies]\nucb = "ucb"\n')
    arguments = [str(config)] if name == "simulate" else ["--figure", "figure1"]
    for wrong in (["--backend", "spark"], ["--address", "host:1"]):
        monkeypatch.setattr(sys, "argv", ["rolf", name, *arguments, *wrong])
        monkeypatch.chdir(tmp_path)
        with pytest.raises(SystemExit) as stopped:
            command()
        assert stopped.value.code not in (0, None)
        assert wrong[0].strip("-") in capsys.readouterr().err


# --- chosen rounds ---


@pytest.mark.parametrize("points", [1, 7, 150, [150], [3, 70, 71], np.array([1, 2, 149])])
def test_regret_at_chosen_rounds_equals_the_full_curve(points, expected, monkeypatch):
    monkeypatch.setattr(chunks, "CHUNK", 32)
    result = rolf.simulate(
        PLAN, FAMILY, rounds=150, runs=6, seed=4, points=points, backend="threads"
    )
    assert result.points[-1] == 150
    assert set(np.atleast_1d(points)) <= {*result.points, 1, 7, 150}
    if isinstance(points, int):
        assert len(result.points) == points
        assert np.ptp(np.diff(result.points, prepend=0)) <= 1
    assert (result.regret == expected.regret[:, :, result.points - 1]).all()


def test_features_that_change_every_round_are_played_in_chunks_too(monkeypatch):
    family = rolf.environments.varying(arms=4, observed=2)
    plan = {"linucb": "linucb", "bayes": "rolf-bayes-varying"}
    whole = rolf.simulate(plan, family, rounds=100, runs=2, seed=1)
    monkeypatch.setattr(chunks, "CHUNK", 17)
    parts = rolf.simulate(plan, family, rounds=100, runs=2, seed=1)
    assert (whole.regret == parts.regret).all()


def test_a_result_at_chosen_rounds_is_saved_and_shown(expected, tmp_path):
    result = rolf.simulate(PLAN, FAMILY, rounds=150, runs=6, seed=4, points=[10, 50], jobs=2)
    assert list(result.points) == [10, 50, 150]
    assert repr(result) == "<Result of 3 policies, 6 runs, 150 rounds (3 of them kept)>"
    assert result.summary().to_dicts() == expected.summary().to_dicts()
    assert result.summary(50).to_dicts() == expected.summary(50).to_dicts()
    with pytest.raises(InvalidArgument, match=r"round: got 20, .*such as 50"):
        result.summary(20)
    back = rolf.load_result(result.save(tmp_path / "r.parquet"))
    assert (back.regret == result.regret).all()
    assert (back.points == result.points).all()
    table, everything = result.table().to_pandas(), expected.table().to_pandas()
    kept = everything[everything["round"].isin([10, 50, 150])].reset_index(drop=True)
    assert table.equals(kept)
    lines = result.save(tmp_path / "r.csv").read_text().splitlines()
    assert len(lines) == 1 + 3 * 6 * 3
    axes = result.plot().axes[0]
    assert [list(line.get_xdata()) for line in axes.lines] == [[10, 50, 150]] * 3


def test_files_of_every_round_need_no_list_of_them(expected, tmp_path):
    import pyarrow.parquet as pq

    path = expected.save(tmp_path / "all.parquet")
    header = json.loads(pq.read_schema(path).metadata[b"rolf"])
    assert header["version"] == 1
    assert header["points"] is None
    again = rolf.load_result(path)
    assert (again.points == np.arange(1, 151)).all()
    assert repr(again) == repr(expected)


@pytest.mark.parametrize("points", [0, 151, -3, [0], [151], [2.5], "all", [[1]], True])
def test_bad_points_are_named(points):
    with pytest.raises(InvalidArgument, match="points"):
        rolf.simulate({"u": "ucb"}, FAMILY, rounds=150, runs=1, points=points)


@pytest.mark.slow
def test_memory_does_not_grow_with_the_horizon():
    """Ten million rounds at 30 arms: 80 MB of regret that is never held in memory."""
    code = """
import re, rolf
def peak():  # ru_maxrss starts with what the parent had
    with open("/proc/self/status") as file:
        return int(re.search("VmHWM:[^0-9]*([0-9]+)", file.read())[1]) / 1024
def play(rounds):
    family = rolf.environments.paper()
    rolf.simulate({"u": "ucb"}, family, rounds=rounds, runs=1, seed=0, points=100)
    return peak()
print(play(100_000), play(10_000_000))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    short, long = map(float, done.stdout.split())
    assert long < short + 8.0


# --- compiled code ---


@pytest.mark.slow
def test_processes_that_start_together_compile_once(tmp_path):
    code = """
import rolf
from rolf.kernel.disk_cache import compilations
result = rolf.simulate({"u": "ucb"}, rolf.environments.paper(), rounds=50, runs=1, seed=0)
print(len(compilations), result.regret[0, 0, -1])
"""
    env = {**os.environ, "ROLF_CACHE_DIR": str(tmp_path)}
    processes = [
        subprocess.Popen([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    printed = [process.communicate()[0].split() for process in processes]
    assert sorted(int(count) for count, _ in printed) == [0, 0, 0, 1]
    assert len({regret for _, regret in printed}) == 1
    assert not list(tmp_path.glob("*/*.lock"))
