"""The page of the service, used in a real browser as people use it."""

from __future__ import annotations

import re
import threading

import numpy as np
import pytest

import rolf
from support.browser import needs_chromium
from support.watching import (
    BIG,
    NASTY,
    PRICES,
    SMALL,
    column,
    drawn,
    place_of,
    play,
    rows_of,
    text_of,
)

pytestmark = [needs_chromium, pytest.mark.slow]

#: of what matters in a chart on a dark page
DARK = "#84b6ff"


# --- keys ---


def test_logging_in_and_out(visit, watched, reader):
    page = visit(place=place_of(SMALL))
    page.get_by_label("API key").wait_for()
    assert page.title() == "Log in · rolf"
    field, problem = page.get_by_label("API key"), page.locator("form .problem")
    field.fill(reader[:-1] + ("a" if reader[-1] != "a" else "b"))
    page.get_by_role("button", name="Log in").click()
    problem.wait_for()
    assert "A valid key is needed" in problem.inner_text()
    assert re.search(r"Request [0-9a-f]{32}", problem.inner_text())
    assert field.get_attribute("aria-invalid") == "true"
    assert field.evaluate("node => node === document.activeElement")
    field.fill("nö key")
    page.keyboard.press("Enter")
    page.get_by_text("A key has only letters").wait_for()
    field.fill(f"  {reader} ")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name=SMALL).wait_for()  # where the bookmark led
    assert page.title() == f"{SMALL} · rolf"
    page.reload()
    page.get_by_role("heading", name=SMALL).wait_for()
    assert reader not in page.url
    assert page.evaluate("localStorage.length + document.cookie.length") == 0
    page.get_by_role("button", name="Log out").click()
    page.get_by_role("heading", name="Log in").wait_for()
    assert page.evaluate("sessionStorage.length") == 0


def test_a_revoked_key(visit, watched):
    key = watched.key("read")
    page = visit(key, place_of(SMALL))
    page.get_by_text("Best arm", exact=True).wait_for()
    watched.rolf("keys", "revoke", key)
    page.get_by_role("heading", name="Log in").wait_for()
    assert "The key is not valid." in page.locator(".problem").inner_text()


def test_a_key_for_one_experiment(visit, watched):
    page = visit(watched.key("read", "--experiment", SMALL))
    page.get_by_role("link", name=SMALL).wait_for()
    assert page.locator(".experiments li").count() == 1
    page.goto(f"{watched.address}/{place_of(BIG)}")
    page.get_by_text("There is nothing here").wait_for()
    assert re.search(r"Request [0-9a-f]{32}", page.locator("main .problem").inner_text())


# --- experiments ---


def test_the_list_of_experiments(visit, reader):
    page = visit(reader)
    items = page.locator(".experiments li")
    items.nth(1).wait_for()
    assert items.count() == 3
    text = items.nth(1).inner_text()
    assert "rolf-bayes" in text
    assert re.search(r"arms\s+1,000", text)
    page.get_by_label("Search").fill("BUTT")
    page.wait_for_function("() => document.querySelectorAll('.experiments li').length === 1")
    page.get_by_label("Search").fill("zebra")
    page.get_by_text("No experiment matches.").wait_for()
    page.get_by_label("Search").fill("")
    page.get_by_role("link", name=SMALL).click()
    page.get_by_role("heading", name=SMALL).wait_for()
    assert page.evaluate("location.hash") == place_of(SMALL)


