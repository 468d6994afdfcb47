"""Sweeps: which runs are played, kept and played again."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas
import pytest

import rolf
from rolf.sweeps.run import plan_sweep
from rolf.sweeps.store import PART, STALE, Block, SweepStore
from support.helpers import in_threads

PROBLEM = {"family": "paper", "arms": 5, "size": 6, "observed": 3}
CONFIG = {
    "title": "small",
    "rounds": 40,
    "runs": 3,
    "points": [10, 40],
    "problems": {"paper": {**PROBLEM, "grid": {"noise": [0.1, 0.5]}}},
    "policies": {
        "UCB1": {"policy": "ucb1", "grid": {"scale": [0.1, 1.0]}},
        "LinUCB": ("linucb", {"setting": "tuned"}),
    },
}


def changed(**changes):
    return {**CONFIG, **changes}


def run(config, folder, **options):
    """Run a sweep; return it with the tasks it played."""
    played = []
    options.setdefault("backend", "threads")
    return rolf.sweep(config, folder, progress=played.append, **options), played


def files(folder):
    return {path: path.read_bytes() for path in Path(folder).rglob("*.parquet")}


class InTurn:
    """A user's policy that plays arms in turn."""

    def __init__(self, features, start=0):
        self.arms, self.turn = len(features), start - 1

    def ask(self):
        self.turn += 1
        return self.turn % self.arms

    def tell(self, decision, reward):
        pass


# --- playing ---


def test_a_cell_is_what_simulate_plays_bit_for_bit(tmp_path):
    family = rolf.environments.varying(arms=4, observed=2)
    config = changed(
        seeds=[3, 7],
        problems={**CONFIG["problems"], "varying": family},
        policies={
            **CONFIG["policies"],
            "in turn": {"policy": InTurn, "grid": {"start": [0, 2]}},
        },
    )
    sweep, _ = run(config, tmp_path)
    assert len(sweep.cells) == 3 * 5
    assert len({cell.key for cell in sweep.cells}) == 15
    for cell in sweep.cells:
        arguments = {name: value for name, value in cell.arguments.items() if name != "family"}
        problem = family if cell.problem == "varying" else rolf.environments.paper(**arguments)
        policy = InTurn if cell.policy == "in turn" else cell.name
        results = [
            rolf.simulate(
                {cell.policy: (policy, cell.options)}, problem, rounds=40, runs=3, seed=seed
            )
            for seed in (3, 7)
        ]
        expected = np.concatenate([result.regret[0][:, [9, 39]] for result in results])
        assert (sweep.regret(cell) == expected).all()


def test_all_rounds_on_request(tmp_path):
    sweep, _ = run(changed(points="all"), tmp_path)
    (cell,) = sweep.select(policy="LinUCB", noise=0.5)
    played = rolf.simulate(
        {"LinUCB": CONFIG["policies"]["LinUCB"]},
        rolf.environments.paper(arms=5, size=6, observed=3, noise=0.5),
        rounds=40,
        runs=3,
        seed=0,
    )
    assert (sweep.regret(cell) == played["LinUCB"]).all()


def test_points_are_spread_evenly_up_to_the_last_round(tmp_path):
    assert plan_sweep(changed(points=3), tmp_path).plan.points == [13, 26, 40]
    assert plan_sweep(changed(points=[5, 3]), tmp_path).plan.points == [3, 5, 40]
    del (config := dict(CONFIG))["points"]
    assert plan_sweep(config, tmp_path).plan.points == list(range(2, 41, 2))


def test_tasks_are_neither_tiny_nor_too_many(tmp_path):
    plan = plan_sweep(changed(rounds=1200, runs=200), tmp_path).plan
    assert plan.block == 83
    assert plan._replace(runs=10**7).block == 10**4
    assert plan._replace(runs=10**10).block == 10**5
    assert plan._replace(rounds=10**7).block == 1
    agenda = plan_sweep(changed(rounds=1000, runs=250, points=1), tmp_path)
    assert [block.runs for _, block in agenda.missing[:3]] == [100, 100, 50]


# --- mistakes ---


def problems(**arguments):
    return {"problems": {"paper": {**PROBLEM, **arguments}}}


