"""Find the store for a URL, and show URLs without their secrets.

The URL's scheme decides. An installed package can add a store with an entry point in the group
``rolf.storage``, named after the scheme. Like the entries of ``SCHEMES``, it refers to a function
that takes the URL, whether to create a missing database, and the timeout of a call in seconds. It
returns a ``Store``, or None if there is no database and it should not create one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeAlias

from rolf.checks import between, is_text
from rolf.errors import InvalidArgument
from rolf.experiments.storage.contract import Store
from rolf.extras import require

OpenStore: TypeAlias = Callable[[str, bool, float], Store | None]

SCHEMES = {
    "memory": "rolf.experiments.storage.memory:open_store",
    "sqlite": "rolf.experiments.storage.sqlite.store:open_store",
    "postgresql": "rolf.experiments.storage.postgres.store:open_store",
    "postgres": "rolf.experiments.storage.postgres.store:open_store",
}
GROUP = "rolf.storage"  # of entry points
TIMEOUT = "ROLF_STORAGE_TIMEOUT"  # environment variable with the timeout in seconds
EXPECTED = "memory://, sqlite:///file.db or postgresql://user@host/database"


def connect(url: str, timeout: float | None = None) -> Store:
    """The store for a URL; the database is created if it does not exist."""
    store = _open_store(url)(url, True, _seconds(timeout))
    assert store is not None
    return store


def connect_existing(url: str, timeout: float | None = None) -> Store | None:
    """The store for a URL; None if the database does not exist."""
    return _open_store(url)(url, False, _seconds(timeout))


def check_url(url: Any) -> None:
    """Raise unless the URL's kind of database is supported here; nothing is opened."""
    _open_store(url)


def _seconds(timeout: float | None) -> float:
    """The timeout of a call."""
    if timeout is None:
        text = os.environ.get(TIMEOUT, "30")
        try:
            timeout = float(text)
        except ValueError:
            raise InvalidArgument(TIMEOUT, text, "a number of seconds") from None
        return between(TIMEOUT, timeout, 0.01, 1e6)
    return between("timeout", timeout, 0.01, 1e6)


def _open_store(url: Any) -> OpenStore:
    if not isinstance(url, str) or "\0" in url or not is_text(url):
        raise invalid_url(url)
    scheme, separator, _ = url.partition("://")
    if separator and scheme in SCHEMES:
        if scheme.startswith("postgres"):
            require("psycopg", "PostgreSQL")
        module, _, function = SCHEMES[scheme].partition(":")
        return getattr(import_module(module), function)  # type: ignore[no-any-return]
    from importlib import metadata

    for entry in metadata.entry_points(group=GROUP):
        if separator and entry.name == scheme:
            return entry.load()  # type: ignore[no-any-return]
    raise invalid_url(url)


def invalid_url(url: Any) -> InvalidArgument:
    return InvalidArgument("url", shown(url), EXPECTED)


def shown(url: Any) -> Any:
    """A URL safe to show: file names in full, otherwise only the scheme.

    The malformed part of a URL may be the one that contains the password.
    """
    if not isinstance(url, str):
        return url if isinstance(url, int | float | None) else type(url).__name__
    if re.fullmatch(r"(sqlite:/*)?[\w./\\ -]*", url):
        return url
    scheme = re.match(r"[A-Za-z][\w+.-]*(?=:)", url)
    return f"{scheme[0]}:..." if scheme else "..."
