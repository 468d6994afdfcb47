"""Which store a URL means, and how a URL is shown without its secrets.

The scheme of the URL decides. An installed package adds a store of its own with an entry point in
the group ``rolf.storage`` whose name is the scheme. Like the entries of ``SCHEMES`` it refers to a
function that takes the URL, whether to create a database that does not exist, and after how many
seconds a call gives up. It returns a ``Store``, or None if there is no database and none is to be
created.
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
TIMEOUT = "ROLF_STORAGE_TIMEOUT"  # the variable with the number of seconds, for all databases
EXPECTED = "memory://, sqlite:///file.db or postgresql://user@host/database"


def connect(url: str, timeout: float | None = None) -> Store:
    """The store of a URL; its database is created if it does not exist."""
    store = _open_store(url)(url, True, _seconds(timeout))
    assert store is not None
    return store


def connect_existing(url: str, timeout: float | None = None) -> Store | None:
    """The store of a URL; None if its database does not exist."""
    return _open_store(url)(url, False, _seconds(timeout))


def check_url(url: Any) -> None:
    """Raise unless a URL names a kind of database that is installed; nothing is opened."""
    _open_store(url)


def _seconds(timeout: float | None) -> float:
    """After how long a call gives up."""
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
    """A URL as it may be shown: the name of a file as it is, otherwise nothing but the scheme.

    What is wrong with a URL may be the very place where its password is.
    """
    if not isinstance(url, str):
        return url if isinstance(url, int | float | None) else type(url).__name__
    if re.fullmatch(r"(sqlite:/*)?[\w./\\ -]*", url):
        return url
    scheme = re.match(r"[A-Za-z][\w+.-]*(?=:)", url)
    return f"{scheme[0]}:..." if scheme else "..."
