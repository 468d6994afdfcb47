"""Primitives: the compiled loop gives what the NumPy form gives."""

from __future__ import annotations

import numpy as np
import pytest

from rolf import linalg
from rolf.kernel.dispatch import activate

pytestmark = pytest.mark.compiled

RNG = np.random.default_rng(0)
MATRIX = RNG.standard_normal((7, 4))
SQUARE = RNG.standard_normal((4, 4)) + 4 * np.eye(4)
SHORT, LONG = RNG.standard_normal(4), RNG.standard_normal(7)

PURE = [
    ("matvec", (MATRIX, SHORT)),
    ("vecmat", (LONG, MATRIX)),
    ("matmat", (MATRIX, RNG.standard_normal((4, 3)))),
    ("dot", (SHORT, SHORT + 1)),
    ("weighted_gram", (MATRIX, np.abs(LONG))),
    ("solve", (SQUARE, RNG.standard_normal((4, 3)))),
    ("solve", (np.array([[0.0, 1.0], [2.0, 0.0]]), np.eye(2))),  # needs a row swap
    ("argmax", (LONG, np.array([0, 2, 5]))),
]
IN_PLACE = [
    ("add_outer", (MATRIX, 0.5, LONG, SHORT)),
    ("add", (SHORT, 0.5, SHORT + 1)),
    ("assign", (SHORT, SHORT + 1)),
    ("root_update", (SQUARE, SHORT)),
]


@pytest.fixture(scope="module")
def compile():
    import numba

    activate()
    return lambda function: numba.njit(lambda *args: function(*args))


@pytest.mark.parametrize(("name", "args"), PURE)
def test_pure(compile, name, args):
    function = getattr(linalg, name)
    assert np.allclose(compile(function)(*args), function(*args), atol=1e-13)


@pytest.mark.parametrize(("name", "args"), IN_PLACE)
def test_in_place(compile, name, args):
    function = getattr(linalg, name)
    ours = [np.copy(a) if isinstance(a, np.ndarray) else a for a in args]
    theirs = [np.copy(a) if isinstance(a, np.ndarray) else a for a in args]
    function(*ours)
    compile(function)(*theirs)
    assert np.allclose(ours[0], theirs[0], atol=1e-13)
    assert not np.allclose(ours[0], args[0])


@pytest.mark.parametrize("available", [np.arange(5), np.array([1, 2, 4])])
@pytest.mark.parametrize(
    "scores", [[1.0, 3.0, 3.0, 2.0, 3.0], [5.0, 1.0, 2.0, 9.0, 0.0], [0.0] * 5, [1e300] * 5]
)
def test_pick_draws_the_same_arm(compile, scores, available):
    values = np.array(scores)
    fast = compile(linalg.pick)
    for seed in range(20):
        one = linalg.pick(values, available, np.random.default_rng(seed))
        two = fast(values, available, np.random.default_rng(seed))
        assert one == tuple(two)
        assert one[0] in available


def test_pick_breaks_ties_uniformly_and_ignores_rounding():
    rng = np.random.default_rng(0)
    scores = np.array([1.0, 1.0 + 1e-15, 0.5, 1.0 - 1e-15])
    counts = np.zeros(4)
    for _ in range(6000):
        arm, ties, _ = linalg.pick(scores, np.arange(4), rng)
        counts[arm] += 1
        assert ties == 3
    assert counts[2] == 0
    # 2000 expected, standard deviation 36.5; beyond five of them once in 1.7 million
    assert (np.abs(counts[[0, 1, 3]] - 2000) < 5 * 36.5).all()


def test_root_update_follows_the_inverse():
    rng = np.random.default_rng(1)
    moment = 0.6 * np.eye(5)
    root = np.linalg.cholesky(np.linalg.inv(moment))
    for _ in range(200):
        row = rng.standard_normal(5) * 10 ** rng.uniform(-3, 3)
        inverse = np.linalg.inv(moment)
        gain, size = linalg.root_update(root, row)
        assert np.allclose(gain, inverse @ row, rtol=1e-6)
        assert size == pytest.approx(row @ inverse @ row, rel=1e-6)
        moment += np.outer(row, row)
        assert np.allclose(root @ root.T @ moment, np.eye(5), atol=1e-6)
    linalg.root_update(root, np.zeros(5))
    assert np.isfinite(root).all()
