"""The page of the service in Firefox, which knows other rules than Chromium."""

from __future__ import annotations

import pytest

import rolf
from support.browser import needs_firefox
from support.firefox import ENTER, running_firefox
from support.watching import BIG, NASTY, PRICES, SMALL, place_of

pytestmark = [needs_firefox, pytest.mark.slow]


@pytest.fixture(scope="module")
def firefox(tmp_path_factory):
    with running_firefox(tmp_path_factory.mktemp("firefox")) as firefox:
        yield firefox


def test_from_the_key_to_an_experiment(firefox, watched, reader):
    firefox.open(f"{watched.address}/")
    firefox.type("#key", "rolf_wrong" + ENTER)
    firefox.wait("return document.querySelector('form .problem').innerText.includes('key')")
    firefox.run("document.querySelector('#key').value = ''")
    firefox.type("#key", reader + ENTER)
    firefox.wait("return document.querySelectorAll('.experiments li').length === 3")
    assert all(name in firefox.text() for name in (BIG, SMALL, PRICES))
    firefox.run("document.querySelector('main input[type=search]').value = ''")
    firefox.type("main input[type=search]", "BUTT")
    firefox.wait("return document.querySelectorAll('.experiments li').length === 1")
    firefox.click(".experiments li a")
    firefox.wait("return document.querySelectorAll('tbody tr').length >= 3")
    assert firefox.run("return location.hash") == place_of(SMALL)
    with rolf.open_experiment(watched.storage, SMALL) as experiment:
        asked = experiment.counts().asked  # other tests ask, too
    firefox.wait(f"return +document.querySelector('[data-part=asked]').innerText === {asked}")
    assert NASTY in firefox.text()  # as text, never as an element
    assert firefox.run("return document.querySelectorAll('tbody img').length") == 0
    charts = (
        "return [...document.querySelectorAll('canvas')].filter(each => Chart.getChart(each)"
        "?.data.datasets.some(({ data }) => data.length)).length"
    )
    firefox.wait(f"{charts} > 0")
    firefox.click("#leave")
    firefox.find("#key")
    assert firefox.run("return sessionStorage.length + document.cookie.length") == 0
    assert firefox.console(watched.address) == []


def test_what_goes_wrong_in_a_page_is_noticed(firefox, tmp_path):
    (tmp_path / "page.html").write_text('<!doctype html><script src="page.js"></script>')
    (tmp_path / "page.js").write_text("console.warn('written'); throw new Error('thrown')")
    firefox.open((tmp_path / "page.html").as_uri())
    said = firefox.console(tmp_path.as_uri())
    assert said[0] == "Error: thrown"
    assert "written" in said[1]
