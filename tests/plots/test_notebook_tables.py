"""Results, evaluations, diagnoses, statuses and decisions as notebooks show them."""

from __future__ import annotations

from html.parser import HTMLParser

import numpy as np
import pandas
import pytest

import rolf
from rolf.evaluation.result import Value
from rolf.testing.storage import create_experiment
from support.diagnosing import diagnose
from support.stores import make_url

EVIL = "<script>alert(1)</script>&"


class Cells(HTMLParser):
    """The cells of a table, and all tags, which must be closed."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.cells, self.text = set(), [], [], ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        if tag != "br":
            self.open.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data
        if self.open and self.open[-1] in ("td", "th"):
            self.cells[-1] += data


def experiment():
    features = pandas.DataFrame(np.eye(30) + 0.1, index=[EVIL, *(f"arm {i}" for i in range(29))])
    made = create_experiment(make_url("memory"), features=features, policy="rolf-lasso", name=EVIL)
    for number in range(60):
        made.tell(made.ask(available=[features.index[number % 30]]), 9.0 * (number % 30 == 0))
    return made


def diagnosis():
    rng = np.random.default_rng(0)
    features = pandas.DataFrame(rng.random((12, 2)), index=[EVIL, *"abcdefghijk"])
    arms = np.repeat(features.index, 20)
    rewards = rng.standard_normal(240) + np.repeat([9.0, *np.zeros(11)], 20)
    return diagnose(features, arms, rewards)


THINGS = {
    "result": lambda: rolf.Result([EVIL, "b"], np.ones((2, 3, 5)), {}),
    "summary": lambda: rolf.Result([EVIL, "b"], np.ones((2, 3, 5)), {}).summary(),
    "evaluation": lambda: rolf.Evaluation(
        [Value(EVIL, "ips", 0.4, 0.3, 0.5, 100.0)], 0.95, 300, [f"note {EVIL}"]
    ),
    "diagnosis": diagnosis,
    "status": lambda: experiment().status(),
    "decision": lambda: experiment().ask(available=[EVIL]),
}


@pytest.mark.parametrize("kind", THINGS)
def test_a_table_that_is_escaped_and_compact(kind):
    text = THINGS[kind]()._repr_html_()
    page = Cells(text)
    assert page.tags <= {"table", "tr", "th", "td", "b", "br"}
    assert any(EVIL in cell for cell in page.cells)
    assert len(text) < 12_000


def test_a_status_names_the_owner_of_its_intervals_and_leaves_arms_out():
    status = experiment().status()
    page = Cells(status._repr_html_())
    assert page.cells[:7] == [
        "arm",
        "plays",
        "told",
        "estimate",
        "rolf-bayes",
        "90% interval",
        "best",
    ]
    assert "rolf-lasso has no intervals" in page.text
    assert "and 10 more arms" in page.text
    assert "and 10 more arms" in str(status) == repr(status)


@pytest.mark.parametrize("show", [repr, lambda decision: decision._repr_html_()])
def test_showing_a_decision_estimates_nothing(show):
    """Thompson sampling knows the chance of an arm only from a thousand draws."""
    policy = rolf.LinTS(np.eye(4), seed=0)
    decision = policy.ask()
    calls = []
    estimate = decision._probability
    decision._probability = lambda: calls.append(1) or estimate()
    assert "estimated when read" in show(decision)
    assert calls == []
    chance = decision.probability
    assert calls == [1]
    assert repr(chance) in show(decision)


def test_a_decision_prints_as_it_was():
    decision = rolf.types.Decision("x-1", "a", 0.5, "b", True)
    shown = "Decision(id='x-1', arm='a', probability=0.5, greedy='b', matched=True)"
    assert repr(decision) == shown