def test_a_running_experiment_changes(visit, watched, reader):
    page = visit(reader, place_of(SMALL))
    asked = page.locator("[data-part=asked]")
    asked.wait_for()
    before = int(asked.inner_text())
    uplift = page.locator("[data-part=uplift]").inner_text()
    page.get_by_label("Search").fill("r")
    page.get_by_label("Search").evaluate("node => node.setSelectionRange(1, 1)")
    place = page.evaluate("() => { scrollTo(0, 150); return scrollY; }")
    assert place > 0

    def run():
        with rolf.open_experiment(watched.storage, SMALL) as experiment:
            play(experiment, 40, np.random.default_rng(1))

    thread = threading.Thread(target=run)
    thread.start()
    page.wait_for_function(
        "count => Number(document.querySelector('[data-part=asked]').textContent) === count",
        arg=before + 40,
    )
    thread.join()
    assert page.locator("[data-part=best]").inner_text() == NASTY
    assert re.match(r"best with a probability of [\d.<>]+%", text_of(page, "bestMore"))
    assert int(text_of(page, "pending")) == before + 40 - int(text_of(page, "told"))
    assert text_of(page, "uplift") != uplift
    assert page.evaluate("scrollY") == place
    assert page.get_by_label("Search").input_value() == "r"
    assert page.get_by_label("Search").evaluate("node => node === document.activeElement")
    assert set(column(page, 1)) == {"green", NASTY, "red (retired)"}


def test_who_holds_a_key_is_asked_once(visit, reader):
    page = visit(reader)
    requests = []
    page.on("request", lambda request: requests.append(request.url))
    page.reload()
    page.get_by_role("button", name="Log out").wait_for()
    page.wait_for_timeout(2_500)
    assert sum("/whoami" in url for url in requests) == 1


def test_an_idle_experiment_keeps_still_and_a_hidden_page_keeps_quiet(visit, reader):
    page = visit(reader, place_of(SMALL))
    rows_of(page).first.wait_for()
    page.wait_for_function("() => document.querySelector('[data-part=reason]').textContent")
    page.evaluate(
        """() => {
          window.changes = [];
          const note = (records) => window.changes.push(...records.map(({ target }) => target.id));
          const watched = { childList: true, subtree: true, attributes: true, characterData: true };
          new MutationObserver(note).observe(document.body, watched);
        }"""
    )
    requests = []
    page.on("request", lambda request: requests.append(request.url))
    page.wait_for_timeout(3_500)
    assert page.evaluate("window.changes") == []
    assert 2 <= len(requests) <= 3
    assert not any("/status" in url for url in requests)  # only whether anything has changed
    hide = """hidden => {
      Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
    }"""
    page.evaluate(f"() => {{ const hide = {hide}; hide(false); hide(true); }}")  # in mid-request
    page.wait_for_timeout(500)
    requests.clear()
    page.wait_for_timeout(2_500)
    assert requests == []
    with page.expect_request(lambda request: request.url.endswith(SMALL)):
        page.evaluate(hide, False)


def test_charts_uplift_and_verdict(visit, watched, reader):
    page = visit(reader, place_of(SMALL))
    page.locator("[data-part=asked]").wait_for()
    page.wait_for_function(
        "() => Boolean(Chart.getChart(document.querySelector('[data-part=timeline]')))"
    )
    with rolf.open_experiment(watched.storage, SMALL) as experiment:
        status = experiment.status(timeline=True, control="green")
    estimates, intervals, plays = drawn(page, "chart")
    arms = sorted(status.arms, key=lambda arm: (not arm.active, -arm.estimate))
    assert estimates == pytest.approx([arm.posterior_mean for arm in arms])
    assert np.ravel(intervals) == pytest.approx(np.ravel([(arm.low, arm.high) for arm in arms]))
    assert plays == [arm.plays for arm in arms]
    chart = page.locator("[data-part=chart]")
    assert chart.evaluate(
        """node => node.getContext("2d").getImageData(0, 0, node.width, node.height)
        .data.some(Boolean)"""
    )
    page.emulate_media(color_scheme="dark")
    assert chart.evaluate("node => Chart.getChart(node).data.datasets[0].backgroundColor") == DARK
    means, lower, upper, _ = drawn(page, "timeline")
    assert [point["y"] for point in means] == pytest.approx([p.mean for p in status.timeline])
    errors = [(high["y"] - low["y"]) / 2.0 for low, high in zip(lower, upper, strict=True)]
    assert errors == pytest.approx([period.stderr for period in status.timeline])
    assert NASTY in chart.get_attribute("aria-label")
    assert "equal share" in text_of(page, "upliftWords")
    page.get_by_label("against").select_option(label="green")
    page.get_by_text("green would earn").wait_for()
    assert f"{status.uplift.estimate:+.2f}" in text_of(page, "uplift")
    page.wait_for_function(
        "() => document.querySelector('[data-part=verdict]').textContent[0] !== 'L'"
    )
    assert text_of(page, "verdict") in {
        "Yes, almost entirely", "Only in part", "Hardly", "Too early to say"
    }  # fmt: skip
    assert text_of(page, "reason")


