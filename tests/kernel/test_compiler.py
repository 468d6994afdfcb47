"""Inner functions are compiled as part of their callers, with the same results as plain Numba."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import NamedTuple

import numba
import numpy as np
import pytest

from rolf.kernel import borrowed, compiler, looped, shared

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
