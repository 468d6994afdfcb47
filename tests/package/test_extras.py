"""What each extra of the package promises, with nothing installed but what it brings."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import PackageNotFoundError, packages_distributions, requires

import httpx
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import rolf
from rolf.testing.service import COMMAND, RunningService

#: makes imports fail of modules that are not installed
BLOCK = """
import sys
class Block:
    hidden = frozenset({hidden!r})
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.hidden:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Block())
"""
FEATURES = [[0.0, 1.0], [1.0, 0.5], [0.3, 0.2]]


def installed(*extras):
    """The distributions that an install of rolf with these extras brings."""
    seen, waiting = set(), [("rolf-bandits", extra) for extra in ("", *extras)]
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        try:
            lines = requires(name) or []
        except PackageNotFoundError:  # for another system
            continue
        for each in map(Requirement, lines):
            if each.marker is None or each.marker.evaluate({"extra": extra}):
                other = canonicalize_name(each.name)
                waiting += [(other, more) for more in ("", *each.extras)]
    return {name for name, _ in seen}


@pytest.fixture
def only(tmp_path, monkeypatch):
    """Lets Python processes that are started from now on find what some extras bring, and no
    more."""

    def hide(*extras):
        kept = installed(*extras)
        hidden = [
            module
            for module, names in packages_distributions().items()
            if not kept & {canonicalize_name(name) for name in names}
        ]
        assert "pytest" in hidden
        (tmp_path / "sitecustomize.py").write_text(BLOCK.format(hidden=hidden))
        monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")

    return hide


def python(code, folder, *words):
    command = [sys.executable, "-W", "error", "-c", code, *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def run(code, folder):
    """What a program prints."""
    done = python(code, folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def get(service, path):
    return httpx.get(service.url + path, headers={"Authorization": f"Bearer {service.key}"})


def test_a_plain_install_decides_remembers_and_simulates(only, tmp_path):
    only()
    code = """
import rolf
features = [[0.0, 1.0], [1.0, 0.5], [0.3, 0.2]]
with rolf.open_experiment("sqlite:///x.db", "x", features=features) as experiment:
    for turn in range(5):
        experiment.tell(experiment.ask(), turn % 2)
    experiment.add_arms([[0.5, 0.5]])
    experiment.pending(), experiment.log()
    print(experiment.status())
family = rolf.environments.synthetic(arms=4)
print(rolf.simulate({"u": "ucb", "b": "rolf-bayes"}, family, rounds=20, runs=2, seed=0))
for call in (
    lambda: rolf.open_experiment("sqlite:///x.db", "x").export("x.csv"),
    lambda: rolf.replay("x.csv", features, ["ucb"]),
    lambda: rolf.diagnose([(0, 0.0), (1, 1.0), (2, 0.5)], features),
    lambda: rolf.read_log("x.parquet"),
    lambda: rolf.connect("http://127.0.0.1:1", "key"),
    lambda: rolf.open_experiment("postgresql://127.0.0.1:1/x", "x"),
    lambda: rolf.simulate({"u": "ucb"}, family, rounds=5, runs=2, seed=0, backend="dask"),
):
    try:
        call()
        print("no error")
    except rolf.errors.MissingExtra as error:
        print(error)
"""
    lines = run(code, tmp_path).splitlines()
    assert len([line for line in lines if "pip install 'rolf-bandits[" in line]) == 7, lines


@pytest.mark.parametrize(
    ("extras", "command", "missing"),
    [
        ([], "reproduce", "files"),
        (["files"], "reproduce", "plots"),
        (["files", "plots"], "reproduce", "analysis"),
        ([], "simulate plan.toml", "files"),
        ([], "sweep plan.toml", "files"),
        (["files"], "sweep plan.toml", "analysis"),
        ([], "plot out", "files"),
        ([], "diagnose log.csv arms.csv", "files"),
        (["files"], "diagnose log.csv arms.csv", "analysis"),
        (["files"], "replay log.csv arms.csv --policy ucb", "analysis"),
        ([], "import sqlite:///x.db x log.csv --features arms.csv", "files"),
        ([], "serve", "service"),
    ],
)
def test_a_command_says_which_extra_it_needs(only, tmp_path, extras, command, missing):
    (tmp_path / "arms.csv").write_text("arm,x\na,1\nb,2\nc,4\n")
    (tmp_path / "log.csv").write_text("arm,reward\n" + "a,1\na,0\nb,1\nb,3\nc,2\n")
    only(*extras)
    done = python(COMMAND, tmp_path, *command.split())
    assert done.returncode == 1
    assert done.stderr.startswith("rolf: ")
    assert done.stderr.endswith(f"pip install 'rolf-bandits[{missing}]'\n")


def test_the_service_needs_its_own_extra_only(only, tmp_path):
    only("service")
    with RunningService(f"sqlite:///{tmp_path}/x.db", log=tmp_path / "log") as service:
        with rolf.connect(service.url, service.key) as client:
            experiment = client.create("x", features=FEATURES)
            for turn in range(12):
                experiment.tell(experiment.ask(), turn % 3)
        for path, operations in get(service, "/openapi.json").json()["paths"].items():
            if "get" in operations:
                answer = get(service, path.replace("{name}", "x"))
                assert answer.status_code == 200, (path, answer.text)
    code = f"""
import rolf
with rolf.connect({service.url!r}, {service.key!r}) as client:
    print(client.experiment("x").ask().arm)
"""
    service.start()
    assert run(code, tmp_path).strip() in "012"
    assert service.stop() == 0
