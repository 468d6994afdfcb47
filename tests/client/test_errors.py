"""Errors of a remote experiment carry the same facts as those of a local one, as attributes."""

from __future__ import annotations

import pickle
import uuid

import httpx
import pytest

import rolf
from rolf.client.errors import error_of
from rolf.errors import AlreadyTold, InvalidArgument, InvalidTable, UnknownDecision, UntoldDecision

FEATURES = [[0.0, 1.0], [1.0, 0.5], [0.3, 0.2]]


@pytest.fixture(params=["local", "remote"])
def experiment(request, service):
    name = f"e {uuid.uuid4().hex}"
    settings = {"features": FEATURES, "policy": "ucb", "seed": 7}
    if request.param == "remote":
        return service.create(name, **settings)
    return rolf.open_experiment(f"memory://{uuid.uuid4().hex}", name, **settings)


def test_errors_about_a_decision_have_its_id(experiment):
    told, untold = experiment.ask(), experiment.ask()
    experiment.tell(told, 1.0)
    for kind, decision, call in [
        (AlreadyTold, told.id, lambda: experiment.tell(told, 2.0)),
        (AlreadyTold, told.id, lambda: experiment.tell_many({untold.id: 1.0, told.id: 2.0})),
        (UnknownDecision, "none-1", lambda: experiment.tell("none-1", 2.0)),
        (UntoldDecision, untold.id, lambda: experiment.correct(untold, 2.0, "wrong")),
    ]:
        with pytest.raises(kind) as caught:
            call()
        assert caught.value.decision == decision
        again = pickle.loads(pickle.dumps(caught.value))
        assert (again.decision, str(again)) == (decision, str(caught.value))


def test_errors_about_an_argument_have_the_three_facts(experiment):
    experiment.tell(experiment.ask(), 1.0)
    for got, call in [
        (["a"], lambda: experiment.ask(available=["a"])),
        ("a", lambda: experiment.retire_arms(["a"])),
        (0, lambda: experiment.rank(0)),
    ]:
        with pytest.raises(InvalidArgument) as caught:
            call()
        error = caught.value
        assert str(error) == f"{error.argument}: got {error.got!r}, wanted {error.wanted}"
        assert error.got in (got, got[0] if isinstance(got, list) else got)
        again = pickle.loads(pickle.dumps(error))
        assert (again.argument, again.got, str(again)) == (error.argument, error.got, str(error))


def test_a_table_with_several_problems_lists_them(running):
    rows = [{"arm": "a", "x": "inf"}, {"arm": "a", "x": 2.0}, {"arm": "b", "x": 3.0}]
    with pytest.raises(InvalidTable) as here:
        rolf.open_experiment("memory://errors", "e", features=rows)
    answer = httpx.post(
        f"{running.url}/v1/experiments",
        headers={"Authorization": f"Bearer {running.key}"},
        json={"name": f"e {uuid.uuid4().hex}", "arms": rows},
    )
    there = error_of(answer)
    assert isinstance(there, InvalidTable)
    assert str(there) == str(here.value)
    assert [each.wanted for each in there.problems] == [each.wanted for each in here.value.problems]
