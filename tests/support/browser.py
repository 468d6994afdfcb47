"""Pages measured by a real browser, at the width of a phone."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
from contextlib import contextmanager

import pytest


def find_browser(*names: str) -> str | None:
    """The path of a browser. Where ROLF_NEEDS_BROWSER is 1, as in CI, there must be one."""
    path = next(filter(None, map(shutil.which, names)), None)
    if path is None and os.environ.get("ROLF_NEEDS_BROWSER") == "1":
        raise RuntimeError(f"ROLF_NEEDS_BROWSER is 1, and there is no {names[0]}")
    return path


CHROMIUM = find_browser("chromium", "chromium-browser", "google-chrome")
FIREFOX = find_browser("firefox-esr", "firefox")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium")
needs_firefox = pytest.mark.skipif(FIREFOX is None, reason="there is no firefox")
PHONE = 390

#: windows of a headless browser are at least 500 pixels wide; frames may have any width, and the
#: pages in them see only their frame
FRAMES = """<!doctype html><meta charset="utf-8"><body><script>
const pages = %s, found = {};
Promise.all(pages.map(page => new Promise(done => {
  const frame = document.createElement("iframe");
  frame.width = %d; frame.height = 800; frame.style.border = "0";
  frame.onload = () => {
    const root = frame.contentDocument.documentElement;
    found[page] = [frame.contentWindow.innerWidth, root.scrollWidth];
    done();
  };
  frame.src = page;
  document.body.append(frame);
}))).then(() => { document.body.innerHTML = "";
  document.body.append("measured: " + JSON.stringify(found) + " end"); });
</script></body>"""


def widths(folder, pages, width=PHONE):
    """How wide each page gets on a screen of this width; pages are relative to ``folder``."""
    names = [str(page) for page in pages]
    wrapper = folder / "frames-for-a-test.html"
    wrapper.write_text(FRAMES % (json.dumps(names), width))
    command = [
        CHROMIUM,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",  # as on a phone
        "--allow-file-access-from-files",
        "--disable-web-security",
        f"--user-data-dir={folder / 'browser-profile'}",
        "--virtual-time-budget=20000",
        "--dump-dom",
        wrapper.as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    shutil.rmtree(folder / "browser-profile", ignore_errors=True)
    wrapper.unlink()
    shown = re.search(r"measured: (.*) end", done.stdout)
    assert shown, done.stderr[-2000:]
    measured = json.loads(html.unescape(shown[1]))
    assert all(inner == width for inner, _ in measured.values())
    return {page: needed for page, (_, needed) in measured.items()}


@contextmanager
def running_browser():
    """Chromium, driven by Playwright."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()
