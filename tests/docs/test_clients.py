"""The examples of the page on clients, with a real service: Python, curl and JavaScript."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import rolf
from support.browser import CHROMIUM, needs_chromium

ROOT = Path(__file__).parents[2]
PAGE, README = ROOT / "docs" / "production" / "clients.md", ROOT / "README.md"
ADDRESS = "http://127.0.0.1:8000"


def blocks(language, service, page=PAGE):
    """The blocks of a language, with the address of the service."""
    found = re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    assert found
    return [each.replace(ADDRESS, service.url) for each in found]


def test_python(running, monkeypatch, capsys):
    monkeypatch.setenv("ROLF_KEY", running.key)
    space = {"__name__": "__main__"}
    for code in blocks("python", running):
        exec(compile(code, str(PAGE), "exec"), space)
    assert "Counts(asked=5, told=2)" in capsys.readouterr().out
    (code,) = blocks("python service", running, README)
    exec(compile(code, str(README), "exec"), space | {"key": running.key})
    assert space["banner"].counts() == (6, 3)
    space["service"].close()


def shell(code, running, folder, key):
    words = ["bash", "-eu", "-o", "pipefail", "-c", code]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "ROLF_KEY": key, "PATH": path}
    return subprocess.run(words, env=environment, cwd=folder, capture_output=True, text=True)


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl")
def test_curl(running, tmp_path):
    start, code = blocks("sh", running)
    serve, new_key = start.replace("sqlite:///shop.db", running.storage).splitlines()
    assert serve.startswith("rolf serve --storage")
    made = shell(f'{new_key}\necho "$ROLF_KEY"', running, tmp_path, "").stdout.strip()
    assert made.startswith("rolf_")
    for _ in range(2):  # the same visit is decided once
        done = shell(code, running, tmp_path, made)
        assert done.returncode == 0, done.stderr + done.stdout
    status = json.loads(done.stdout.splitlines()[-1].partition('"new":0}')[2] or "{}")
    assert (status["asked"], status["told"], status["total_reward"]) == (1, 1, 1.0)
    assert (tmp_path / "shop.csv").read_text().count("\n") == 2
    refused = shell(code, running, tmp_path, "rolf_none")
    assert refused.returncode != 0
    assert "/problems/unauthorized" in refused.stdout


@pytest.fixture
def shop(running):
    """The experiment of the example, without decisions."""
    with rolf.connect(running.url, running.key) as service:
        for each in service.experiments():
            if each.name == "shop":
                service.experiment("shop").delete(confirm="shop")
        arms = [{"arm": "red", "width": 1.0}, {"arm": "blue", "width": 2.5}]
        yield service.create("shop", features=arms)


@pytest.mark.skipif(shutil.which("node") is None, reason="no node")
def test_javascript_in_node(running, shop, tmp_path):
    (code,) = blocks("js", running)
    (tmp_path / "visit.mjs").write_text(code)
    environment = {**os.environ, "ROLF_KEY": running.key}
    words = ["node", tmp_path / "visit.mjs"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"(red|blue) [\d.]+\n", done.stdout)
    assert shop.counts() == (1, 1)


@pytest.mark.slow
@needs_chromium
def test_javascript_in_a_browser(running, shop):
    from playwright.sync_api import sync_playwright

    (code,) = blocks("js", running)
    said = []
    with sync_playwright() as playwright:
        options = {"executable_path": CHROMIUM, "args": ["--no-sandbox"]}
        browser = playwright.chromium.launch(**options)
        page = browser.new_page(bypass_csp=True)
        page.on("console", lambda message: said.append(message.text))
        page.goto(f"{running.url}/healthz")
        process = json.dumps({"env": {"ROLF_KEY": running.key}})
        page.evaluate(f"async () => {{ const process = {process};\n{code} }}")
        browser.close()
    assert re.fullmatch(r"(red|blue) [\d.]+", said[-1])
    assert shop.counts() == (1, 1)
