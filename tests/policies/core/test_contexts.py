"""Contexts, such as the user, instead of a table of features every round."""

from __future__ import annotations

import json

import numpy as np
import pandas
import pytest

import rolf
from cli.test_experiments import files  # noqa: F401
from rolf.errors import DifferentExperiment, InvalidArgument
from rolf.experiments.log.history import HistoryEntry
from rolf.testing.experiments import rows_of
from rolf.testing.storage import create_experiment, current_state, folded_state
from support.commands import run
from support.helpers import LETTERS, in_processes, make
from support.stores import make_url

VARYING = ["rolf-bayes-varying", "rolf-varying", "linucb-varying"]
every_varying = pytest.mark.parametrize("name", VARYING)
NAMES = ["age", "income"]
WHO = {"age": 0.3, "income": -1.5}


def mapped(context, features=None):
    """The products of (1, context) and (1, features) without the constant, one by one."""
    rows = []
    for x in LETTERS.to_numpy() if features is None else features:
        row = list(x)
        for entry in context:
            row += [entry, *(entry * value for value in x)]
        rows.append(row)
    return np.array(rows)


@every_varying
def test_a_context_is_the_table_that_the_documentation_states(name):
    """Of two policies one gets contexts, the other the tables: they agree to the last bit."""
    one = make(name, LETTERS, context=NAMES)
    options = {}
    if name == "rolf-bayes-varying":  # takes units from the table, and entries are of size 1
        two = make(name, pandas.DataFrame(mapped([1.0, 1.0]), index=LETTERS.index))
    else:
        two = make(name, pandas.DataFrame(mapped([0.0, 0.0]), index=LETTERS.index), **options)
    rng = np.random.default_rng(3)
    for _ in range(40):
        context = rng.normal(size=2)
        table = mapped(context)
        by_name = dict(zip(reversed(NAMES), reversed(context), strict=True))
        first = one.ask(context=by_name)
        second = two.ask(features=table)
        assert (first.arm, first.probability) == (second.arm, second.probability)
        reward = rng.normal()
        one.tell(first, reward)
        two.tell(second, reward)
    assert (one.estimates(context=[0.5, 2.0]) == two.estimates(features=mapped([0.5, 2.0]))).all()
    assert one.rank(context=[0.5, 2.0]) == two.rank(features=mapped([0.5, 2.0]))
    again = rolf.Policy.from_dict(json.loads(json.dumps(one.to_dict())))
    assert again.ask(context=WHO).arm == two.ask(features=mapped(WHO.values())).arm


@every_varying
def test_a_context_is_stored_once_and_is_exact_after_a_restart(url, name):
    settings = {"policy": name, "features": LETTERS}
    experiment = create_experiment(url, context=NAMES, **settings)
    tables = create_experiment(
        url,
        "tables",
        policy=name,
        features=pandas.DataFrame(mapped([1.0, 1.0]), index=LETTERS.index),
    )
    rng = np.random.default_rng(1)
    for round in range(12):
        context = pandas.Series(rng.normal(size=2), index=NAMES)
        decision = experiment.ask(context=context)
        other = tables.ask(features=mapped(context))
        assert (decision.arm, decision.probability) == (other.arm, other.probability)
        reward = rng.normal()
        if round % 2:  # from another process, as it were
            rolf.open_experiment(url, "one").tell(decision.id, reward)
        else:
            experiment.tell(decision, reward)
        tables.tell(other, reward)
    for row in rows_of(experiment):
        assert json.loads(row.details).keys() == {"context"}
        assert len(json.loads(row.details)["context"]) == 2
    estimates = experiment.estimates(context=WHO)
    assert (estimates == tables.estimates(features=mapped(WHO.values()))).all()
    experiment.snapshot()
    experiment.ask(context=WHO)
    again = rolf.open_experiment(url, "one", context=tuple(NAMES), features=LETTERS)
    assert current_state(again) == current_state(experiment) == folded_state(experiment)
    with pytest.raises(DifferentExperiment, match="context"):
        rolf.open_experiment(url, "one", context=["age"])
    assert again.status().arms[0].estimate is None
    assert again.status(context=WHO).arms[0].estimate == pytest.approx(
        again.estimates(context=WHO).iloc[0]
    )


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_contexts_are_exported_and_learned(tmp_path, kind):
    url = make_url("memory")
    experiment = create_experiment(url, policy=None, context=NAMES, features=LETTERS)
    assert experiment.policy == "rolf-bayes-varying"
    for round in range(6):
        experiment.tell(experiment.ask(context=[0.1 * round, -1.0]), 0.5 * round)
    experiment.correct(f"{experiment.record.tag}-2", 0.75, "a slip")
    experiment.ask(context=WHO)
    file = tmp_path / f"log.{kind}"
    experiment.export(file)
    if kind == "csv":
        frame = pandas.read_csv(file)
        assert frame["context_age"].tolist()[-1] == 0.3
        assert not [name for name in frame.columns if name.startswith("x_")]
    again = rolf.open_experiment(url, "again", context=NAMES, features=LETTERS)
    learned = again.learn_file(file, "arm", "reward")
    assert (learned.learned, learned.pending) == (6, 1)
    rounds = HistoryEntry.loads(rows_of(again)[0].parsed, len(LETTERS)).rounds
    assert rounds.rewards.tolist() == [0.0, 0.75, 1.0, 1.5, 2.0, 2.5]
    assert np.allclose(again.estimates(context=WHO), experiment.estimates(context=WHO))
    if kind == "csv":
        frame.drop(columns="context_age").to_csv(file, index=False)
        with pytest.raises(InvalidArgument, match="'age' among them"):
            again.learn_file(file, "arm", "reward")