def test_arms_that_are_numbers(visit, reader):
    page = visit(reader, place_of(PRICES))
    rows_of(page).first.wait_for()
    page.get_by_label("against").select_option(label="1")
    page.get_by_text("1 would earn").wait_for()
    assert page.locator("main .problem").is_hidden()


def test_a_thousand_arms(visit, watched, reader):
    page = visit(reader, place_of(BIG))
    with page.expect_response(lambda response: "/status" in response.url) as status:
        page.reload()
    assert len(status.value.body()) > 100_000
    assert status.value.request.sizes()["responseBodySize"] < 60_000  # it is fetched often
    rows_of(page).first.wait_for()
    assert rows_of(page).count() == 25
    assert text_of(page, "range") == "1 to 25 of 1,000"
    assert len(drawn(page, "chart")[0]) == 20
    page.get_by_label("In the chart").select_option("50")
    assert len(drawn(page, "chart")[0]) == 50

    plays = page.get_by_role("button", name="Plays")
    plays.click()
    shown = [int(text.replace(",", "")) for text in column(page, 5)]
    assert shown == sorted(shown, reverse=True)
    assert shown[0] > 0
    header = page.locator("th", has=plays)
    assert header.get_attribute("aria-sort") == "descending"
    plays.click()
    assert header.get_attribute("aria-sort") == "ascending"
    assert set(column(page, 5)) == {"0"}
    page.get_by_role("button", name="Arm", exact=True).click()
    assert column(page, 1)[:3] == [NASTY, "headline 0", "headline 1"]
    page.get_by_role("button", name="Next").click()
    assert text_of(page, "range") == "26 to 50 of 1,000"
    assert column(page, 1)[0] == "headline 24"
    page.get_by_label("Rows").select_option("1000")
    assert rows_of(page).count() == 1000

    page.get_by_label("Search").fill("Headline 99")
    assert column(page, 1) == ["headline 99", *(f"headline {n}" for n in range(990, 998))]
    assert text_of(page, "armsSummary") == "9 of 1,000 arms"
    page.wait_for_function(
        "() => document.getElementById('announcer').textContent === '9 arms found'"
    )
    page.get_by_label("Search").fill("the end")
    assert column(page, 1) == ["The END"]
    page.get_by_label("Search").fill("onerror")
    assert column(page, 1) == [NASTY]
    assert page.locator("img").count() == 0
    page.get_by_label("Search").fill("nothing like it")
    page.get_by_text("No arm matches.").wait_for()
    page.get_by_label("Search").fill("")
    page.get_by_label("Show").select_option(label="arms with plays")
    assert 0 < rows_of(page).count() < 100


def test_pausing_and_resuming(visit, watched, reader):
    page = visit(reader, place_of(SMALL))
    page.locator("[data-part=asked]").wait_for()
    assert page.get_by_role("button", name="Pause").count() == 0
    page = visit(watched.key("admin"), place_of(SMALL))
    with rolf.open_experiment(watched.storage, SMALL) as experiment:
        page.get_by_role("button", name="Pause").click()
        page.get_by_role("button", name="Cancel").click()
        assert not experiment.status().paused
        page.get_by_role("button", name="Pause").click()
        dialog = page.get_by_role("dialog")
        assert "refused until it is resumed" in dialog.inner_text()
        dialog.get_by_role("button", name="Pause").click()
        page.get_by_text("paused", exact=True).wait_for()
        assert experiment.status().paused
        page.get_by_role("button", name="Resume").click()
        page.get_by_role("dialog").get_by_role("button", name="Resume").click()
        page.get_by_text("paused", exact=True).wait_for(state="hidden")
        assert not experiment.status().paused
