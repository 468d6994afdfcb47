"""Tables and Series that go to a service mean what they mean to a local experiment."""

from __future__ import annotations

import uuid

import numpy as np
import pandas
import polars
import pytest

import rolf
from rolf.errors import InvalidArgument

NAMED = pandas.DataFrame({"width": [1.0, 2.0, 3.0], "height": [2.0, 0.0, 1.0]}, index=list("abc"))
CONTEXT = {"policy": "rolf-bayes-varying", "context": ["hour", "mobile"]}


@pytest.fixture
def service(running):
    with rolf.connect(running.url, running.key) as service:
        yield service


def new(service, features=NAMED, **settings):
    return service.create(f"e {uuid.uuid4().hex}", features=features, **settings)


def both(service, features, **settings):
    """A local and a remote experiment with the same settings."""
    url = f"memory://{uuid.uuid4().hex}"
    local = rolf.open_experiment(url, "e", features=features, seed=7, **settings)
    return local, new(service, features, seed=7, **settings)


# --- contexts ---


def test_entries_of_a_context_are_read_by_name(service):
    local, remote = both(service, NAMED, **CONTEXT)
    turned = pandas.DataFrame({"mobile": [0.0, 1.0] * 30, "hour": [5.0, 0.1, 2.0] * 20})
    arms = ["a", "b", "c"] * 20
    rewards = (turned["hour"] * np.tile([1.0, -1.0, 0.0], 20)).tolist()
    rows = [row for _, row in turned.iterrows()]
    for past in (turned, polars.from_pandas(turned), rows):
        for experiment in (local, remote):
            assert experiment.learn(arms, rewards, context=past) == 60
    series = pandas.Series({"mobile": 1.0, "hour": -5.0})
    for context in (series, dict(series), [-5.0, 1.0]):
        here, there = local.ask(20, context=context), remote.ask(20, context=context)
        assert [each.arm for each in here] == [each.arm for each in there]
        assert {each.greedy for each in [*here, *there]} == {"b"}
    with pytest.raises(InvalidArgument, match="without hour and with day"):
        remote.ask(context=series.rename({"hour": "day"}))