def test_arms_come_history_is_learned_and_rewards_are_corrected_in_contexts(url):
    experiment = create_experiment(url, policy="rolf-varying", context=2, features=LETTERS)
    contexts = np.random.default_rng(2).normal(size=(30, 2))
    arms = np.resize(list("abcdef"), 30)
    experiment.learn(arms, contexts[:, 0], context=contexts)
    frame = pandas.DataFrame(contexts, columns=["0", "1"])
    experiment.learn(arms, contexts[:, 0], context=frame[["1", "0"]], source="again")
    alone = make("rolf-varying", LETTERS, context=2)
    for _ in range(2):
        alone.learn(arms, contexts[:, 0], context=contexts)
    assert np.allclose(experiment.estimates(context=[1, 2]), alone.estimates(context=[1, 2]))
    experiment.add_arms(pandas.DataFrame([[1.0, 2.0, 3.0]], index=["g"]))
    decision = experiment.ask(context=[1.0, 1.0], available=["g"])
    experiment.tell(decision, 1e7)
    experiment.correct(decision, 1.0, "a slip")
    slate = experiment.ask_many(3, context=[1.0, 2.0], distinct=True)
    experiment.tell_many({each.id: 0.0 for each in slate})
    with pytest.raises(InvalidArgument, match="retire the arm and add another"):
        experiment.update_features({"a": [1.0, 2.0, 3.0]})
    assert current_state(rolf.open_experiment(url, "one")) == folded_state(experiment)


def ask_in_contexts(url, seed):
    rng = np.random.default_rng(seed)
    with rolf.open_experiment(url, "one") as experiment:
        for _ in range(15):
            decision = experiment.ask(context=dict(zip(NAMES, rng.normal(size=2), strict=True)))
            experiment.tell(decision, rng.normal())


@pytest.mark.slow
def test_processes_ask_in_different_contexts(shared_url):
    experiment = create_experiment(shared_url, policy=None, context=NAMES, features=LETTERS)
    in_processes(ask_in_contexts, (shared_url, 1), (shared_url, 2))
    assert experiment.status().told == 30
    assert current_state(experiment) == folded_state(experiment)


def test_what_a_context_is_good_for():
    """Two kinds of users who like different arms: a policy that knows who is asking learns it."""
    features = pandas.DataFrame({"sporty": [1.0, 0.0], "quiet": [0.0, 1.0]}, index=["run", "read"])
    experiment = create_experiment(
        make_url("memory"), policy=None, context=["young"], features=features
    )
    rng = np.random.default_rng(0)
    for _ in range(150):
        young = float(rng.integers(0, 2))
        decision = experiment.ask(context={"young": young})
        liked = decision.arm == ("run" if young else "read")
        experiment.tell(decision, liked + 0.1 * rng.standard_normal())
    assert experiment.rank(context={"young": 1.0}) == ["run", "read"]
    assert experiment.rank(context={"young": 0.0}) == ["read", "run"]
    assert experiment.probability_best(context={"young": 1.0})["run"] > 0.95


