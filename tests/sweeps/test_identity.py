"""Sweeps and simulations play the code now in the user's files, or refuse to play."""

from __future__ import annotations

import importlib
import os
import sys

import numpy as np
import pytest

import rolf
from rolf.parallel import completed, sources
from rolf.simulation.result import versions
from rolf.sweeps.identity import hash_code
from rolf.sweeps.run import plan_sweep
from sweeps.test_run import InTurn, changed, run

PROBLEM = {"family": "problem", "features": [[1.0], [2.0], [3.0]], "means": [0.0, 0.5, 1.0]}
CLASS = """
class Fixed:
    def __init__(self, features):
        pass

    def ask(self):
        return {arm}

    def tell(self, decision, reward):
        pass
"""
#: where the arm of a policy comes from
DIRECTLY = "ARM = {arm}\n" + CLASS.format(arm="ARM")
FROM_ELSEWHERE = "import settings\n" + CLASS.format(arm="settings.ARM")
BY_VALUE = "from settings import ARM\n" + CLASS.format(arm="ARM")
LAZILY = CLASS.format(arm="__import__('settings').ARM").replace(
    "        return __import__('settings')",
    "        if True:\n            import settings\n        return settings",
)
CLUSTERS = [pytest.param(name, marks=pytest.mark.slow) for name in ("dask", "ray")]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of modules, imported as in a new process."""
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    forget()
    rolf.parallel.shutdown()


def forget():
    """Forget imported modules, as if Python had been restarted."""
    for name in list(sys.modules):
        if name.partition(".")[0] in ("fixed", "settings", "unused"):
            del sys.modules[name]
    importlib.invalidate_caches()


def write(folder, arm, code=DIRECTLY):
    """A policy that always plays this arm; its regret is 1 - arm / 2 in each round."""
    path = folder / "fixed.py"
    path.write_text(code.format(arm=arm))
    (folder / "settings.py").write_text(f"ARM = {arm}\n")
    for each in (path, folder / "settings.py"):  # Python compares source times by the second
        os.utime(each, (1e9 + arm, 1e9 + arm))


def sweep(folder, policy="fixed:Fixed", **options):
    config = changed(problems={"p": PROBLEM}, policies={"fixed": policy})
    found, played = run(config, folder / "out", **options)
    (row,) = found.summary()
    return row["mean"] / 40, len(played)


@pytest.mark.parametrize("code", [DIRECTLY, FROM_ELSEWHERE, BY_VALUE, LAZILY])
@pytest.mark.parametrize("backend", ["local", *CLUSTERS])
def test_running_workers_play_the_current_code(folder, backend, code):
    for arm, regret in ((0, 1.0), (2, 0.0), (1, 0.5)):
        write(folder, arm, code)
        forget()
        assert sweep(folder, backend=backend, jobs=2) == (regret, 1)


def test_a_simulation_plays_a_reloaded_module(folder):
    problem = rolf.environments.Problem(PROBLEM["features"], PROBLEM["means"])
    write(folder, 0)
    fixed = importlib.import_module("fixed")
    for arm in (0, 2):
        write(folder, arm)
        importlib.reload(fixed)
        played = rolf.simulate({"f": fixed.Fixed}, problem, rounds=10, runs=4, seed=0, jobs=2)
        assert (played.regret[0, :, -1] == 10 * (1 - arm / 2)).all()


def test_code_that_was_edited_but_not_reloaded_is_refused(folder):
    problem = rolf.environments.Problem(PROBLEM["features"], PROBLEM["means"])
    write(folder, 0)
    assert sweep(folder) == (1.0, 1)
    write(folder, 2)
    with pytest.raises(rolf.RolfError, match=r"fixed.py has changed since .*reload it, or restart"):
        sweep(folder)
    old = sys.modules["fixed"].Fixed
    with pytest.raises(rolf.RolfError, match=r"another version of the module fixed.*reload it"):
        rolf.simulate({"f": old}, problem, rounds=10, runs=4, seed=0, jobs=2)
    importlib.reload(sys.modules["fixed"])
    with pytest.raises(rolf.RolfError, match="has been reloaded since"):
        sweep(folder, old)
    assert sweep(folder) == (0.0, 1)


def test_code_that_was_edited_before_it_was_first_used_is_refused(folder, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    write(folder, 0)
    fixed = importlib.import_module("fixed")
    write(folder, 2)
    with pytest.raises(rolf.RolfError, match="has changed since"):
        sweep(folder, fixed.Fixed)


def test_a_worker_with_another_rolf_is_refused(monkeypatch):
    assert dict(completed(abs, [-1], jobs=2)) == {0: 1}
    monkeypatch.setattr("rolf.parallel.executors.SOURCE", "another")
    with pytest.raises(rolf.RolfError, match="another version of rolf"):
        list(completed(abs, [-1], jobs=2))


def test_a_worker_with_another_numpy_is_refused(tmp_path, monkeypatch):
    others = {**versions(), "numpy": "0.1"}
    monkeypatch.setattr("rolf.sweeps.run.versions", lambda: others)
    with pytest.raises(rolf.RolfError, match=f"versions differ.*: numpy {np.__version__}, not 0.1"):
        sweep(tmp_path, "ucb1")


def test_modules_of_the_caller_are_left_alone(folder):
    """With one job, the calling process does the work itself."""
    write(folder, 0)
    fixed = importlib.import_module("fixed")
    before = list(sys.path), sys.modules["sweeps.test_run"]
    assert dict(completed(abs, [-1], jobs=1)) == {0: 1}
    write(folder, 2)
    assert dict(completed(abs, [-1], jobs=1)) == {0: 1}
    assert sys.modules["fixed"] is fixed
    assert (sys.path, sys.modules["sweeps.test_run"]) == before


def test_modules_of_installed_packages_are_not_the_users(folder):
    write(folder, 0)
    importlib.import_module("fixed")
    names = sources.imported().keys()
    assert "fixed" in names
    assert not {"rolf", "rolf.errors", "numpy", "json", "__main__"} & names


# --- results are stored by the source that produced them ---


@pytest.mark.parametrize("code", [FROM_ELSEWHERE, BY_VALUE, LAZILY])
def test_only_edits_of_used_code_matter(folder, code):
    write(folder, 0, code)
    (folder / "unused.py").write_text("")
    played = []
    for name in ("fixed.py", "unused.py", "settings.py", "fixed.py"):
        with (folder / name).open("a") as file:
            file.write("\n# edited\n")
        forget()
        played.append(sweep(folder)[1])
    assert hash_code("", rolf.UCB1) == ""
    assert hash_code("", importlib.import_module("fixed").Fixed) != ""
    assert played == [1, 0, 1, 1]


def test_imports_within_a_package_count(folder):
    package = folder / "fixed"
    (package / "deep").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "numbers.py").write_text("ARM = 0\n")
    (package / "other.py").write_text("")
    (package / "deep" / "__init__.py").write_text("from ..numbers import ARM\n")
    (package / "broken.py").write_text("def\n")
    lazy = "from .deep import ARM; return ARM\n        from . import broken"
    (package / "policy.py").write_text(CLASS.format(arm="ARM").replace("return ARM", lazy))
    hashes = []
    for name in ("policy.py", "other.py", "deep/__init__.py", "numbers.py", "__init__.py"):
        with (package / name).open("a") as file:
            file.write("\n# edited\n")
        forget()
        hashes.append(hash_code("", importlib.import_module("fixed.policy").Fixed))
    assert hashes[0] == hashes[1]
    assert len(set(hashes)) == 4


def test_code_without_a_file_is_refused(tmp_path):
    space = {"__name__": "nowhere", "np": np}
    code = "class Policy:\n    def ask(self): return 0\n    def tell(self, *a): pass\n"
    exec(code + "    def __init__(self, features): pass\n", space)
    with pytest.raises(rolf.RolfError, match="defined in a file"):
        run(changed(policies={"mine": space["Policy"]}), tmp_path)


def test_whole_numbers_are_the_same_with_and_without_a_point(tmp_path):
    def keys(number, policy):
        of_problem = {"p": {**PROBLEM, "noise": number, "features": [[number], [2], [3.0]]}}
        config = changed(problems=of_problem, policies={"a": policy})
        return [cell.key for cell in plan_sweep(config, tmp_path).plan.cells]

    assert keys(1, ("ucb1", {"scale": 2})) == keys(1.0, ("ucb1", {"scale": 2.0}))
    assert keys(1, ("ucb1", {"scale": 2})) != keys(1, ("ucb1", {"scale": 2.5}))
    assert keys(1, (InTurn, {"start": 2})) != keys(1, (InTurn, {"start": 2.0}))  # it may tell
