"""Who may do what, and how often: API keys, their scopes and rates.

A key is ``rolf_<id>_<secret>``. The database has the id and a digest of the secret.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import re
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Literal, Protocol, TypeAlias, get_args

from rolf.checks import is_text, one_of
from rolf.errors import InvalidArgument
from rolf.experiments.storage.contract import Store
from rolf.experiments.storage.rows import Key
from rolf.service.http.errors import Problem, unknown_experiment
from rolf.service.http.middleware import RequestInfo

ApiKey: TypeAlias = Key
Scope: TypeAlias = Literal["read", "decide", "admin"]

#: from the smallest to the largest: each allows what those before it allow
SCOPES: tuple[str, ...] = get_args(Scope)
FORM = re.compile(r"rolf_([0-9a-f]{12})_([A-Za-z0-9_-]{43})", re.ASCII)
MAX_NOTE = 200
#: characters of the name of an experiment in the log
MAX_NAME = 100
#: keys whose rates are kept
MOST_KEYS = 10_000

#: the key of callers that need none
LOCAL = ApiKey("local", "", "admin", None, "", 0.0)
#: in place of a key that does not exist, so that checking it takes as long
NO_KEY = ApiKey("", "0" * 64, "read", None, "", 0.0, revoked=0.0)


class Credentials(Protocol):
    """What a request is judged by.

    Attributes:
        header: its Authorization header, if it has one.
        scope: the scope that a key needs for it; None if it needs no key.
        info: what the log says about it.
    """

    @property
    def header(self) -> str | None: ...
    @property
    def scope(self) -> str | None: ...
    @property
    def info(self) -> RequestInfo: ...


class Auth:
    """Tells callers by their keys, and knows what each may do and how often.

    Args:
        store: the database with the keys.
        rate, burst: of the requests of a key; see ``RateLimit``.
        keyless: whether requests without a key are allowed everything.
    """

    def __init__(self, store: Store, rate: float, burst: int, *, keyless: bool = False) -> None:
        self._store = store
        self._limit = RateLimit(rate, burst)
        self._keyless = keyless

    def check_form(self, header: str | None) -> None:
        """Raise if a header holds no key, whatever keys there are; nothing is looked up."""
        if header is None and self._keyless:
            return
        if header is None or FORM.fullmatch(_sent(header)) is None:
            raise _unauthorized(header)

    def authenticate(self, header: str | None) -> ApiKey:
        """The key in a header. It is looked up every time, since it may have been revoked."""
        if header is None and self._keyless:
            return LOCAL
        key = None if header is None else find_key(self._store, _sent(header))
        if key is None:
            raise _unauthorized(header)
        return key

    def authorize(self, key: ApiKey, scope: str | None, experiment: str | None = None) -> None:
        """Raise unless a key allows something, and its rate one more request.

        To a key for another experiment this one does not exist.
        """
        wait = self._limit.wait_for(key.id)
        if wait:
            words = f"more than {self._limit.rate:g} requests a second"
            raise Problem("too-many-requests", words, headers={"Retry-After": str(wait)})
        if experiment is not None and key.experiment not in (None, experiment):
            raise unknown_experiment(experiment)
        if scope is not None and SCOPES.index(key.scope) < SCOPES.index(scope):
            words = f"this needs a key with the scope {scope}; this one has {key.scope}"
            raise Problem("forbidden", words)


class RateLimit:
    """How many requests a key may make: a bucket of tokens per key, which holds up to ``burst``
    and gets ``rate`` a second; rate 0 is no limit."""

    def __init__(
        self, rate: float, burst: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.rate = rate
        self._burst = float(burst)
        self._clock = clock
        self._lock = threading.Lock()
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # tokens, and when

    def wait_for(self, key: str) -> int:
        """Take a token; 0 if there is one, otherwise the seconds until there is."""
        if self.rate == 0.0:
            return 0
        now = self._clock()
        with self._lock:
            tokens, then = self._buckets.pop(key, (self._burst, now))
            tokens = min(self._burst, tokens + (now - then) * self.rate)
            enough = tokens >= 1.0
            self._buckets[key] = (tokens - 1.0 if enough else tokens, now)
            if len(self._buckets) > MOST_KEYS:
                self._buckets.popitem(last=False)
        return 0 if enough else max(1, math.ceil((1.0 - tokens) / self.rate))


def new_key(scope: str, experiment: str | None = None, note: str = "") -> tuple[str, ApiKey]:
    """A key as its user gets it, and what the database keeps of it."""
    one_of("scope", scope, *SCOPES)
    if experiment is not None and not experiment.strip():
        raise InvalidArgument("experiment", experiment, "the name of an experiment")
    if not note.isprintable() or not is_text(note) or len(note) > MAX_NOTE:
        raise InvalidArgument("note", note, f"a line of up to {MAX_NOTE} characters")
    id, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
    key = ApiKey(id, _digest(secret), scope, experiment, note, time.time())
    return f"rolf_{id}_{secret}", key


def find_key(store: Store, text: str) -> ApiKey | None:
    """Look up the key in a text; None if it is malformed, unknown or revoked."""
    form = FORM.fullmatch(text)
    if form is None:
        return None
    id, secret = form.groups()
    key = store.key(id) or NO_KEY
    same = hmac.compare_digest(_digest(secret), key.digest)
    return key if same and key.revoked is None else None


def key_id(text: str) -> str:
    """The id of a key that is given by its id, or as a whole."""
    form = FORM.fullmatch(text)
    return form[1] if form else text


def note(info: RequestInfo, key: ApiKey, experiment: str | None) -> None:
    """Let the log say who makes a request, and about which experiment."""
    info.key = key.id
    info.experiment = experiment and redacted(experiment)[:MAX_NAME]


def redacted(text: str) -> str:
    """A text without the secrets of keys in it."""
    return FORM.sub(r"rolf_\1_...", text)


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _sent(header: str) -> str:
    """The key in a header; empty if it has none."""
    scheme, _, text = header.partition(" ")
    return text.strip() if scheme.lower() == "bearer" else ""


def _unauthorized(header: str | None) -> Problem:
    words = "the key is not valid" if header else "send Authorization: Bearer <key>"
    return Problem("unauthorized", words, headers={"WWW-Authenticate": "Bearer"})
