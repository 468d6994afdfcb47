"""The files of the page: complete, and without what a strict content policy refuses."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

import rolf.service

PAGE = Path(rolf.service.__file__).parent / "page"
DOCS = Path(__file__).parents[3] / "docs" / "production" / "service.md"
#: of dist/chart.umd.min.js in the release of Chart.js
RELEASED = "87364cc2b2a76a6684929e7d6b80b18a897794db38400caff1fcf1791c6925d2"


def scripts():
    found = {path.name: path.read_text() for path in PAGE.glob("*.js")}
    assert len(found) > 5
    return found


@pytest.mark.parametrize("name", sorted(scripts()))
def test_no_html_is_made_from_data(name):
    text = scripts()[name]
    assert not re.search(r"(inner|outer)HTML|insertAdjacentHTML|document\.write|\beval\b", text)
    assert "://" not in text
    for imported in re.findall(r'from "\./(.*?)"', text):
        assert (PAGE / imported).is_file()


def test_the_page_has_nothing_inline_and_all_its_parts():
    html = (PAGE / "index.html").read_text()
    assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:|<script(?![^>]*src=)", html)
    places = re.findall(r'(?:src|href)="([^#"]+)"', html)
    assert len(places) >= 4
    for place in places:
        folder, _, file = place.partition("/")
        assert folder == "static"
        assert (PAGE / file).is_file()
    used = set(re.findall(r"parts\.(\w+)", "".join(scripts().values()))) - {"root"}
    assert used <= set(re.findall(r'data-part="(\w+)"', html))


def test_the_charting_library_is_the_released_one_with_its_licence():
    library = (PAGE / "vendor" / "chart.umd.min.js").read_bytes()
    assert hashlib.sha256(library).hexdigest() == RELEASED
    version = re.search(rb"Chart\.js v([\d.]+)", library)[1].decode()
    assert f"Chart.js {version}" in DOCS.read_text()
    assert "The MIT License" in (PAGE / "vendor" / "chart.js-LICENSE.md").read_text()
