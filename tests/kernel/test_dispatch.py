"""Dispatch and the folder of compiled code."""

from __future__ import annotations

import ast
import os
from typing import NamedTuple

import numpy as np
import pytest

import rolf
from rolf.errors import RolfError
from rolf.kernel import body_of, folders, has_body, implement, implements, kernel, looped
from rolf.kernel.dispatch import modules

pytestmark = pytest.mark.compiled


@looped
def entry(values, place):
    """What stands at a place, also beyond the end."""
    return values[place]


@pytest.mark.skipif(not os.environ.get("NUMBA_BOUNDSCHECK"), reason="for make bounds")
def test_compiled_code_is_checked():
    assert entry(np.ones(3), 2) == 1.0
    with pytest.raises(IndexError, match="out of bounds"):
        entry(np.ones(3), 3)


@kernel
def area(shape):
    """How large a shape is."""
    raise NotImplementedError


class Square(NamedTuple):
    side: float


class Circle(NamedTuple):
    radius: float


def test_an_operation_finds_its_body_by_class():
    implement(Square, {area: lambda shape: shape.side**2})
    assert area(Square(3.0)) == 9.0
    assert has_body(area, Square)
    assert not has_body(area, Circle)
    with pytest.raises(RolfError, match="Circle has no body for area"):
        body_of(area, Circle)

    @implements(area, Circle)
    def circle(shape):
        return 3.0 * shape.radius**2

    assert area(Circle(2.0)) == 12.0
    assert body_of(area, Circle) is circle


def test_every_source_of_compiled_code_names_the_cache():
    """A module whose functions are compiled, left out of SOURCES, would leave stale code."""
    rolf.policy_classes()
    from rolf.simulation import loop  # noqa: F401

    package = os.path.dirname(rolf.__file__)
    for module in [name for name in modules() if name.startswith("rolf.")]:
        path = module.removeprefix("rolf.").replace(".", "/")
        covered = any(
            f"{path}.py" == source or path.startswith(source) for source in folders.SOURCES
        )
        assert covered, f"{module} holds compiled code"
    for source in folders.SOURCES:
        assert os.path.exists(os.path.join(package, source)), source


def test_only_the_latest_folders_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "KEPT", 3)
    ours = [tmp_path / f"{number:020x}" for number in range(6)]
    for age, folder in enumerate(ours):
        folder.mkdir()
        (folder / "x.code").touch()
        os.utime(folder, (1000 + age, 1000 + age))
    foreign = [tmp_path / "notes", tmp_path / f"{99:020x}"]  # no name of ours; nothing compiled
    for folder in foreign:
        folder.mkdir()
        os.utime(folder, (1, 1))
    folders.evict(tmp_path, keep=ours[0])  # used now, so it is the latest
    assert [folder.exists() for folder in ours] == [True, False, False, False, True, True]
    assert all(folder.exists() for folder in foreign)


def loops_that_add_and_write(source):
    """Lines of innermost loops that add up numbers and write to arrays, or add up in an array."""
    for loop in (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.For)):
        inside = [node for part in loop.body for node in ast.walk(part)]
        if any(isinstance(node, ast.For) for node in inside):
            continue
        changed = [node for node in inside if isinstance(node, ast.AugAssign)]
        targets = [t for node in inside if isinstance(node, ast.Assign) for t in node.targets]
        fresh = {target.id for target in targets if isinstance(target, ast.Name)}
        adds = any(
            isinstance(node.target, ast.Name)
            and isinstance(node.op, ast.Add | ast.Sub)
            and node.target.id not in fresh
            for node in changed
        )
        targets += [node.target for node in changed]
        writes = any(isinstance(target, ast.Subscript) for target in targets)
        within = any(
            isinstance(node.target, ast.Subscript)
            and not names(loop.target) & names(node.target.slice)
            for node in changed
        )
        if (adds and writes) or within:
            yield loop.lineno


def names(tree):
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def test_sums_have_loops_of_their_own():
    """In a loop that also writes to an array, the compiler adds up in an order that depends on
    where the arrays lie, and replicas of an experiment would differ in their last bits."""
    assert [*loops_that_add_and_write("for i in x:\n    s += a[i]\n    b[i] = a[i]")] == [1]
    assert [*loops_that_add_and_write("for i in x:\n    s += a\nfor i in x:\n    b[i] = 1")] == []
    assert [*loops_that_add_and_write("for j in x:\n    s[i] += a[j]")] == [1]
    assert [*loops_that_add_and_write("for j in x:\n    s[i, j] += a[j]")] == []
    python = {("mixture.py", "best"), ("loop.py", "play_online")}  # are not compiled
    serial = {("varying_problems.py", "_look"), ("loop.py", "play")}  # draw a number per turn
    found = []
    for path in folders.files_of(folders.SOURCES):
        source = path.read_text()
        for function in ast.walk(ast.parse(source)):
            name = (path.name, getattr(function, "name", ""))
            if isinstance(function, ast.FunctionDef) and name not in python | serial:
                lines = loops_that_add_and_write(ast.get_source_segment(source, function))
                found += [(path.name, function.name, line) for line in lines]
    assert found == []
