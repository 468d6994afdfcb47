"""Which store a URL means.

The scheme of the URL decides. An installed package adds a store of its own with an entry point in
the group ``rolf.storage`` whose name is the scheme. Like the entries of ``SCHEMES`` it refers to a
function that takes the URL, and whether to create a database that does not exist, and returns a
``Store``, or None if there is no database and none is to be created.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module, metadata
from typing import Any, TypeAlias

from rolf.errors import InvalidArgument
from rolf.experiments.storage.base import Store

OpenStore: TypeAlias = Callable[[str, bool], Store | None]

SCHEMES = {
    "memory": "rolf.experiments.storage.memory:open_store",
    "sqlite": "rolf.experiments.storage.sqlite:open_store",
    "postgresql": "rolf.experiments.storage.postgres:open_store",
    "postgres": "rolf.experiments.storage.postgres:open_store",
}
GROUP = "rolf.storage"  # of entry points


def connect(url: str) -> Store:
    """The store of a URL; its database is created if it does not exist."""
    store = _open_store(url)(url, True)
    assert store is not None
    return store


def connect_existing(url: str) -> Store | None:
    """The store of a URL; None if its database does not exist."""
    return _open_store(url)(url, False)


def _open_store(url: Any) -> OpenStore:
    if not isinstance(url, str) or "\0" in url:
        raise invalid_url(url)
    scheme, separator, _ = url.partition("://")
    if separator and scheme in SCHEMES:
        module, _, function = SCHEMES[scheme].partition(":")
        return getattr(import_module(module), function)  # type: ignore[no-any-return]
    for entry in metadata.entry_points(group=GROUP):
        if separator and entry.name == scheme:
            return entry.load()  # type: ignore[no-any-return]
    raise invalid_url(url)


def invalid_url(url: Any) -> InvalidArgument:
    shown = without_password(url) if isinstance(url, str) else url
    expected = "memory://, sqlite:///file.db or postgresql://user@host/database"
    return InvalidArgument("url", shown, expected)


def without_password(text: str) -> str:
    """A URL, or a text that contains one, as it may be shown."""
    return re.sub(r"://[^/]*@", "://...@", text)
