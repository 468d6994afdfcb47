"""The page of the service when something is wrong, and for everybody: keyboard, phone, colours."""

from __future__ import annotations

import re

import numpy as np
import pytest

import rolf
from support.browser import PHONE, needs_chromium
from support.stores import start_server
from support.watching import BIG, SMALL, Service, column, place_of, play, rows_of

pytestmark = [needs_chromium, pytest.mark.slow]

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


# --- errors ---


def test_a_lost_connection(visit, watched, reader):
    page = visit(reader, place_of(SMALL))
    asked = page.locator("[data-part=asked]")
    asked.wait_for()
    page.get_by_label("Search").fill("green")
    before = asked.inner_text()
    watched.stop()
    try:
        notice = page.get_by_role("alert").filter(has_text="Connection lost")
        notice.wait_for()
        assert "The service cannot be reached" in notice.inner_text()
        assert re.search(r"Retrying in \d+ s", page.locator("#notice").inner_text())
        assert asked.inner_text() == before
    finally:
        watched.start()
    with rolf.open_experiment(watched.storage, SMALL) as experiment:
        play(experiment, 3, np.random.default_rng(2))
    page.get_by_role("button", name="Try now").click()
    notice.wait_for(state="hidden")
    page.wait_for_function(
        "count => Number(document.querySelector('[data-part=asked]').textContent) === count",
        arg=int(before) + 3,
    )
    assert page.get_by_label("Search").input_value() == "green"
    assert column(page, 1) == ["green"]


def test_too_many_requests_and_no_keys(visit, watched, tmp_path):
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
        if name in (BIG, SMALL):
            page.locator(".pending summary").click()
            page.locator(".pending tbody tr").first.wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert page.evaluate(FAINT) == []
