"""The sources of the library as syntax trees, for the tests that read them."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "rolf"


@functools.cache
def trees() -> dict[str, ast.Module]:
    """Every module by its path in the package."""
    return {
        path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text())
        for path in sorted(PACKAGE.rglob("*.py"))
    }


def room(path: str) -> str:
    """The folder of a module right below the package, or the module itself."""
    return path.partition("/")[0]


def words(name: str) -> list[str]:
    """The words of a name, in lower case: those of ``RewardTotals`` are reward and totals."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


def defined_names(tree: ast.Module) -> Iterator[str]:
    """Names that a module gives to classes, functions, arguments, attributes and constants."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield node.name
            yield from assigned(node.body)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
            arguments = node.args
            every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
            every += [each for each in (arguments.vararg, arguments.kwarg) if each]
            yield from (each.arg for each in every)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
    yield from assigned(tree.body)


def assigned(body: list[ast.stmt]) -> Iterator[str]:
    """Names that the statements of a module or class assign."""
    for statement in body:
        if isinstance(statement, ast.Assign | ast.AnnAssign):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            for target in targets:
                yield from (each.id for each in ast.walk(target) if isinstance(each, ast.Name))