@pytest.mark.parametrize(
    ("context", "match"),
    [
        (None, "a context, finite numbers for age, income"),
        ({"age": 1.0}, "without income"),
        ({"age": 1.0, "income": 2.0, "size": 3.0}, "with size"),
        ({"age": 1.0, "incom": 2.0}, "without income and with incom"),
        ([1.0], "1 entries"),
        ([1.0, "x"], "age, income"),
        ([1.0, float("nan")], "finite"),
        ([1.0, 1e80], "size up to"),
        ("age", "age, income"),
        (3.0, "age, income"),
    ],
)
def test_contexts_that_are_refused(context, match):
    policy = make("rolf-varying", LETTERS, context=NAMES)
    experiment = create_experiment(
        make_url("memory"), policy="rolf-varying", context=NAMES, features=LETTERS
    )
    for each in (policy, experiment):
        with pytest.raises(InvalidArgument, match=match):
            each.ask(context=context)
        with pytest.raises(InvalidArgument, match="features: got"):
            each.ask(context=WHO, features=mapped(WHO.values()))
        with pytest.raises(InvalidArgument, match="context"):
            each.learn(["a", "b"], [1.0, 1.0], context=[WHO])
    assert experiment.log() == []


@pytest.mark.parametrize("wrong", [0, -1, True, 1.5, "age", [], ["age", "age"], [1], [""], 10**6])
def test_options_that_are_no_context(wrong):
    for name in VARYING:
        with pytest.raises(InvalidArgument, match="context"):
            make(name, LETTERS, context=wrong)


def test_policies_without_a_context():
    with pytest.raises(InvalidArgument, match="created without the option context"):
        make("rolf-varying", LETTERS).ask(context=WHO)
    with pytest.raises(InvalidArgument, match="created without the option context"):
        make("ucb", LETTERS).ask(context=WHO)
    with pytest.raises(InvalidArgument, match="an option of rolf-bayes"):
        create_experiment(make_url("memory"), policy="rolf-bayes", context=NAMES)
    experiment = create_experiment(make_url("memory"), policy="rolf-varying")
    for call in (experiment.ask, experiment.estimates, experiment.status):
        with pytest.raises(InvalidArgument, match="created without the option context"):
            call(context=WHO)


def test_contexts_on_the_command_line(files, tmp_path):  # noqa: F811
    items, url = files
    out = run("new", url, "x", "--features", items, "--context", "age, income")
    assert "rolf-bayes-varying" in out
    words = ("--context", '{"age": 0.5, "income": 2}')
    asked = json.loads(run("ask", url, "x", *words, "--json"))
    run("tell", url, "x", asked[0]["id"], 1)
    for wrong, match in (("{", "--context.*JSON"), ('{"age": 1}', "--context.*without income")):
        with pytest.raises(InvalidArgument, match=match):
            run("ask", url, "x", "--context", wrong, ok=False)
    log = tmp_path / "log.csv"
    log.write_text("product,clicked,age,income\na,1,0.5,1\nb,0,1.5,-1\n")
    columns = ("--arm", "product", "--reward", "clicked")
    assert "2 learned" in run("import", url, "x", log, *columns)
    more = ("--features", items, "--options", '{"context": ["age"]}')
    assert "2 learned" in run("import", url, "y", log, *columns, *more)
    with rolf.open_experiment(url, "y") as experiment:
        assert experiment.policy == "rolf-bayes-varying"
        assert experiment.estimates(context={"age": 1.0}).size == 4
    log.write_text("product,clicked,age\na,1,0.5\n")
    with pytest.raises(InvalidArgument, match="'income' among them"):
        run("import", url, "x", log, *columns, ok=False)
    log.write_text("product,clicked,age,income\na,1,0.5,\n")
    with pytest.raises(InvalidArgument, match="income: got 'nothing in row 2'"):
        run("import", url, "x", log, *columns, ok=False)
