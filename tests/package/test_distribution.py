"""The wheel and the source distribution: built, installed in an empty environment, and tried."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
#: of an install for serving, in megabytes, without pip
LARGEST = 350

TRIED = """
import sys
import rolf
with rolf.open_experiment("sqlite:///e.db", "e", features=[[0.0], [1.0], [2.0]]) as experiment:
    for reward in (0.1, 0.7, 0.3, 0.9):
        experiment.tell(experiment.ask(), reward)
    assert experiment.status().told == 4
for name, call in {
    "matplotlib": lambda: rolf.plots.style.new_figure(1, 1),
    "pyarrow": lambda: rolf.read_arms("arms.parquet"),
    "scipy": lambda: rolf.replay("log.csv", "arms.csv", ["ucb"]),
}.items():
    assert name not in sys.modules
    try:
        import rolf.plots.style
        call()
    except rolf.RolfError as error:
        print(error)
"""


def run(*words, **options):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A wheel, made from the source distribution as pip would, and the distribution itself."""
    folder = tmp_path_factory.mktemp("dist")
    code = "import sys, hatchling.build as b; print(b.build_sdist(sys.argv[1]))"
    builder = tmp_path_factory.mktemp("builder") / "venv"
    venv.create(builder, with_pip=True)
    requirement = re.search(
        r'requires = \["(hatchling[^"]*)"\]', (ROOT / "pyproject.toml").read_text()
    )
    run(builder / "bin" / "pip", "install", "-q", requirement[1])
    run(builder / "bin" / "python", "-c", code, folder, cwd=ROOT)
    (source,) = folder.glob("*.tar.gz")
    run(builder / "bin" / "pip", "wheel", "-q", "--no-deps", "-w", folder, source)
    (wheel,) = folder.glob("*.whl")
    return source, wheel


def test_what_is_in_the_files(built):
    source, wheel = built
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"examples/paper.toml", "examples/quickstart.ipynb", "LICENSE", "CHANGELOG.md"} <= names
    modules = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src").rglob("*.py")}
    page = ROOT / "src" / "rolf" / "service" / "page"
    modules |= {str(path.relative_to(ROOT / "src")) for path in page.rglob("*.*")}
    assert "rolf/service/page/vendor/chart.umd.min.js" in modules
    assert {f"src/{name}" for name in modules} <= names
    with zipfile.ZipFile(wheel) as archive:
        packed = set(archive.namelist())
    assert modules <= packed
    assert "rolf/py.typed" in packed
    assert [name for name in packed if "dist-info/licenses" in name and "chart.js" in name]
    assert not [name for name in packed if not name.startswith(("rolf/", "rolf_bandits-"))]


def test_an_empty_environment(built, tmp_path):
    """What a server needs and no more: it asks and tells, stays small, and says what is missing."""
    venv.create(tmp_path / "venv", with_pip=True)
    bin = tmp_path / "venv" / "bin"
    before = size(tmp_path / "venv")
    run(bin / "pip", "install", "-q", "-c", ROOT / "constraints.txt", built[1])
    assert (size(tmp_path / "venv") - before) / 1e6 < LARGEST
    environment = {key: os.environ[key] for key in os.environ if not key.startswith("PYTHON")}
    environment["ROLF_CACHE_DIR"] = str(tmp_path / "cache")
    told = run(bin / "python", "-c", TRIED, cwd=tmp_path, env=environment).splitlines()
    assert told == [
        "drawing a picture needs matplotlib, which is not installed: "
        "pip install 'rolf-bandits[plots]'",
        "reading a table from a file needs pyarrow, which is not installed: "
        "pip install 'rolf-bandits[files]'",
        "replay needs scipy, which is not installed: pip install 'rolf-bandits[analysis]'",
    ]
    shown = run(bin / "rolf", "ask", "sqlite:///e.db", "e", cwd=tmp_path, env=environment)
    assert "probability" in shown
    assert "rolf-bayes" in run(bin / "rolf", "policies", cwd=tmp_path, env=environment)
    version = run(bin / "rolf", "--version", cwd=tmp_path, env=environment)
    assert built[1].name.startswith(f"rolf_bandits-{version.split()[1]}-")


def size(folder):
    return sum(path.lstat().st_size for path in folder.rglob("*"))


def test_every_declared_python_is_one_that_pip_would_take():
    text = (ROOT / "pyproject.toml").read_text()
    declared = re.findall(r"Python :: 3\.(\d+)", text)
    assert declared == ["11", "12", "13", "14"]
    assert f"{sys.version_info[0]}.{sys.version_info[1]}" in [f"3.{each}" for each in declared]
