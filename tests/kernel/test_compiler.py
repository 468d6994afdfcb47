"""Inner functions are compiled as part of their callers, with the same results as plain Numba."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from typing import NamedTuple

import numba
import numpy as np
import pytest
from numba.core.codegen import JITCodeLibrary

from rolf.kernel import borrowed, compiler, folders, looped, shared
from rolf.kernel.dispatch import activate, loop_of

pytestmark = pytest.mark.compiled


@shared
def checked_root(value):
    """A square root. Errors that inner functions raise need the environments of these."""
    if value < 0.0:
        raise ValueError("no root of a negative number", value)
    return np.sqrt(value)


@numba.njit
def doubled(value):
    """A function of a user, which Python may call as well."""
    return 2.0 * value


@looped
def sum_of_roots(values):
    total = 0.0
    for value in values:
        total += doubled(checked_root(value))
    return total


@looped
def largest_root(values):
    return checked_root(values.max())


def test_errors_of_inner_functions_are_raised():
    assert sum_of_roots(np.array([1.0, 4.0])) == 6.0
    with pytest.raises(ValueError, match="no root of a negative number"):
        sum_of_roots(np.array([1.0, -4.0]))
    with pytest.raises(ValueError, match="no root"):  # the same inner function in another caller
        largest_root(np.array([-1.0]))


@looped
def total_root(values):
    """Calls another loop, by its symbol."""
    return sum_of_roots(values) + largest_root(values)


@pytest.mark.skipif(not compiler.tried(), reason="plain Numba copies loops into their callers")
def test_a_loop_is_compiled_once_and_called_by_its_symbol():
    values = np.array([1.0, 4.0])
    assert total_root(values) == 8.0
    with pytest.raises(ValueError, match="no root of a negative number"):  # across the call
        total_root(-values)
    (caller,) = loop_of(__name__, "total_root").overloads.values()
    (callee,) = loop_of(__name__, "sum_of_roots").overloads.values()
    needed = compiler.needed_by(caller)
    assert [each.name for each in needed] == ["sum_of_roots", "largest_root"]
    assert needed[0].symbol == callee.fndesc.llvm_func_name
    module = JITCodeLibrary._get_module_for_linking(caller.library)
    functions = {each.name: each for each in module.functions}
    assert functions[needed[0].symbol].is_declaration


def test_functions_of_a_user_hold_copies_of_loops():
    """They may be kept in files of Numba's own, which do not know what they need."""
    activate()

    @numba.njit
    def own(values):
        return total_root(values)

    assert own(np.array([1.0, 4.0])) == 8.0
    (found,) = own.overloads.values()
    undefined = [each.name for each in found.library._final_module.functions if each.is_declaration]
    assert not any("_root" in name for name in undefined)


LOAD = """
import logging, sys
import numpy as np
from rolf.kernel.disk_cache import compilations
sys.path.insert(0, sys.argv[1])
import own_loops
print(own_loops.outer(np.array([2.0])), [each.split(",")[0] for each in compilations])
"""
OWN_LOOPS = """
from rolf.kernel import looped

@looped
def inner(values):
    return values.sum()

@looped
def middle(values):
    return 2.0 * inner(values)

@looped
def outer(values):
    return middle(values) + 1.0
"""


