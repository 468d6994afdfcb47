"""Calls go down: what one call goes through is short, and no file calls one that called it."""

from __future__ import annotations

import pytest

import walks

#: at most so many files, and changes of file, in the walk of each call
LIMITS = {
    "simulate": (32, 204),
    "policy.ask": (6, 8),
    "policy.tell": (4, 6),
    "experiment.ask": (14, 30),
    "experiment.tell": (14, 25),
    "POST .../ask": (23, 54),
    "a CSV of arms": (8, 15),
    "reproduce": (60, None),
}
#: calls that go up, and why
UPWARDS = {
    ("experiments/storage/sqlite/file.py", "experiments/storage/sqlite/store.py"): (
        "the file runs an action of the store in a transaction"
    ),
    ("service/dependencies.py", "service/http/middleware.py"): "ASGI: receiving the body",
}


@pytest.fixture(scope="module")
def recorded():
    return walks.record()


@pytest.mark.parametrize("name", LIMITS)
def test_a_walk_is_short(recorded, name):
    files, changes = LIMITS[name]
    walk = recorded[name]
    assert len(walk.files) <= files, walk.files
    assert changes is None or walk.changes <= changes


@pytest.mark.parametrize("name", LIMITS)
def test_no_file_calls_one_that_called_it(recorded, name):
    """Except where ``UPWARDS`` says why."""
    for circle in recorded[name].circles(but=set(UPWARDS)):
        raise AssertionError(sorted(call for call in recorded[name].calls if {*call} <= {*circle}))


def test_every_walk_has_a_limit(recorded):
    assert list(recorded) == list(LIMITS)


def test_the_page_shows_the_walks(recorded):
    """Where it does not, ``python tests/walks.py --write`` brings it up to date."""
    shown = walks.SHOWN.search(walks.PAGE.read_text())
    assert shown[2] == walks.markdown(recorded)


def test_circles_are_found():
    calls = {("a", "b"), ("b", "c"), ("c", "b"), ("c", "d"), ("d", "e"), ("e", "d"), ("a", "e")}
    assert walks.circles(calls) == [["b", "c"], ["d", "e"]]
    assert walks.circles(calls - {("e", "d"), ("c", "b")}) == []
