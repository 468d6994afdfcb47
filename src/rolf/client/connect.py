"""Connect to a service, and the experiments that are on it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple, NoReturn
from urllib.parse import urlsplit

from rolf import __version__
from rolf.checks import between
from rolf.client.arguments import fits_header, plain, table_of_arms, warn_of
from rolf.client.exchange import Call, Request
from rolf.client.experiment import RemoteExperiment
from rolf.client.transport import Connected, Line, awaited, sent
from rolf.errors import InvalidArgument, ServiceError
from rolf.extras import require

#: the variable with the key
KEY = "ROLF_KEY"
#: experiments of one request
PAGE = 100


def connect(url: str, key: str | None = None, *, timeout: float = 30.0) -> Service:
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
    headers = {"User-Agent": f"rolf/{__version__}", "Accept": "application/json"}
    key = os.environ.get(KEY) if key is None else key
    if key is not None:
        headers["Authorization"] = f"Bearer {_checked_key(key)}"
    return Service(Line(_checked_url(url), headers, between("timeout", timeout, 0.01, 1e6)))


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
    if not fits_header(key):
        raise InvalidArgument("key", "something else", "a key as rolf keys new prints it")
    return str(key)


class Summary(NamedTuple):
    """An experiment in a list; ``created`` is in seconds since 1970, ``arms`` their number."""

    name: str
    policy: str
    created: float
    paused: bool
    arms: int
    asked: int
    told: int
    waiting: int


def _experiments(service: Service) -> Call[list[Summary]]:
    """All experiments that the key may see, in the order of their names."""
    found: list[Summary] = []
    params: dict[str, Any] = {"limit": PAGE}
    while True:
        page = yield Request("GET", "/v1/experiments", params=params)
        found += [
            Summary(*(each[field] for field in Summary._fields)) for each in page["experiments"]
        ]
        if page["next"] is None:
            return found
        params["after"] = page["next"]


def _create(
    service: Service,
    name: str,
    *,
    features: Any,
    policy: Any = None,
    options: Mapping[str, Any] | None = None,
    context: int | Sequence[str] | None = None,
    seed: int | None = None,
    default_reward: float | None = None,
    reward_after: float | timedelta | None = None,
) -> Call[RemoteExperiment]:
    """Create an experiment, or check that it was created with the same settings.

    The arguments are those of ``rolf.open_experiment``.
    """
    if isinstance(reward_after, timedelta):
        reward_after = reward_after.total_seconds()
    settings = {
        "policy": policy,
        "options": options,
        "context": context,
        "seed": seed,
        "default_reward": default_reward,
        "reward_after": reward_after,
    }
    body = {each: plain(each, value) for each, value in settings.items() if value is not None}
    experiment = service.experiment(name)
    arms = table_of_arms(features)
    answer = yield Request("POST", "/v1/experiments", {"name": name, **arms, **body})
    warn_of(answer["notes"])
    return experiment


class Service(Connected):
    """The experiments of a server. ``rolf.connect`` gives one.

    Close it, or use it in a ``with`` or an ``async with`` statement.
    """

    def __init__(self, line: Line) -> None:
        self._line = line

    @property
    def url(self) -> str:
        return self._line.url

    def experiment(self, name: str) -> RemoteExperiment:
        """An experiment by its name; nothing is sent until it is used."""
        return RemoteExperiment(self._line, name)

    experiments, aexperiments = sent(_experiments), awaited(_experiments)
    create, acreate = sent(_create), awaited(_create)

    def __reduce__(self) -> NoReturn:
        raise ServiceError(
            "a service holds connections and a key and cannot be pickled or copied: "
            "send its URL, and call rolf.connect there"
        )

    def __repr__(self) -> str:
        return f"<Service {self.url}>"
