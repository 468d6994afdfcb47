"""The decisions that wait for a reward, on the page of the service."""

from __future__ import annotations

import time

import pandas as pd
import pytest

import rolf
from support.browser import PHONE, needs_chromium
from support.watching import NASTY, SOON, Service, place_of, text_of

pytestmark = [needs_chromium, pytest.mark.slow]

#: milliseconds in which the page looks at the counts a few times; a status comes less often
TICKS = 7_000
ARMS = pd.DataFrame({"width": [0.0, 0.5, 1.0]}, index=["green", "red", NASTY])


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """A service that needs no keys."""
    service = Service(tmp_path_factory.mktemp("pending"), "--insecure-local", "--rate", "0")
    yield service.start()
    service.stop()


@pytest.fixture
def experiment(other, request):
    """A new experiment of that service."""
    name = request.node.name.partition("[")[0]
    with rolf.open_experiment(other.storage, name, features=ARMS, policy="ucb") as experiment:
        yield experiment
        experiment.delete(confirm=name)


@pytest.fixture
def watch(visit, other, experiment):
    """The page of the experiment."""

    def watch(**looks):
        page = visit(address=other.address, place=place_of(experiment.name), **looks)
        page.locator("[data-part=asked]").wait_for()
        return page

    return watch


def shown(page):
    """The ids, arms and ages in the list, row by row."""
    rows = page.locator(".pending tbody tr")
    return [tuple(row.locator("th, td").all_inner_texts()) for row in rows.all()]


def await_ids(page, decisions):
    """Wait until the list has these decisions, in this order."""
    page.wait_for_function(
        """ids => JSON.stringify(ids) === JSON.stringify(
          [...document.querySelectorAll(".pending tbody th")].map((each) => each.textContent))""",
        arg=[each.id for each in decisions],
    )


def summary(page):
    return page.locator("summary", has_text="Decisions waiting for a reward")


def test_the_latest_are_listed_live_and_by_keyboard(watch, experiment):
    asked = [experiment.ask(available=[arm]) for arm in ("green", "red", NASTY)]
    page = watch()
    requests = []
    page.on("request", lambda request: requests.append(request.url))
    page.wait_for_timeout(2_000)
    assert requests  # only whether anything has changed, as nobody looks at the list
    assert not any("/pending" in url for url in requests)
    for _ in range(20):
        page.keyboard.press("Tab")
        if summary(page).evaluate("node => node === document.activeElement"):
            break
    page.keyboard.press("Enter")
    await_ids(page, asked[::-1])
    assert [row[1] for row in shown(page)] == [NASTY, "red", "green"]
    assert page.locator("img").count() == 0
    assert text_of(page, "pendingRest") == ""

    page.wait_for_timeout(2_000)  # nothing happens
    assert sum("/pending" in url for url in requests) == 1
    experiment.tell(asked[1], 1.0)
    latest = experiment.ask()  # as many wait as before
    await_ids(page, [latest, asked[2], asked[0]])
    experiment.tell_many([(latest, 1.0), (asked[2], 1.0)])
    await_ids(page, [asked[0]])
    assert summary(page).evaluate("node => node === document.activeElement")
    page.keyboard.press("Space")
    page.wait_for_timeout(500)
    requests.clear()
    experiment.ask()
    page.wait_for_timeout(2_500)
    assert any("/status" in url for url in requests)
    assert not any("/pending" in url for url in requests)


def test_nothing_is_shown_when_nothing_waits(watch, experiment):
    page = watch()
    assert summary(page).is_hidden()
    decision = experiment.ask()
    summary(page).wait_for()
    summary(page).click()
    await_ids(page, [decision])
    experiment.tell(decision, 1.0)
    page.get_by_text("None at the moment.").wait_for()  # where somebody looks, nothing jumps
    assert page.locator(".pending table").is_hidden()
    decision = experiment.ask()
    await_ids(page, [decision])
    experiment.tell(decision, 1.0)
    page.get_by_text("None at the moment.").wait_for()
    summary(page).click()
    summary(page).wait_for(state="hidden")


def test_older_ones_are_counted(watch, experiment):
    asked = experiment.ask_many(1_013)
    page = watch()
    summary(page).click()
    await_ids(page, asked[:-11:-1])
    assert text_of(page, "pendingRest") == "and 1,003 older ones"
    experiment.tell_many([(each, 1.0) for each in asked[:1_002]])
    await_ids(page, asked[:-11:-1])
    page.get_by_text("and 1 older one", exact=True).wait_for()
    experiment.tell_many([(each, 1.0) for each in asked[1_003:]])
    await_ids(page, [asked[1_002]])
    assert text_of(page, "pendingRest") == ""
    experiment.tell_many([(each, 1.0) for each in experiment.ask_many(1_000)])
    page.get_by_text("1 decision, older than the latest 1,000", exact=True).wait_for()
    assert page.locator(".pending table").is_hidden()


def test_how_long_they_have_waited(watch, experiment):
    now = time.time()
    for seconds in (3 * 86_400 + 50, 2 * 3_600 + 50, 5 * 60 + 5, 20, -3_600):
        experiment.synced.now = lambda seconds=seconds: now - seconds
        experiment.ask()
    page = watch()
    summary(page).click()
    page.locator(".pending tbody tr").first.wait_for(timeout=TICKS)
    ages = [row[2] for row in shown(page)]
    assert ages[0] == "just now"  # by a clock that is ahead
    assert ages[2] in ("5m ago", "5min ago")  # which it is depends on the browser
    assert ages[3:] == ["2h ago", "3d ago"]
    seconds = int(ages[1].removesuffix("s ago"))
    assert 20 <= seconds < 20 + SOON / 1_000
    page.wait_for_function(
        """before => parseInt(
          document.querySelectorAll(".pending time")[1].textContent) > before""",
        arg=seconds,
        timeout=TICKS,
    )
    moment = page.locator(".pending time").nth(4).get_attribute("datetime")
    assert pd.Timestamp(moment).timestamp() == pytest.approx(now - 3 * 86_400 - 50, abs=0.01)


@pytest.mark.parametrize("width", [PHONE, 1400])
def test_a_list_with_long_names_fits(watch, experiment, width):
    name = "a headline without end " * 20 + "x" * 300
    experiment.add_arms(pd.DataFrame({"width": [2.0]}, index=[name]))
    experiment.ask(available=[name])
    page = watch(width=width)
    summary(page).click()
    page.locator(".pending tbody tr").first.wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") == width
    row = page.locator(".pending tbody tr").first.bounding_box()
    assert row["x"] + row["width"] <= width
    assert row["height"] < 250
