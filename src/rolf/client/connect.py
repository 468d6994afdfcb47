"""Connect to a database or to a service, and open experiments there."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from rolf import __version__
from rolf.checks import between
from rolf.errors import InvalidArgument
from rolf.extras import require

if TYPE_CHECKING:
    from rolf.client.database import RemoteDatabase
    from rolf.client.experiment import RemoteExperiment
    from rolf.experiments.database import Database
    from rolf.experiments.experiment import Experiment

#: the variable with the key
KEY = "ROLF_KEY"
#: seconds after which a request is given up, by default
TIMEOUT = 30.0


def connect(
    url: str, key: str | None = None, *, timeout: float | None = None
) -> Database | RemoteDatabase:
    """The experiments of a database, or of a service that ``rolf serve`` runs; nothing is opened
    or sent yet.

    ``rolf.connect(url).experiment("banner").ask()`` is all it takes.

    Args:
        url: ``sqlite:///file.db``, ``postgresql://user@host/database``, ``memory://`` or that of a
            service, such as ``https://decisions.example.com``, with or without the ``/v1`` of its
            API.
        key: an API key of the service, as ``rolf keys new`` prints it; the variable ROLF_KEY by
            default.
        timeout: seconds after which a call gives up waiting for the database, or a request is
            given up, all its attempts together; 30 by default, and for databases what the variable
            ROLF_STORAGE_TIMEOUT says. Calls that take several requests, such as an ask for
            thousands of decisions, may take longer.
    """
    if not _is_service(url):
        from rolf.experiments.database import Database

        database = Database(url, timeout=timeout)
        if key is not None:
            raise InvalidArgument("key", "...", "nothing: only services take API keys")
        return database
    require("httpx", "a client of the service")
    from rolf.client.database import RemoteDatabase
    from rolf.client.transport import Transport

    headers = {"User-Agent": f"rolf/{__version__}", "Accept": "application/json"}
    key = os.environ.get(KEY) if key is None else key
    if key is not None:
        headers["Authorization"] = f"Bearer {_checked_key(key)}"
    seconds = between("timeout", TIMEOUT if timeout is None else timeout, 0.01, 1e6)
    return RemoteDatabase(Transport(_checked_url(url), headers, seconds))


def open_experiment(
    url: str,
    name: str,
    features: Any = None,
    *,
    policy: Any = None,
    options: Mapping[str, Any] | None = None,
    context: int | Sequence[str] | None = None,
    seed: int | None = None,
    default_reward: float | None = None,
    reward_after: float | timedelta | None = None,
    timeout: float | None = None,
    missing: str = "impute",
) -> Experiment | RemoteExperiment:
    """Create an experiment, or continue it.

    If the experiment exists, the arguments must agree with what it was created with.

    Args:
        url: of a database, or of a service, as in ``rolf.connect``; the key of a service is in the
            variable ROLF_KEY.
        name: of the experiment, unique in its database.
        features: (K, d) table of the arms, one row per arm; the index of a DataFrame names
            them. Or whatever ``read_arms`` reads: a file, or a DataFrame with text, dates or
            missing cells. How its columns were read is kept, and arms that come later are read
            in the same way.
            Needed to create an experiment; without it the experiment must exist.
        policy: a name in the catalogue, ``package.module:Class``, or a class, which another
            process must be able to import. By default a new experiment gets rolf-bayes, and one
            that exists keeps its policy. Features that come with every ask need one that takes
            them, such as rolf-bayes-varying.
        options: of the policy.
        context: names or number of the entries of a context that comes with every ask, for the
            policies that take one, such as rolf-bayes-varying, which is then the default. The same
            as the option ``context``.
        seed: of all random draws, together with the number of the decision; random by default.
        default_reward: the reward of decisions that are never told one; 0 by default.
        reward_after: after how many seconds, by the database's clock, they get it; never by
            default.
        timeout: as in ``rolf.connect``; then a call raises StorageUnavailable.
        missing: "impute" cells that are missing in the table of the arms, or "error" to refuse
            them, as in ``read_arms``. A service always imputes.
    """
    if not _is_service(url):
        from rolf.experiments.database import open_experiment as open_local

        return open_local(
            url,
            name,
            features=features,
            policy=policy,
            options=options,
            context=context,
            seed=seed,
            default_reward=default_reward,
            reward_after=reward_after,
            timeout=timeout,
            missing=missing,
        )
    settings = {
        "policy": policy,
        "options": options,
        "context": context,
        "seed": seed,
        "default_reward": default_reward,
        "reward_after": reward_after,
    }
    if missing != "impute":
        raise InvalidArgument("missing", missing, "impute, as services do")
    database = connect(url, timeout=timeout)
    if features is not None:
        return database.create(name, features, **settings)
    for argument, value in settings.items():
        if value is not None:
            raise InvalidArgument(
                argument, value, "nothing: a service compares it only together with features"
            )
    experiment = database.experiment(name)
    experiment.counts()  # raises an error if there is none
    return experiment


def _is_service(url: Any) -> bool:
    return isinstance(url, str) and url.partition(":")[0].lower() in ("http", "https")


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