def policies(label="UCB1", **options):
    return {"policies": {label: options}}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"colour": 1}, "config: got .'colour'., wanted keys among"),
        ({"title": 3}, "config: title"),
        ({"rounds": 0}, "config: rounds"),
        ({"runs": "many"}, "config: runs"),
        ({"seed": -1}, "config: seed"),
        ({"seed": 1, "seeds": [1]}, "either seed or seeds"),
        ({"seeds": []}, "config: seeds"),
        ({"seeds": [1, 1]}, "distinct seeds"),
        ({"points": [50]}, "config: points: got 50"),
        ({"points": "some"}, "config: points"),
        ({"points": 0}, "config: points"),
        ({"points": 41}, "config: points: got 41"),
        ({"problems": {}}, "config: problems"),
        ({"problems": {"a": 3}}, "config: problems.a"),
        (problems(family="scissors"), "config: problems.paper.family"),
        (problems(legs=3), "config: problems.paper: got .'legs'."),
        (problems(noise=-1.0), "config: problems.paper.noise: got -1"),
        (problems(grid={"noise": []}), "config: problems.paper.grid.noise"),
        (problems(grid={"noise": 0.1}), "config: problems.paper.grid.noise"),
        (problems(grid=[1]), "config: problems.paper.grid"),
        (problems(grid={"noise": [0.1, 0.1]}), "distinct values"),
        (problems(grid={"noise": [np.ones(2), np.zeros(2)]}), "grid.noise.* wanted plain data"),
        (problems(grid={"arms": [3, 5]}), "not both"),
        (problems(grid={"legs": [3, 5]}), "legs"),
        ({"policies": None}, "config: policies"),
        (policies(policy="ucbb"), "config: policies.UCB1.policy: got 'ucbb'.*did you mean"),
        (policies(policy="ucb1", nose=1), "config: policies.UCB1: got 'nose'"),
        (policies(policy="ucb1", grid={"nose": [1]}), "config: policies.UCB1: got 'nose'"),
        (policies(policy="ucb1", scale=-1.0), "config: policies.UCB1.scale: got -1"),
        (policies(policy="ucb1", grid={"scale": [1.0, -1.0]}), "policies.UCB1.scale: got -1"),
        (policies(policy="ucb1", scale=object()), "plain data"),
        (policies(policy=InTurn, start="x"), "TypeError"),
        ({"policies": {"UCB1": 3}}, "config: policies.UCB1"),
        ({"problems": {"a": PROBLEM, "b": PROBLEM}}, "problems.b: got 'the same as problems.a'"),
    ],
)
def test_a_mistake_is_named_and_nothing_is_played(tmp_path, changes, expected):
    with pytest.raises(rolf.RolfError, match=expected):
        run(changed(**changes), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_all_mistakes_are_reported_at_once(tmp_path):
    config = changed(runs=0, **problems(noise=-1.0), **policies(policy="ucbb"))
    with pytest.raises(rolf.RolfError) as caught:
        run(config, tmp_path)
    text = str(caught.value)
    assert "3 problems" in text
    for part in ("runs", "problems.paper.noise", "policies.UCB1.policy"):
        assert part in text


def test_invalid_configurations():
    with pytest.raises(rolf.RolfError, match="config"):
        rolf.sweep(3, "out")
    with pytest.raises(rolf.RolfError, match="cannot be read"):
        rolf.sweep("nowhere.toml", "out")


def test_a_list_outside_a_grid_is_one_value(tmp_path):
    spelled = {"family": "problem", "features": [[1.0], [2.0]], "means": [0.1, 0.2]}
    two = {**spelled, "grid": {"means": [[0.3, 0.2], [0.2, 0.1]]}}
    del two["means"]
    sweep, _ = run(changed(problems={"one": spelled, "two": two}), tmp_path)
    assert [cell.on for cell in sweep.select(policy="LinUCB")] == [
        "one",
        "two, means=[0.3, 0.2]",
        "two, means=[0.2, 0.1]",
    ]


# --- keeping ---


def test_finished_runs_are_not_played_again(tmp_path):
    _, played = run(CONFIG, tmp_path)
    assert len(played) == 6
    before = files(tmp_path)
    times = {path: path.stat().st_mtime_ns for path in before}
    _, played = run(CONFIG, tmp_path)
    assert played == []
    assert times == {path: path.stat().st_mtime_ns for path in files(tmp_path)}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"title": "other"}, 0),
        ({"rounds": 80}, 6),
        ({"problems": {"other": CONFIG["problems"]["paper"]}}, 0),
        ({"runs": 2}, 0),
        ({"runs": 5}, 6),
        ({"seeds": [0, 1]}, 6),
        ({"points": [20, 40]}, 6),
        (problems(grid={"noise": [0.1, 0.2, 0.5]}), 3),
        ({"policies": {**CONFIG["policies"], "another": CONFIG["policies"]["LinUCB"]}}, 2),
        ({"policies": {"UCB1": {"policy": "ucb1", "grid": {"scale": [1.0, 2.0]}}}}, 2),
    ],
)
def test_after_a_change_only_what_changed_is_played(tmp_path, changes, expected):
    run(CONFIG, tmp_path)
    before = files(tmp_path)
    _, played = run(changed(**changes), tmp_path)
    assert len(played) == expected
    after = files(tmp_path)
    assert {path: after[path] for path in before} == before
    assert run(CONFIG, tmp_path)[1] == []


def test_more_runs_are_added_to_the_existing_ones(tmp_path):
    run(CONFIG, tmp_path / "grown")
    grown, _ = run(changed(runs=8), tmp_path / "grown")
    direct, _ = run(changed(runs=8), tmp_path / "direct")
    assert len(files(tmp_path / "grown")) == 2 * len(files(tmp_path / "direct"))
    for cell in grown.cells:
        assert (grown.regret(cell) == direct.regret(cell)).all()
    assert str(grown.summary()) == str(direct.summary())
    assert grown.table().to_pandas().equals(direct.table().to_pandas())


