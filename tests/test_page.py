"""The page of the service, used in a real browser as people use it."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading

import numpy as np
import pandas as pd
import pytest

import rolf
from browser import PHONE, needs_chromium, running_browser
from stores import start_server

pytestmark = [needs_chromium, pytest.mark.slow]

ROLF = [sys.executable, "-c", "from rolf.cli import main; main()"]
#: milliseconds until something must have happened
SOON = 10_000
NASTY = "<img src=x onerror=alert(1)>"
#: of what matters in a chart on a dark page
DARK = "#84b6ff"
BIG, SMALL = "headlines of the day", "buttons"

#: the contrast of every visible text with what lies behind it; those below 4.5
FAINT = """() => {
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((each) => each / 255)
    .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = (node) => {
    for (let each = node; each; each = each.parentElement) {
      const colour = parse(getComputedStyle(each).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const faint = [];
  while (texts.nextNode()) {
    const node = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || !node.checkVisibility()) continue;
    if (node.closest("[aria-disabled=true], .unseen, option")) continue;
    const [a, b] = [light(parse(getComputedStyle(node).color)), light(ground(node))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) faint.push([texts.currentNode.data.trim(), contrast]);
  }
  return faint;
}"""


class Service:
    """``rolf serve`` in a process of its own, on a SQLite file."""

    def __init__(self, folder, *options, storage=None):
        self.storage = storage or f"sqlite:///{folder / 'page.db'}"
        self.log = folder / "log.txt"
        self.options = options
        self.port = 0
        self.process = None

    def start(self):
        command = [*ROLF, "serve", "--storage", self.storage]
        command += ["--port", str(self.port), *self.options]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        found = re.search(r"http://127\.0\.0\.1:(\d+)", self.process.stdout.readline())
        if found is None:
            self.stop()
            raise AssertionError(self.log.read_text())
        self.address, self.port = found[0], int(found[1])
        return self

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=30)
        self.process.stdout.close()

    def rolf(self, *words):
        command = [*ROLF, *words, "--storage", self.storage]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def key(self, scope, *more):
        return self.rolf("keys", "new", "--scope", scope, *more).split()[-1]


def play(experiment, rounds, rng, told=1.0):
    """Ask and tell; better rewards for arms with a larger first feature."""
    means = {record.arm: record.features["width"] for record in experiment.arms()}
    for _ in range(rounds):
        decision = experiment.ask()
        if rng.random() < told:
            experiment.tell(decision, means[decision.arm] + 0.1 * float(rng.normal()))


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    service = Service(tmp_path_factory.mktemp("service"))
    rng = np.random.default_rng(0)
    for name, names in {
        BIG: [NASTY, "The END", *(f"headline {number}" for number in range(998))],
        SMALL: ["green", "red", NASTY],
    }.items():
        features = pd.DataFrame(
            {"width": np.linspace(0.0, 1.0, len(names)), "height": rng.normal(size=len(names))},
            index=names,
        )
        with rolf.open_experiment(service.storage, name, features=features, seed=1) as experiment:
            play(experiment, 60, rng, told=0.9)
            if name == SMALL:
                experiment.retire_arms(["red"])
    yield service.start()
    service.stop()


@pytest.fixture(scope="module")
def reader(service):
    return service.key("read")


@pytest.fixture(scope="module")
def browser():
    with running_browser() as browser:
        yield browser


@pytest.fixture
def visit(browser, service):
    """Opens the page in a window of its own; at the end, nothing may have gone wrong in it."""
    opened, wrong, hosts, expected = [], [], set(), set()

    def visit(key=None, place="", width=1400, scheme="light", address=None):
        address = address or service.address
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce"
        )
        context.set_default_timeout(SOON)
        opened.append(context)
        page = context.new_page()
        page.on("console", lambda message: wrong.append(message.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda dialog: (wrong.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: hosts.add("/".join(request.url.split("/")[:3])))
        page.goto(f"{address}/{place}")
        if key is not None:
            page.get_by_label("API key").fill(key)
            page.keyboard.press("Enter")
            page.get_by_role("button", name="Log out").wait_for()
        expected.add(address)
        return page

    yield visit
    for context in opened:
        context.close()
    assert hosts <= expected
    # a browser reports answers such as 401 by itself
    assert [text for text in wrong if not text.startswith("Failed to load resource")] == []


def place_of(name):
    return f"#/experiments/{name.replace(' ', '%20')}"


def rows_of(page):
    return page.locator("tbody tr")


def column(page, number):
    return page.locator(f"tbody tr > :nth-child({number})").all_inner_texts()


def text_of(page, part):
    return page.locator(f"[data-part={part}]").inner_text()


def drawn(page, part):
    """What Chart.js has drawn on a canvas."""
    return page.evaluate(
        """part => {
          const canvas = document.querySelector(`[data-part=${part}]`);
          return Chart.getChart(canvas).data.datasets.map(({ data }) => data);
        }""",
        part,
    )


# --- keys ---


def test_logging_in_and_out(visit, service, reader):
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


def test_a_revoked_key(visit, service):
    key = service.key("read")
    page = visit(key, place_of(SMALL))
    page.get_by_text("Best arm", exact=True).wait_for()
    service.rolf("keys", "revoke", key)
    page.get_by_role("heading", name="Log in").wait_for()
    assert "The key is not valid." in page.locator(".problem").inner_text()


def test_a_key_for_one_experiment(visit, service):
    page = visit(service.key("read", "--experiment", SMALL))
    page.get_by_role("link", name=SMALL).wait_for()
    assert page.locator(".experiments li").count() == 1
    page.goto(f"{service.address}/{place_of(BIG)}")
    page.get_by_text("There is nothing here").wait_for()
    assert re.search(r"Request [0-9a-f]{32}", page.locator("main .problem").inner_text())


# --- experiments ---


def test_the_list_of_experiments(visit, reader):
    page = visit(reader)
    items = page.locator(".experiments li")
    items.nth(1).wait_for()
    assert items.count() == 2
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


def test_a_running_experiment_changes(visit, service, reader):
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
        with rolf.open_experiment(service.storage, SMALL) as experiment:
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
    assert int(text_of(page, "waiting")) == before + 40 - int(text_of(page, "told"))
    assert text_of(page, "uplift") != uplift
    assert page.evaluate("scrollY") == place
    assert page.get_by_label("Search").input_value() == "r"
    assert page.get_by_label("Search").evaluate("node => node === document.activeElement")
    assert set(column(page, 1)) == {"green", NASTY, "red (retired)"}


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


def test_charts_uplift_and_verdict(visit, service, reader):
    page = visit(reader, place_of(SMALL))
    page.locator("[data-part=asked]").wait_for()
    page.wait_for_function(
        "() => Boolean(Chart.getChart(document.querySelector('[data-part=timeline]')))"
    )
    with rolf.open_experiment(service.storage, SMALL) as experiment:
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


def test_a_thousand_arms(visit, service, reader):
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


def test_pausing_and_resuming(visit, service, reader):
    page = visit(reader, place_of(SMALL))
    page.locator("[data-part=asked]").wait_for()
    assert page.get_by_role("button", name="Pause").count() == 0
    page = visit(service.key("admin"), place_of(SMALL))
    with rolf.open_experiment(service.storage, SMALL) as experiment:
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


# --- errors ---


def test_a_lost_connection(visit, service, reader):
    page = visit(reader, place_of(SMALL))
    asked = page.locator("[data-part=asked]")
    asked.wait_for()
    page.get_by_label("Search").fill("green")
    before = asked.inner_text()
    service.stop()
    try:
        notice = page.get_by_role("alert").filter(has_text="Connection lost")
        notice.wait_for()
        assert "The service cannot be reached" in notice.inner_text()
        assert re.search(r"Retrying in \d+ s", page.locator("#notice").inner_text())
        assert asked.inner_text() == before
    finally:
        service.start()
    with rolf.open_experiment(service.storage, SMALL) as experiment:
        play(experiment, 3, np.random.default_rng(2))
    page.get_by_role("button", name="Try now").click()
    notice.wait_for(state="hidden")
    page.wait_for_function(
        "count => Number(document.querySelector('[data-part=asked]').textContent) === count",
        arg=int(before) + 3,
    )
    assert page.get_by_label("Search").input_value() == "green"
    assert column(page, 1) == ["green"]


def test_too_many_requests_and_no_keys(visit, service, tmp_path):
    other = Service(tmp_path, "--insecure-local", "--rate", "0.2", "--burst", "2").start()
    try:
        page = visit(address=other.address)
        page.get_by_text("There are no experiments yet").wait_for()
        assert page.get_by_role("button", name="Log out").count() == 0
        notice = page.get_by_role("alert").filter(has_text="There were too many requests")
        notice.wait_for()
        assert re.search(r"Request [0-9a-f]{32}", notice.inner_text())
        assert re.search(r"Retrying in [345] s", page.locator("#notice").inner_text())
    finally:
        page.close()
        other.stop()


def test_a_database_that_is_gone(visit, tmp_path, monkeypatch):
    monkeypatch.setenv("ROLF_SERVE_STORAGE_TIMEOUT", "1")
    database = start_server()
    other = Service(tmp_path, "--insecure-local", storage=database.get_uri()).start()
    try:
        page = visit(address=other.address)
        page.get_by_text("There are no experiments yet").wait_for()
        database.cleanup()
        notice = page.get_by_role("alert").filter(has_text="The database cannot be reached")
        notice.wait_for()
        assert re.search(r"Request [0-9a-f]{32}", notice.inner_text())
        assert page.locator("#state").inner_text() == "retrying"
    finally:
        page.close()
        other.stop()


# --- for everybody ---


def test_by_keyboard_alone(visit, reader):
    page = visit()
    page.get_by_label("API key").wait_for()

    def focused():
        return page.evaluate(
            """() => { const node = document.activeElement, style = getComputedStyle(node);
            return { outside: node === document.body, text: node.textContent.trim(),
              label: node.labels?.[0]?.textContent.trim(),
              seen: parseFloat(style.outlineWidth) >= 2 && style.outlineStyle !== 'none' }; }"""
        )

    def tab_to(text):
        for _ in range(30):
            page.keyboard.press("Tab")
            found = focused()
            assert found["seen"] or found["outside"], found
            if text in (found["text"], found["label"]):
                return
        raise AssertionError(f"{text} is not reached")

    page.keyboard.press("Tab")
    page.keyboard.type(reader)
    page.keyboard.press("Enter")
    page.get_by_role("link", name=SMALL).wait_for()
    tab_to(SMALL)
    page.keyboard.press("Enter")
    rows_of(page).first.wait_for()
    page.reload()
    rows_of(page).first.wait_for()
    tab_to("Skip to the content")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    assert page.evaluate("location.hash") == place_of(SMALL)
    tab_to("Search")
    page.keyboard.type("gre")
    assert column(page, 1) == ["green"]
    tab_to("Plays")
    page.keyboard.press("Enter")
    page.keyboard.press("Space")
    assert page.locator("th", has_text="Plays").get_attribute("aria-sort") == "ascending"
    assert focused()["text"] == "Plays"
    for landmark in ("banner", "main", "navigation"):
        assert page.get_by_role(landmark).count() == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [PHONE, 1400])
def test_looks(visit, reader, width, scheme):
    """Nothing to scroll sideways, and text that can be read."""
    page = visit(width=width, scheme=scheme)
    page.get_by_label("API key").wait_for()
    for name in (None, "", BIG, SMALL, "no such thing"):
        if name is not None:
            if name == "":
                page.get_by_label("API key").fill(reader)
                page.keyboard.press("Enter")
            else:
                page.goto(page.url.partition("#")[0] + place_of(name))
            ready = {"": ".experiments li", "no such thing": "main .problem"}
            page.locator(ready.get(name, "tbody tr")).first.wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert page.evaluate(FAINT) == []
