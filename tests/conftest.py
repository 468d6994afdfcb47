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