def test_files_load_what_they_need(tmp_path):
    """In a fresh process, and what is missing is compiled again under the same name."""
    (tmp_path / "own_loops.py").write_text(OWN_LOOPS)
    cache = tmp_path / "cache"
    cache.mkdir(mode=0o700)

    def run():
        settings = {**os.environ, "ROLF_CACHE_DIR": str(cache), "ROLF_PLAIN_NUMBA": "0"}
        command = [sys.executable, "-c", LOAD, str(tmp_path)]
        done = subprocess.run(command, env=settings, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    assert run() == "5.0 ['inner', 'middle', 'outer']"
    assert run() == "5.0 []"
    (file,) = cache.glob("*/inner-*.code")
    file.unlink()
    assert run() == "5.0 ['inner']"
    (file,) = cache.glob("*/outer-*.code")
    file.unlink()  # its compilation loads others meanwhile
    assert run() == "5.0 ['outer']"


class Pair(NamedTuple):
    left: np.ndarray
    inner: tuple[np.ndarray, float]


@looped
def added(pair, times):
    pair = borrowed(pair)
    left, (right, factor) = pair
    for _ in range(times):
        left += factor * right
    return left.sum()


def test_borrowed_arrays_are_the_same_arrays():
    left, right = np.zeros(3), np.ones(3)
    owners = sys.getrefcount(left), sys.getrefcount(right)
    for _ in range(5):
        assert added(Pair(left, (right, 2.0)), 100) % 600.0 == 0.0
    assert left.tolist() == [1000.0] * 3
    assert (sys.getrefcount(left), sys.getrefcount(right)) == owners
    assert borrowed(left) is left


def returned_loans(source):
    """Lines that return what is borrowed, or a part of it: Python would own nothing of it."""
    for function in ast.walk(ast.parse(source)):
        if not isinstance(function, ast.FunctionDef):
            continue
        loans = set()
        for node in ast.walk(function):
            if isinstance(node, ast.Assign) and (lent(node.value) or held(node.value) & loans):
                for target in node.targets:
                    loans |= {name.id for name in ast.walk(target) if isinstance(name, ast.Name)}
            value = node.value if isinstance(node, ast.Return) else None
            if value is not None and (lent(value) or held(value) & loans):
                yield node.lineno


def lent(tree):
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    return any(isinstance(call.func, ast.Name) and call.func.id == "borrowed" for call in calls)


def held(tree):
    """The names that a value may be made of: classes hold their arguments, functions do not."""
    if isinstance(tree, ast.Call) and not ast.unparse(tree.func)[:1].isupper():
        return set()
    own = {tree.id} if isinstance(tree, ast.Name) else set()
    return own.union(*map(held, ast.iter_child_nodes(tree)))


def test_nothing_that_is_borrowed_is_returned():
    planted = "def f(a, b):\n    a, c = borrowed(a), 1\n    d = a.rows\n    return {}"
    for value in ("a", "(1.0, a)", "a[0]", "Pair(b, d[1])", "borrowed(b)"):
        assert [*returned_loans(planted.format(value))] == [4]
    assert [*returned_loans(planted.format("Pair(b, matvec(a, b))"))] == []
    borrowers = 0
    for path in folders.files_of(folders.SOURCES):
        source = path.read_text()
        borrowers += "= borrowed(" in source
        assert [*returned_loans(source)] == [], path
    assert borrowers > 1


def test_functions_of_a_user_can_still_be_called():
    sum_of_roots(np.array([1.0]))
    assert doubled(3.0) == 6.0

    @numba.njit
    def own(values):
        return checked_root_of(values.sum())

    checked_root_of = numba.njit(lambda value: doubled(value))
    assert own(np.ones(3)) == 6.0


def test_the_usual_library_is_put_back_after_a_failure():
    from numba.core.registry import cpu_target

    @looped
    def untypable(values):
        return values.no_such_attribute

    before = cpu_target.target_context.codegen()._library_class
    with pytest.raises(numba.TypingError):
        untypable(np.ones(2))
    assert cpu_target.target_context.codegen()._library_class is before


def test_versions_that_were_not_tried_compile_as_they_always_do(monkeypatch):
    monkeypatch.delenv(compiler.PLAIN, raising=False)
    usual = compiler.compiler_options(bool)
    assert issubclass(usual["pipeline_class"], compiler.OutermostCompiler)
    monkeypatch.setenv(compiler.PLAIN, "1")
    assert compiler.compiler_options(bool) == {}
    monkeypatch.delenv(compiler.PLAIN)
    monkeypatch.setattr(numba, "__version__", "99.0.0")
    assert compiler.compiler_options(bool) == {}


PLAY = """
import rolf
family = rolf.environments.paper(scenario=1, case=2)
policies = {"a": ("rolf-lasso", {}), "b": ("rolf-ridge", {}), "c": ("kl-ucb", {})}
print(rolf.simulate(policies, family, rounds=100, runs=1, seed=1).regret.tobytes().hex())
"""


@pytest.mark.slow
def test_results_are_those_of_plain_numba(tmp_path):
    """To the last bit, in processes that compile everything themselves."""
    out = []
    for plain in ("0", "1"):
        settings = {"ROLF_PLAIN_NUMBA": plain, "ROLF_CACHE_DIR": str(tmp_path / plain)}
        (tmp_path / plain).mkdir(mode=0o700)
        command = [sys.executable, "-c", PLAY]
        done = subprocess.run(command, env={**os.environ, **settings}, capture_output=True)
        assert done.returncode == 0, done.stderr
        out.append(done.stdout)
    assert out[0] == out[1] != b""
