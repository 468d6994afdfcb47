"""What pages, docstrings and comments name exists: modules and names of rolf, files, and tests."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rolf
from support.sources import PACKAGE, ROOT

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
SOURCES = sorted(
    path
    for folder in ("src", "tests", "benchmarks", "docs/scripts", "examples")
    for path in (ROOT / folder).rglob("*.py")
)
#: names in the text, from the package on
DOTTED = re.compile(r"(?<![\w./@\"-])rolf(?:\.[A-Za-z_]\w*)+(?![\w/-]|\.\w)")
#: methods and fields, in code
MEMBER = re.compile(r"`([A-Za-z]+)\.([a-z]\w*)[`(\[.]")
FILE = re.compile(
    r"(?<![\w/.{-])((?:src|tests|docs|benchmarks|examples|deploy|rolf)/[\w./-]*\w|\.ci/run)(?![\w*{])"
)
#: what stands for an object of a class
OBJECTS = {
    "policy": "Policy",
    "experiment": "Experiment",
    "status": "Status",
    "decision": "Decision",
    "log": "Log",
}
#: what looks like a name of rolf, and is none
ALLOWED = {
    "rolf.storage": "a group of entry points",
    "rolf.db": "a file",
    "rolf.EpsilonGreedy": "the example of CONTRIBUTING",
    "src/rolf/policies/egreedy.py": "the example of CONTRIBUTING",
}


def texts(path: Path) -> Iterator[str]:
    """What people read: a page, or the docstrings and comments of a source."""
    source = path.read_text()
    if path.suffix == ".md":
        yield source
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node, clean=False) or ""
    yield "\n".join(re.findall(r"(?:^|\s)#.*$", source, re.MULTILINE))


@functools.cache
def resolves(name: str) -> bool:
    """Whether a dotted name leads to a module, or to something in one."""
    parts = name.split(".")
    for size in range(len(parts), 0, -1):
        try:
            thing: Any = importlib.import_module(".".join(parts[:size]))
        except ModuleNotFoundError:
            continue
        return all((thing := member(thing, part)) is not None for part in parts[size:])
    return False


def member(thing: Any, name: str) -> Any:
    """An attribute of a module or class, or the annotation of a field; None if there is none."""
    found = inspect.getattr_static(thing, name, None)
    if found is None and inspect.ismodule(thing):
        found = getattr(thing, name, None)
    if found is None and isinstance(thing, type):
        for cls in thing.__mro__:
            found = found or inspect.get_annotations(cls).get(name)
        if found is None and re.search(rf"self\.{name}\b[^=\n]*=[^=]", source_of(thing)):
            found = "set in a method"
    return found


def source_of(cls: type) -> str:
    return "".join(
        inspect.getsource(each) for each in cls.__mro__ if each.__module__.startswith("rolf")
    )


def exists(file: str) -> bool:
    place = ROOT / ("src/" + file if file.startswith("rolf/") else file)
    return place.exists() or place.with_suffix(".py").exists()


def missing(path: Path) -> list[str]:
    """What a file names that does not exist."""
    found = []
    for text in texts(path):
        found += [name for name in DOTTED.findall(text) if not resolves(name)]
        found += [file for file in FILE.findall(text) if not exists(file)]
        for owner, name in MEMBER.findall(text):
            cls = getattr(rolf, OBJECTS.get(owner, owner), None)
            if isinstance(cls, type) and member(cls, name) is None:
                found.append(f"{owner}.{name}")
        found += sorted(set(re.findall(r"`(test_\w+)`", text)) - all_tests())
    return [name for name in found if name not in ALLOWED]


@functools.cache
def all_tests() -> set[str]:
    """The names of all tests."""
    files = [*(ROOT / "tests").rglob("*.py"), *(PACKAGE / "testing").rglob("*.py")]
    return {name for path in files for name in re.findall(r"def (test_\w+)", path.read_text())}


def shown(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", PAGES, ids=shown)
def test_what_a_page_names_exists(path):
    assert missing(path) == []


def test_what_docstrings_and_comments_name_exists():
    found = {shown(path): missing(path) for path in SOURCES}
    assert {path: names for path, names in found.items() if names} == {}


@pytest.mark.parametrize(
    ("name", "there"),
    [
        ("rolf.simulate", True),
        ("rolf.Policy.ask", True),
        ("rolf.Decision.probability", True),
        ("rolf.errors.InvalidArgument.argument", True),
        ("rolf.kernel.dispatch", True),
        ("rolf.nothing", False),
        ("rolf.Policy.nothing", False),
        ("rolf.kernel.nothing.more", False),
    ],
)
def test_names_are_resolved(name, there):
    assert resolves(name) == there


def test_what_is_missing_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "Call `rolf.simulates`, `Policy.asks(3)`, `policy.told` or `policy.ask()`; `test_nothing`\n"
        "in `tests/test_nothing.py` and `rolf/kernel/dispatch.py` check it.\n\n::: rolf.Decisions\n"
    )
    assert missing(page) == [
        "rolf.simulates",
        "rolf.Decisions",
        "tests/test_nothing.py",
        "Policy.asks",
        "policy.told",
        "test_nothing",
    ]
