"""How a call becomes requests, and what is tried again; nothing is sent from here.

A call is a generator: it yields requests, is sent their answers, and returns its result.
``exchange`` turns it into one that yields attempts and is sent responses, or errors of the
connection. ``rolf.client.transport`` drives that, once with and once without coroutines.
"""

from __future__ import annotations

import random
import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from rolf.client.errors import error_of, not_ours, retry_after
from rolf.errors import RequestTooLarge, RolfError, ServiceError, ServiceUnavailable

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")

#: seconds before the second attempt, at most, and before any later one
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
#: the part of a call's time that one attempt may take
SHARE = 1 / 3
#: answers that say: later
LATER = (429, 502, 503, 504)


@dataclass(frozen=True)
class Request:
    """A request, and what it means to send it twice.

    Attributes:
        method, path, params, headers: as in HTTP.
        body: what is sent as JSON; None for nothing.
        repeatable: whether the service does it once, however often it is sent.
        deletes: whether "not found" means that an earlier attempt was successful.
    """

    method: str
    path: str
    body: Any = None
    params: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool = True
    deletes: bool = False


@dataclass(frozen=True)
class Attempt:
    """Send the request after a pause, and wait for the answer for a while, both in seconds."""

    request: Request
    pause: float
    timeout: float


Call: TypeAlias = Generator[Request, Any, T]
Exchange: TypeAlias = "Generator[Attempt, httpx.Response | httpx.HTTPError, T]"


def exchange(call: Call[T], seconds: float) -> Exchange[T]:
    """The attempts that a call takes; each of its requests may take ``seconds``.

    A request that is too large raises RequestTooLarge in the call, which may make smaller ones.
    """
    received: Any = None
    refused: RequestTooLarge | None = None
    while True:
        try:
            request = call.send(received) if refused is None else call.throw(refused)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            if received is None or isinstance(error, RolfError):
                raise
            raise not_ours(request.path) from error
        refused = None
        try:
            received = yield from _attempts(request, seconds)
        except RequestTooLarge as error:
            refused = error


def _attempts(request: Request, seconds: float) -> Exchange[Any]:
    """Try until there is an answer that is not "later", or no time is left."""
    end = time.monotonic() + seconds
    pause, longest, perhaps_done = 0.0, FIRST_PAUSE, False
    while True:
        left = end - time.monotonic() - pause
        outcome = yield Attempt(request, pause, max(min(left, seconds * SHARE), 0.001))
        if not isinstance(outcome, Exception) and outcome.status_code not in LATER:
            if outcome.status_code == 404 and request.deletes and perhaps_done:
                return None
            return _answer(outcome)
        arrived = _may_have_arrived(outcome)
        perhaps_done = perhaps_done or arrived
        pause = longest * random.uniform(0.5, 1.0)
        longest = min(2.0 * longest, LONGEST_PAUSE)
        if not isinstance(outcome, Exception):
            pause = max(pause, retry_after(outcome))
        if arrived and not request.repeatable:
            raise _unavailable(outcome, "it may have been done: check before you repeat it")
        if time.monotonic() + pause >= end:
            raise _unavailable(outcome, f"given up after {seconds:g} s")


def _answer(response: httpx.Response) -> Any:
    """What the service answered, or the error that it reports."""
    if not response.is_success:
        raise error_of(response)
    if not response.content:
        return None
    try:
        return response.json()
    except ValueError:
        raise ServiceError(f"the answer to {response.request.url.path} is not JSON") from None


def _may_have_arrived(outcome: httpx.Response | httpx.HTTPError) -> bool:
    """Whether the service may have done what it was asked for."""
    import httpx

    if isinstance(outcome, httpx.Response):
        return outcome.status_code != 429
    return not isinstance(outcome, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)


def _unavailable(outcome: httpx.Response | httpx.HTTPError, remark: str) -> RolfError:
    if isinstance(outcome, Exception):
        return broken(outcome, remark)
    return ServiceUnavailable(f"{error_of(outcome)}; {remark}")


def broken(error: httpx.HTTPError, remark: str = "try again") -> ServiceUnavailable:
    """The error of a connection that failed."""
    reason = str(error) or type(error).__name__
    return ServiceUnavailable(f"the service cannot be reached ({reason}); {remark}")
