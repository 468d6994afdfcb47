"""Fixtures shared by several test files."""

from __future__ import annotations

import pytest

from stores import KINDS, make_url


@pytest.fixture(scope="session")
def running():
    """A service in a process of its own, with SQLite."""
    from rolf.testing.service import RunningService

    with RunningService(make_url("sqlite"), "--rate", "0") as service:
        yield service


@pytest.fixture
def proxy(running):
    """A way to the service on which requests and answers can be lost."""
    from proxies import Proxy

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
    from served import service  # which needs more than other tests

    with service(max_body=100_000, rate=0.0) as client:
        client.url = client.app.state.service.settings.storage
        client.make("mine")
        client.make("other")
        yield client


@pytest.fixture(scope="module")
def routes(client):
    """Every route that needs a key, from the description: method, path, and its scope."""
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