def truncate(path):
    path.write_bytes(path.read_bytes()[:-30])


def flip(path):
    content = bytearray(path.read_bytes())
    content[60] ^= 8
    path.write_bytes(content)


def swap(path):
    other = next(each for each in path.parent.parent.rglob("*.parquet") if each != path)
    shutil.copy(other, path)


@pytest.mark.parametrize(
    "damage", [truncate, flip, swap, lambda path: path.write_bytes(b""), Path.unlink]
)
def test_damaged_files_are_played_again(tmp_path, damage):
    run(CONFIG, tmp_path)
    before = files(tmp_path)
    victim = sorted(before)[2]
    damage(victim)
    if victim.exists():
        sweep = rolf.load_sweep(tmp_path)
        with pytest.raises(rolf.RolfError, match=f"{victim.name}.*is damaged.*plays these runs"):
            sweep.summary()
    _, played = run(CONFIG, tmp_path)
    assert len(played) == 1
    assert files(tmp_path) == before


def test_every_damaged_byte_is_noticed(tmp_path):
    """Damage in the footer can crash a process that reads the file with PyArrow."""
    store, block = SweepStore(tmp_path), Block(0, 0, 3)
    store.write("cell", block, np.ones((3, 2)))
    (path,) = files(tmp_path)
    content = path.read_bytes()
    assert pandas.read_parquet(path)["run"].tolist() == [0, 1, 2]
    for place in range(len(content)):
        damaged = bytearray(content)
        damaged[place] ^= 1 << place % 8
        path.write_bytes(damaged)
        with pytest.raises(rolf.RolfError, match="is damaged"):
            store.read("cell", block, 2)


def test_runs_held_by_several_files_are_not_missing(tmp_path):
    plan, _, missing = plan_sweep(changed(runs=40), tmp_path)
    store, regret = SweepStore(tmp_path), np.zeros((30, 2))
    for first, runs in ((0, 30), (5, 10), (33, 2)):
        store.write(plan.cells[0].key, Block(0, first, runs), regret[:runs])
    gaps = [block for index, block in store.gaps(plan) if index == 0]
    assert [(gap.first, gap.runs) for gap in gaps] == [(30, 3), (35, 5)]
    assert len(missing) == len(plan.cells)


def test_leftovers_of_killed_processes_are_deleted(tmp_path):
    run(CONFIG, tmp_path)
    folder = next(tmp_path.rglob("*.parquet")).parent
    old, new = folder / f"x{PART}", folder / f"y{PART}"
    for path in (old, new):
        path.write_bytes(b"half a file")
    os.utime(old, (0, os.path.getmtime(new) - STALE - 1))
    run(CONFIG, tmp_path)
    assert not old.exists()
    assert new.exists()  # another sweep may be writing it
    assert run(CONFIG, tmp_path)[1] == []


def test_two_sweeps_at_the_same_time_do_no_harm(tmp_path):
    configs = [changed(runs=20), changed(runs=30)]
    in_threads(lambda config: run(config, tmp_path / "both"), *configs, *configs)
    both, played = run(configs[1], tmp_path / "both")
    alone, _ = run(configs[1], tmp_path / "alone")
    assert played == []
    assert str(both.summary()) == str(alone.summary())


FULL = """
import resource, signal, sys
import rolf
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
sys.path.insert(0, sys.argv[2])
from sweeps.test_run import changed, run
try:
    run(changed(runs=100), sys.argv[1])
except rolf.RolfError as error:
    print(error)
"""


def test_a_full_disk_is_a_clear_error(tmp_path):
    words = [sys.executable, "-c", FULL, str(tmp_path), str(Path(__file__).parents[1])]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert "cannot be written (File too large)" in done.stdout
    assert "resumes from there" in done.stdout
    assert not list(tmp_path.rglob("*.parquet"))
    assert not list(tmp_path.rglob(f"*{PART}"))


def test_an_unwritable_folder(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(rolf.RolfError, match=r"out: got .*file/x.* a writable folder"):
        run(CONFIG, tmp_path / "file" / "x")


class Breaks(InTurn):
    def ask(self):
        if super().ask() == 3:
            raise ZeroDivisionError("by accident")
        return 0


@pytest.mark.parametrize("backend", ["threads", "local"])
def test_an_error_in_a_policy_names_cell_and_run(tmp_path, backend):
    config = changed(seeds=[7], policies={"mine": {"policy": Breaks, "grid": {"start": [2, 1]}}})
    config["problems"] = {"paper": {**PROBLEM, "grid": {"noise": [0.5]}}}
    wanted = r"mine, start=. on paper, noise=0.5 \(seed 7, run 0\) failed: ZeroDivisionError: by"
    with pytest.raises(rolf.RolfError, match=wanted + r" accident \(test_run.py:\d+\)") as caught:
        run(config, tmp_path, backend=backend, jobs=1)
    assert "by accident" in str(caught.value.__cause__)
