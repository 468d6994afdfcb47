"""Fixtures shared by several test files."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

import rolf
from support.browser import running_browser
from support.stores import KINDS, make_url
from support.watching import SOON, Service, make_experiments


@pytest.fixture(scope="session")
def running():
    """A service in a process of its own, with SQLite."""
    from rolf.testing.service import RunningService

    with RunningService(make_url("sqlite"), "--rate", "0") as service:
        yield service


@pytest.fixture
def service(running):
    """A client of it."""
    with rolf.connect(running.url, running.key) as service:
        yield service


@pytest.fixture
def proxy(running):
    """A proxy on the way to the service, which can lose requests and answers."""
    from support.proxies import Proxy

    proxy = Proxy(running.port)
    yield proxy
    proxy.close()


@pytest.fixture(params=KINDS)
def url(request):
    """The URL of an empty database, of every kind."""
    return make_url(request.param)


@pytest.fixture(params=KINDS[1:])
def shared_url(request):
    """The URL of a database that several processes can share."""
    return make_url(request.param)


@pytest.fixture(scope="module")
def client():
    """A client of a service with two experiments, mine and other."""
    from support.served import service  # imports more than other tests need

    with service(max_body=100_000, rate=0.0) as client:
        client.url = client.app.state.service.settings.storage
        client.make("mine")
        client.make("other")
        yield client


@pytest.fixture(scope="module")
def routes(client):
    """Every route that needs a key, read from the OpenAPI description: method, path and scope."""
    paths = client.get("/openapi.json").json()["paths"]
    found = [
        (method.upper(), path, operation["x-scope"])
        for path, operations in paths.items()
        for method, operation in operations.items()
        if operation.get("security")
    ]
    assert len(found) >= 20
    for path, operations in paths.items():
        assert all("security" in each for each in operations.values()) or path in (
            "/healthz",
            "/readyz",
        )
    return found


@pytest.fixture(scope="session")
def watched(tmp_path_factory):
    """A running service with experiments in a SQLite file."""
    service = Service(tmp_path_factory.mktemp("service"))
    make_experiments(service.storage)
    yield service.start()
    service.stop()


@pytest.fixture(scope="session")
def reader(watched):
    """A key with the scope read."""
    return watched.key("read")


@pytest.fixture(scope="session")
def browser():
    with running_browser() as browser:
        yield browser


@pytest.fixture
def visit(browser, watched):
    """Open the page in a new window. When the test ends, no window may have reported an error."""
    opened, wrong, hosts, expected = [], [], set(), set()

    def visit(key=None, place="", width=1400, scheme="light", address=None):
        address = address or watched.address
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


@pytest.fixture
def public():
    """A folder that every user can reach; pytest's own are private."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        os.chmod(name, 0o755)
        yield Path(name)
