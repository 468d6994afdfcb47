"""The policy of an experiment that names none: rolf-bayes if it is new, its own otherwise."""

from __future__ import annotations

import json

import pytest

import rolf
from rolf.errors import DifferentExperiment, InvalidArgument
from rolf.experiments.database import Database, create
from rolf.experiments.roster import Roster
from rolf.policies.catalogue import CATALOG, DEFAULT_POLICY
from rolf.testing.storage import FEATURES, create_experiment, current_state, folded_state, play
from support.commands import run
from support.stores import make_url, quick_folder

ITEMS = "item,width,length\na,1.0,0.5\nb,0.2,1.5\nc,2.0,1.0\n"


@pytest.fixture
def items(tmp_path):
    path = tmp_path / "items.csv"
    path.write_text(ITEMS)
    return path


@pytest.fixture
def file():
    return f"sqlite:///{quick_folder('rolf-default')}/x.db"


def test_the_default_is_in_the_catalogue():
    assert DEFAULT_POLICY == "rolf-bayes"
    assert DEFAULT_POLICY in CATALOG


def test_a_new_experiment_gets_rolf_bayes(url):
    with rolf.open_experiment(url, "one", features=FEATURES) as experiment:
        assert experiment.policy == "rolf-bayes"
        assert type(experiment.synced.replica.policy) is rolf.RoLFBayes
        play(experiment, 10)
    with rolf.open_experiment(url, "one", policy="rolf-bayes") as experiment:
        assert experiment.status().told == 10


def test_so_does_one_that_is_created_from_a_roster():
    with create(make_url("memory"), "one", Roster.read(FEATURES)) as experiment:
        assert experiment.policy == "rolf-bayes"


@pytest.mark.parametrize("arguments", [{}, {"features": FEATURES}, {"options": {"p": 0.7}}])
def test_an_old_file_keeps_the_policy_it_was_created_with(file, arguments):
    with create_experiment(file, policy="rolf-lasso", options={"p": 0.7}) as experiment:
        play(experiment, 30)
        record, before = experiment.record, current_state(experiment)
    with rolf.open_experiment(file, "one", **arguments) as experiment:
        assert experiment.record == record
        assert experiment.policy == "rolf-lasso"
        assert current_state(experiment) == before
        play(experiment, 5)
        assert current_state(experiment) == folded_state(experiment)
    assert json.loads(run("status", file, "one", "--json"))["policy"] == "rolf-lasso"
    with pytest.raises(DifferentExperiment, match="policy: 'rolf-lasso' there, 'rolf-bayes' here"):
        rolf.open_experiment(file, "one", policy="rolf-bayes")


def test_options_of_another_policy_are_refused():
    url = make_url("memory")
    with pytest.raises(InvalidArgument, match="got 'p', wanted an option of rolf-bayes"):
        rolf.open_experiment(url, "one", features=FEATURES, options={"p": 0.7})
    assert Database(url).names() == []


def test_features_of_a_round_need_a_policy_that_takes_them(url):
    with (
        rolf.open_experiment(url, "one", features=FEATURES) as experiment,
        pytest.raises(InvalidArgument, match="rolf-bayes has fixed features; rolf-bayes-varying"),
    ):
        experiment.ask(features=FEATURES)
    with rolf.open_experiment(
        url, "two", features=FEATURES, policy="rolf-bayes-varying"
    ) as experiment:
        experiment.tell(experiment.ask(features=FEATURES), 1.0)


def test_the_command_line_has_the_same_default(file, items):
    assert "created: one, rolf-bayes, 3 arms" in run("new", file, "one", "--features", items)
    data = json.loads(run("new", file, "two", "--features", items, "--json"))
    assert data["policy"] == "rolf-bayes"
    assert "default: (rolf-bayes)" in run("new", "--help")
    with pytest.raises(InvalidArgument, match="rolf-bayes-varying takes them"):
        run("ask", file, "one", "--features", items, ok=False)
