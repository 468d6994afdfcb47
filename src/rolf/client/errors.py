"""The errors that a service reports (RFC 9457), as the errors of a local experiment."""

from __future__ import annotations

import email.utils
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rolf import errors
from rolf.errors import (
    AccessDenied,
    DecisionError,
    InvalidArgument,
    InvalidTable,
    RolfError,
    ServiceError,
    ServiceUnavailable,
)

if TYPE_CHECKING:
    import httpx

#: the errors that say no more than their message, by the last part of the problem's type
KINDS: dict[str, type[RolfError]] = {
    "not-found": errors.UnknownExperiment,
    "unknown-decision": errors.UnknownDecision,
    "conflict": errors.ExperimentError,
    "experiment-exists": errors.DifferentExperiment,
    "already-told": errors.AlreadyTold,
    "untold": errors.UntoldDecision,
    "different-request": errors.DifferentRequest,
    "paused": errors.ExperimentPaused,
    "broken-storage": errors.StorageError,
    "too-large": errors.RequestTooLarge,
    "unauthorized": AccessDenied,
    "forbidden": AccessDenied,
    "too-many-requests": ServiceUnavailable,
    "unavailable": ServiceUnavailable,
}
#: where an answer does not say, because a gateway has made it
STATUSES: dict[int, type[RolfError]] = {
    401: AccessDenied,
    403: AccessDenied,
    413: errors.RequestTooLarge,
    429: ServiceUnavailable,
    502: ServiceUnavailable,
    503: ServiceUnavailable,
    504: ServiceUnavailable,
}


def error_of(response: httpx.Response) -> RolfError:
    """The error that an answer reports."""
    problem = _problem(response)
    slug = str(problem.get("type", "")).rpartition("/")[2]
    detail = problem.get("detail") or problem.get("title")
    path, status = response.request.url.path, response.status_code
    text = str(detail) if detail else f"the service answered {path} with status {status}"
    if slug == "invalid":
        return _invalid(problem, text)
    kind = KINDS.get(slug) or STATUSES.get(status) or ServiceError
    if issubclass(kind, DecisionError):
        return kind(text, problem.get("decision"))
    return kind(text)


def not_ours(request: str) -> ServiceError:
    """The error of an answer that did not come from rolf."""
    return ServiceError(f"the answer to {request} is not one of rolf's")


def _invalid(problem: Mapping[str, Any], text: str) -> InvalidArgument:
    """The error of a request that is not valid, with the message that the service gives it."""
    listed = problem.get("errors")
    errors = [_argument(each) for each in listed or () if isinstance(each, dict)]
    if len(errors) > 1:
        return InvalidTable(str(problem.get("argument", "the request")), errors)
    return errors[0] if errors else InvalidArgument("the request", text, "a valid one")


def _argument(described: Mapping[str, Any]) -> InvalidArgument:
    argument, got, wanted = (described.get(name) for name in ("argument", "got", "wanted"))
    error = InvalidArgument(str(argument), got, str(wanted))
    if "message" in described:  # a value that JSON cannot hold is only shown there
        error.args = (str(described["message"]),)
    return error


def _problem(response: httpx.Response) -> dict[str, Any]:
    try:
        data = response.json()
    except ValueError:
        return {}
    return data if isinstance(data, dict) else {}


def retry_after(response: httpx.Response) -> float:
    """Seconds to wait before the next attempt, as the service asks."""
    value = response.headers.get("Retry-After", "")
    if value.isdecimal():
        return float(value)
    try:
        return max(email.utils.parsedate_to_datetime(value).timestamp() - time.time(), 0.0)
    except (TypeError, ValueError):
        return 0.0
