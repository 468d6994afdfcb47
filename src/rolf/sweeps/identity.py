"""A hash of everything a result depends on: the content of a cell, and the code that plays it.

The code is rolf's own, the versions of its dependencies, and the files behind a user's policies and
families: their module, and what that module imports from its own folder or package.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import inspect
import json
import operator
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from rolf.errors import InvalidArgument
from rolf.kernel.folders import hash_sources, outside
from rolf.parallel import sources
from rolf.parallel.sources import INSTALLED
from rolf.simulation.result import versions

#: the parts of this package that can change results
PARTS = (
    *("types.py", "kernel", "linalg.py", "theory.py", "augment.py", "checks.py", "arms"),
    *("estimators", "policies", "environments", "simulation", "sweeps/task.py"),
)


def plain(where: str, value: Any) -> Any:
    """A value as it comes back from JSON."""
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError, RecursionError) as error:
        expected = f"plain data: numbers, text, lists and tables ({error})"
        raise InvalidArgument(where, value, expected) from None


def alike(build: Any, value: Any) -> Any:
    """Plain data with 1.0 written as 1, for rolf's own classes, which treat them alike."""
    if outside(build.__module__):
        return value
    if isinstance(value, dict):
        return {name: alike(build, each) for name, each in value.items()}
    if isinstance(value, list):
        return [alike(build, each) for each in value]
    exact = isinstance(value, float) and value.is_integer() and abs(value) < 2**53
    return int(value) if exact else value


def cell_key(content: dict[str, Any], builders: list[tuple[str, Any]]) -> str:
    """The key of a cell: a hash of its content and its code.

    Args:
        content: the cell as plain data.
        builders: the classes or functions that build its problem and its policy, each with its
            name for error messages.
    """
    modules = [hash_code(where, build) for where, build in builders]
    used = {"cell": content, "modules": modules, **_software()}
    text = json.dumps(used, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


@functools.cache
def _software() -> dict[str, Any]:
    return {"sources": hash_sources(PARTS), "versions": versions()}


def hash_code(where: str, build: Any) -> str:
    """A hash of the files behind a class or function; empty for rolf's own."""
    module = inspect.getmodule(build)
    name = getattr(build, "__module__", None) or type(build).__module__
    if not outside(name):
        return ""
    file = getattr(module, "__file__", None)
    if module is None or file is None:
        expected = "a class or function defined in a file: results are stored by its source"
        raise InvalidArgument(where, build, expected)
    home = _home(module)
    files = _files(module, home)
    for path in sources.changed().values():
        if path.resolve() in files:
            _refuse(where, build, f"{path.name} has changed since it was imported")
    if _superseded(build, module):
        _refuse(where, build, f"{name} has been reloaded since this was imported")
    digest = hashlib.sha256()
    for path in sorted(files):
        digest.update(path.relative_to(home).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _refuse(where: str, got: Any, reason: str) -> None:
    expected = f"the code now in its file ({reason}; reload it, or restart Python)"
    raise InvalidArgument(where, got, expected)


def _superseded(build: Any, module: ModuleType) -> bool:
    """Whether the module has been reloaded and now has another object under this name."""
    path = getattr(build, "__qualname__", "")
    try:
        found: Any = operator.attrgetter(path)(module)
    except AttributeError:
        return False
    named = (getattr(found, "__module__", None), getattr(found, "__qualname__", None))
    return found is not build and named == (module.__name__, path)


def _home(module: ModuleType) -> Path:
    """The folder of a module's package, or of a single-file module; for an installed single-file
    module, the file itself."""
    top = sys.modules.get(module.__name__.partition(".")[0], module)
    file = Path(str(top.__file__ or module.__file__)).resolve()
    return file if file.parent.name in INSTALLED else file.parent


def _files(module: ModuleType, home: Path) -> set[Path]:
    """The files of a module and of everything it imports from its home, directly or indirectly:
    what its source imports anywhere, and the modules that define its attributes."""
    files: set[Path] = set()
    file = getattr(module, "__file__", None)
    waiting = [(module.__name__, Path(file).resolve())] if file else []
    while waiting:
        name, path = waiting.pop()
        if path in files or path.suffix != ".py" or not _inside(path, home):
            continue
        files.add(path)
        waiting += _imports(name, path)
        loaded = sys.modules.get(name)
        for value in list(vars(loaded).values()) if loaded else ():
            used = value if isinstance(value, ModuleType) else _module_of(value)
            file = getattr(used, "__file__", None)
            if used is not None and file:
                waiting.append((used.__name__, Path(file).resolve()))
    return files


def _imports(name: str, path: Path) -> Iterator[tuple[str, Path]]:
    """The modules a source file imports, at the top or later, with the files they would come from
    if they are beside it or in its package."""
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    root = path.parents[min(len(package), len(path.parents) - 1)]
    try:
        nodes = list(ast.walk(ast.parse(path.read_bytes())))
    except (SyntaxError, ValueError):  # it was never imported
        nodes = []
    for node in (None, *nodes):
        names = []
        if node is None:
            names = [name]  # importing it imports its packages too
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) + 1 - node.level] if node.level else []
            base = [*start, *(node.module or "").split(".")] if node.module else start
            names = [".".join([*base, alias.name]) for alias in node.names]
        for parts in (each.split(".") for each in names):
            for stop in range(1, len(parts) + 1):
                target = root.joinpath(*parts[:stop])
                for file in (target.with_name(f"{target.name}.py"), target / "__init__.py"):
                    if file.is_file():
                        yield ".".join(parts[:stop]), file.resolve()


def _inside(path: Path, home: Path) -> bool:
    """Whether a file is in a folder, but not in a virtual environment inside it."""
    return path.is_relative_to(home) and not INSTALLED & {*path.relative_to(home).parts}


def _module_of(value: Any) -> ModuleType | None:
    name = getattr(value, "__module__", None)
    return sys.modules.get(name) if isinstance(name, str) else None
