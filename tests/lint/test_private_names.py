"""Private names of other objects and modules are not touched: a name with an underscore is used by
the class or module that has it, and by nothing else."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from support.sources import room, trees

#: what NamedTuples offer
PUBLIC = {"_replace", "_fields", "_field_defaults", "_asdict", "_make"}
#: private names of other libraries, which offer no other way
ALLOWED = {
    "os._exit": "ends a process without running what belongs to its parent",
    "dispatcher._cache": "where Numba keeps compiled code",
    "CompileResult._rebuild": "Numba's, for the same",
    "result._reduce": "Numba's, for the same",
    "environment._rebuild_env": "Numba's, for the same",
    "environment.Environment._memo": "Numba's, for the same",
}
#: the one file that leans on Numba's internals, and says so
NUMBA = "kernel/compiler.py"


def private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name != "_"


def own_names(body: ast.AST) -> set[str]:
    """Private names that a class or module defines: methods, fields, and attributes of ``self``."""
    found = set()
    for node in ast.walk(body):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif (
            isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Store)
            and isinstance(node.value, ast.Name)
            and node.value.id in ("self", "cls")
        ):
            found.add(node.attr)
    return {name for name in found if private(name)}


def foreign_names(tree: ast.Module) -> Iterator[str]:
    """Private names of others that a module uses."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{each.name}" for each in node.names if private(each.name))
    yield from _foreign(tree, frozenset())


def _foreign(node: ast.AST, own: frozenset[str]) -> Iterator[str]:
    if isinstance(node, ast.ClassDef):
        own = own | own_names(node)
    if isinstance(node, ast.Attribute) and private(node.attr) and node.attr not in PUBLIC:
        of_self = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
        of_super = isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "super"
        text = ast.unparse(node)
        if not (of_self or of_super or node.attr in own or text in ALLOWED):
            yield text
    if isinstance(node, ast.Call) and ast.unparse(node.func) in ("getattr", "setattr", "hasattr"):
        owner, name = ast.unparse(node.args[0]), getattr(node.args[1], "value", None)
        if isinstance(name, str) and private(name) and owner != "self" and name not in PUBLIC:
            yield f"{owner}.{name}"
    for child in ast.iter_child_nodes(node):
        yield from _foreign(child, own)


@pytest.mark.parametrize("place", sorted({room(path) for path in trees()}))
def test_no_private_name_of_another(place):
    found = [
        f"{path}: {name}"
        for path, tree in trees().items()
        if room(path) == place and path != NUMBA
        for name in foreign_names(tree)
    ]
    assert not found, "\n".join(found)


def test_foreign_names_are_found():
    source = """
from a import _one
class A:
    def f(self, other, thing):
        self._two = other._two
        return thing._three, thing.field._replace(x=1), getattr(thing, "_four")
"""
    found = ["a._one", "thing._three", "thing._four"]
    assert list(foreign_names(ast.parse(source))) == found
