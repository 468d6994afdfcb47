"""The site: built strictly, complete, and loading nothing from other servers."""

from __future__ import annotations

import inspect
import os
import re
import runpy
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import nbformat
import pytest
from ipykernel.kernelspec import install
from nbclient import NotebookClient

import rolf
from support.browser import PHONE, needs_chromium, widths

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "examples" / "quickstart.ipynb"
LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}
ELSEWHERE = re.compile(r"^\s*(?:https?:)?//", re.IGNORECASE)
IN_CSS = re.compile(r"(?:@import\s+|url\()\s*[\"']?\s*((?:https?:)?//[^\"')\s]+)", re.IGNORECASE)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


class Resources(HTMLParser):
    """What a browser would load to show a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if tag == "link" and given.get("rel") == "canonical":
            return
        self.found.append(given.get(LOADED.get(tag, ""), "") or "")
        self.found += IN_CSS.findall(given.get("style", "") or "")


def loaded_by(page: str) -> list[str]:
    reader = Resources()
    reader.feed(page)
    return [each for each in reader.found if ELSEWHERE.match(each)] + IN_CSS.findall(page)


def test_nothing_is_loaded_from_elsewhere(site):
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > len(rolf.policy_classes())
    for page in pages:
        assert loaded_by(page.read_text()) == [], page.name
    for sheet in site.rglob("*.css"):
        assert IN_CSS.findall(sheet.read_text()) == [], sheet.name


@pytest.mark.parametrize(
    "text",
    [
        '<script src="https://example.org/a.js"></script>',
        '<link rel="stylesheet" href="//example.org/a.css">',
        '<img alt="" src="http://example.org/a.png">',
        "<style>@import 'https://example.org/a.css';</style>",
        '<p style="background: url(https://example.org/a.png)">',
    ],
)
def test_what_comes_from_elsewhere_is_noticed(text):
    assert loaded_by(text)


def test_what_is_loaded_exists(site):
    for page in site.rglob("*.html"):
        if page.name == "404.html":  # its addresses start at the root of a server
            continue
        reader = Resources()
        reader.feed(page.read_text())
        for each in filter(None, reader.found):
            if not each.startswith("data:"):
                target = page.parent / each.partition("#")[0].partition("?")[0]
                assert target.exists(), f"{page.name}: {each}"


def test_pictures_for_narrow_screens(site):
    """A picture that has a narrow version is offered with it."""
    offered = set()
    for page in site.rglob("*.html"):
        for source in re.findall(r'<source media="[^"]+" srcset="([^"]+)">', page.read_text()):
            assert (page.parent / source).exists(), f"{page.name}: {source}"
            offered.add(Path(source).name)
    shown = "".join(page.read_text() for page in (ROOT / "docs").rglob("*.md"))
    narrow = {path.name for path in (ROOT / "docs" / "images").glob("*-narrow.png")}
    assert offered == {name for name in narrow if name.replace("-narrow", "") in shown}
    assert offered


@pytest.mark.slow
@needs_chromium
def test_no_page_is_wider_than_a_phone(site):
    pages = sorted(str(page.relative_to(site)) for page in site.rglob("*.html"))
    found = widths(site, [page for page in pages if page != "404.html"])
    assert {page: width for page, width in found.items() if width > PHONE} == {}


def test_the_home_leads_to_every_part(site):
    home = (ROOT / "docs" / "index.md").read_text()
    pages = sorted((ROOT / "docs").glob("*/*.md"))
    parts = [path.relative_to(ROOT / "docs").as_posix() for path in pages]
    assert len(parts) > 15
    assert [
        name for name in parts if f"**]({name})" not in home and f"]({name})**" not in home
    ] == []


def test_formulas_are_rendered(site):
    pages = [site / "start" / "model.html", *(site / "decide" / "policies").glob("*.html")]
    for page in pages:
        text = page.read_text()
        assert "<math " in text, page.name
        assert "arithmatex" not in text, page.name
        assert "$" not in re.sub(r"<(script|code|pre)\b.*?</\1>", "", text, flags=re.DOTALL)


@pytest.mark.parametrize("cls", rolf.policy_classes(), ids=lambda cls: cls.name)
def test_every_policy_has_a_page(site, cls):
    source = ROOT / "docs" / "decide" / "policies" / f"{cls.name}.md"
    text = source.read_text()
    for heading in ("What it does", "Equations", "Settings", "Cost", "When to use it", "Example"):
        assert f"\n## {heading}\n" in text, heading
    assert "```python" in text
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", text, re.MULTILINE))
    expected = {
        name: option.default
        for name, option in inspect.signature(cls).parameters.items()
        if name not in ("features", "seed")
    }
    assert list(rows) == list(expected)
    for name, default in expected.items():
        if default is not None:
            assert rows[name].strip() == f"`{default!r}`", name
    assert (site / "decide" / "policies" / f"{cls.name}.html").exists()
    assert f'href="policies/{cls.name}.html"' in (site / "decide" / "policies.html").read_text()


def test_the_reference_holds_every_public_name(site):
    anchors = re.findall(r'id="rolf\.([\w.]+)"', (site / "reference" / "api.html").read_text())
    shown = {anchor.rpartition(".")[2] for anchor in anchors}
    public = {*rolf.__all__, *rolf.environments.__all__, "reproduce", "departures"}
    modules = {"diagnosis", "environments", "parallel", "theory"}
    assert public - modules - {"__version__"} <= shown


def test_the_numbers_of_the_model_page(monkeypatch):
    """The table shows what its script measures, up to rounding on another machine."""
    scripts = ROOT / "docs" / "scripts"
    monkeypatch.syspath_prepend(str(scripts))  # as for a script that is started
    script = runpy.run_path(str(scripts / "model_figures.py"))
    result = script["play"](script["RUNS"])
    table = (ROOT / "docs" / "start" / "model.md").read_text()
    for row, share in zip(result.summary(), script["locked"](result), strict=True):
        found = re.search(rf"^\| {re.escape(row.policy)} \|(.+)\|$", table, re.MULTILINE)
        told = [float(cell.strip(" %")) for cell in found[1].split("|")]
        assert told == pytest.approx([row.mean, row.max, 100 * share], rel=0.05, abs=2.0)


def test_the_notebook_has_no_outputs():
    for cell in nbformat.read(NOTEBOOK, as_version=4).cells:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


def test_the_notebook_runs(tmp_path, monkeypatch):
    """In this environment, whatever other kernels the machine has."""
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "share" / "jupyter"))
    for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    install(prefix=str(tmp_path), kernel_name="rolf-test")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    client = NotebookClient(
        notebook,
        kernel_name="rolf-test",
        timeout=300,
        resources={"metadata": {"path": str(tmp_path)}},
    )
    client.execute()
    outputs = [out for cell in notebook.cells for out in cell.get("outputs", [])]
    assert any("image/png" in out.get("data", {}) for out in outputs)  # the plot
    assert (tmp_path / "quickstart.parquet").exists()
