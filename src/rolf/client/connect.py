"""Connect to a database or a service, and open experiments there."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from rolf import __version__
from rolf.checks import between
from rolf.errors import InvalidArgument
from rolf.extras import require

if TYPE_CHECKING:
    from rolf.client.database import RemoteDatabase

#: the variable with the key
KEY = "ROLF_KEY"
#: seconds after which a request is given up, by default
TIMEOUT = 30.0


def connect(url: str, key: str | None = None, *, timeout: float = TIMEOUT) -> RemoteDatabase:
    """A service that ``rolf serve`` runs; nothing is sent yet.

    ``rolf.connect(url).experiment("banner").ask()`` is all it takes.

    Args:
        url: of the service, such as ``https://decisions.example.com``, with or without the ``/v1``
            of its API.
        key: an API key, as ``rolf keys new`` prints it; the variable ROLF_KEY by default.
        timeout: seconds after which a request is given up, all its attempts together. Calls that
            take several requests, such as an ask for thousands of decisions, may take longer.
    """
    require("httpx", "a client of the service")
    from rolf.client.database import RemoteDatabase
    from rolf.client.transport import Transport

    headers = {"User-Agent": f"rolf/{__version__}", "Accept": "application/json"}
    key = os.environ.get(KEY) if key is None else key
    if key is not None:
        headers["Authorization"] = f"Bearer {_checked_key(key)}"
    return RemoteDatabase(
        Transport(_checked_url(url), headers, between("timeout", timeout, 0.01, 1e6))
    )


def _checked_url(url: Any) -> str:
    expected = "http:// or https://, a host, and no user, password, query or fragment"
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and parts.hostname and "@" not in parts.netloc
        parts.port  # noqa: B018  (raises if it is none)
    except (ValueError, TypeError, AttributeError):
        good = False
    if not good or parts.query or parts.fragment or not url.isprintable():
        shown = url.partition(":")[0] + ":..." if isinstance(url, str) else type(url).__name__
        raise InvalidArgument("url", shown, expected)
    return str(url).rstrip("/").removesuffix("/v1")  # paths start with it


def _checked_key(key: Any) -> str:
    from rolf.client.arguments import fits_header

    if not fits_header(key):
        raise InvalidArgument("key", "something else", "a key as rolf keys new prints it")
    return str(key)
