"""Tables and Series that go to a service mean what they mean to a local experiment."""

from __future__ import annotations

import math
import uuid
import warnings

import numpy as np
import pandas
import polars
import pytest

import rolf
from rolf.errors import InvalidArgument, RolfWarning

NAMED = pandas.DataFrame({"width": [1.0, 2.0, 3.0], "height": [2.0, 0.0, 1.0]}, index=list("abc"))
CONTEXT = {"policy": "rolf-bayes-varying", "context": ["hour", "mobile"]}


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
        here, there = local.ask_many(20, context=context), remote.ask_many(20, context=context)
        assert [each.arm for each in here] == [each.arm for each in there]
        assert {each.greedy for each in [*here, *there]} == {"b"}
    with pytest.raises(InvalidArgument, match="without hour and with day"):
        remote.ask(context=series.rename({"hour": "day"}))


# --- arms ---


def made(make):
    """The arms of an experiment with their features, and its warnings; or the error."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            arms = [(each.arm, each.features) for each in make().arm_table()]
        except InvalidArgument as error:
            return error.argument
    assert {each.category for each in caught} <= {RolfWarning}
    assert {each.filename for each in caught} <= {__file__}
    return arms, [str(each.message) for each in caught]


WIDTHS = [1.0, 5.0, 2.0]
TABLES = {
    "infinite": pandas.DataFrame({"w": [1.0, math.inf, 2.0]}, index=list("abc")),
    "infinite and missing": pandas.DataFrame({"w": [1.0, math.inf, None]}, index=list("abc")),
    "infinite beside text": pandas.DataFrame(
        {"w": [1.0, -math.inf, 2.0], "c": ["x", "y", "x"]}, index=list("abc")
    ),
    "infinite in rows": [{"arm": "a", "w": math.inf}, {"arm": "b", "w": 2.0}],
    "missing": pandas.DataFrame({"w": [1.0, None, 2.0]}, index=list("abc")),
    "missing in rows": [{"arm": "a", "w": None}, {"arm": "b", "w": 2.0}, {"arm": "c", "w": 4}],
    "times": pandas.DataFrame({"w": WIDTHS}, index=pandas.date_range("2020-01-01", periods=3)),
    "booleans": pandas.DataFrame({"w": WIDTHS}, index=[True, False, 3]),
    "no number": pandas.DataFrame({"w": WIDTHS}, index=[0.5, math.nan, 2.5]),
    "decimals": pandas.DataFrame({"w": WIDTHS}, index=[0.5, 1.0, 2.5]),
    "decimals with text": pandas.DataFrame(
        {"w": WIDTHS, "c": ["x", "y", "x"]}, index=[0.5, 1.0, 2.5]
    ),
    "rows without arm": [{"w": 1}, {"w": 2.5}, {"w": 3}],
    "rows with ids": [{"sku": f"x{w}", "w": w} for w in WIDTHS],
    "ids that are numbers": pandas.DataFrame(
        {"sku": range(10**9, 10**9 + 8), "w": np.arange(8) ** 1.5, "c": list("xyxyxyxy")},
        index=range(100, 108),
    ),
    "rows with decimals": [{"arm": w, "w": w} for w in WIDTHS],
    "rows with numbers and text": [{"arm": 1, "w": 1}, {"arm": "x", "w": 2}],
    "the same name twice": [{"arm": "x", "w": 1}, {"arm": "x", "w": 2}],
    "integers as columns": pandas.DataFrame({0: WIDTHS, 1: WIDTHS[::-1]}, index=list("abc")),
}


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_tables_are_read_as_locally(service, table):
    settings = {"features": table, "policy": "ucb", "seed": 7}
    url = f"memory://{uuid.uuid4().hex}"
    local = made(lambda: rolf.open_experiment(url, "e", **settings))
    remote = made(lambda: new(service, table, policy="ucb", seed=7))
    assert remote == local


def test_decimal_names_are_told_from_text(service):
    experiment = new(service, TABLES["decimals"], policy="ucb")
    assert experiment.ask(available=[2.5]).arm == 2.5
    assert experiment.add_arms(pandas.DataFrame({"w": [4.0]}, index=[3.5])) == [3.5]
    assert list(experiment.estimates().index) == [0.5, 1.0, 2.5, 3.5]


def test_a_column_called_arm_does_not_replace_the_index(service):
    table = pandas.DataFrame({"w": WIDTHS, "arm": [7.0, 8.0, 9.5]}, index=list("abc"))
    with pytest.raises(InvalidArgument, match="another name for the column arm"):
        new(service, table, policy="ucb")


def test_notes_on_new_arms_are_warnings(service):
    experiment = new(service, pandas.DataFrame({"w": WIDTHS, "v": WIDTHS[::-1]}, index=list("abc")))
    with pytest.raises(InvalidArgument, match="features: w"):
        experiment.add_arms([{"arm": "d", "w": math.inf, "v": 1.0}])
    table = pandas.DataFrame({"w": WIDTHS, "c": ["x", "y", "x"]}, index=list("abc"))
    experiment = new(service, table, policy="ucb")
    with pytest.warns(RolfWarning, match="features: c") as caught:
        assert experiment.add_arms([{"arm": "d", "w": 3.0, "c": "new"}]) == ["d"]
    assert {each.filename for each in caught} == {__file__}
