"""API problems (RFC 9457): ``application/problem+json``, and which errors become which."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any, NamedTuple

from fastapi import Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from rolf.errors import (
    AlreadyTold,
    DecisionError,
    DifferentExperiment,
    DifferentRequest,
    ExperimentError,
    ExperimentPaused,
    InvalidArgument,
    InvalidTable,
    RolfError,
    StorageError,
    StorageUnavailable,
    UnknownDecision,
    UnknownExperiment,
    UntoldDecision,
    short_repr,
    without_password,
)
from rolf.service.http.logging import log

MEDIA_TYPE = "application/problem+json"
#: seconds after which a client may try again when the database has failed
RETRY_AFTER = 1
#: arguments of a request that are listed
LISTED = 20
#: beyond this, JSON readers round whole numbers
MAX_NUMBER = 2**53

#: how messages of Pydantic begin, and what takes the place of that after "wanted"
PHRASES = {
    "Input should be ": "",
    "List should have ": "a list that has ",
    "String should have ": "text that has ",
    "String should match ": "text that matches ",
    "Field required": "a value",
    "Extra inputs are not permitted": "no field of this name",
}


class Kind(NamedTuple):
    """A kind of problem."""

    status: int
    title: str


KINDS = {
    "bad-request": Kind(400, "The request cannot be understood"),
    "unauthorized": Kind(401, "A valid key is needed"),
    "forbidden": Kind(403, "The key does not allow this"),
    "not-found": Kind(404, "There is nothing here"),
    "unknown-decision": Kind(404, "The decision was not issued by this experiment"),
    "method-not-allowed": Kind(405, "This cannot be done here"),
    "not-acceptable": Kind(406, "There is no such format"),
    "timeout": Kind(408, "The request took too long to arrive"),
    "conflict": Kind(409, "The experiment does not allow this now"),
    "experiment-exists": Kind(409, "An experiment of this name exists, with other settings"),
    "already-told": Kind(409, "The decision has another reward"),
    "untold": Kind(409, "The decision has no reward"),
    "different-request": Kind(409, "The key was used for another request"),
    "paused": Kind(409, "The experiment is paused"),
    "too-large": Kind(413, "The request is too large"),
    "unsupported-media-type": Kind(415, "The body must be JSON"),
    "invalid": Kind(422, "The request is not valid"),
    "too-many-requests": Kind(429, "There were too many requests"),
    "headers-too-large": Kind(431, "The headers are too large"),
    "internal": Kind(500, "Something went wrong"),
    "broken-storage": Kind(500, "The database cannot be used"),
    "unavailable": Kind(503, "The service is not available for now"),
}
#: the kind of a problem by its status, where nothing else is known
BY_STATUS = {kind.status: slug for slug, kind in reversed(KINDS.items())}

#: the problems that errors of the library become, the most specific first
ERRORS: list[tuple[type[RolfError], str]] = [
    (UnknownExperiment, "not-found"),
    (UnknownDecision, "unknown-decision"),
    (AlreadyTold, "already-told"),
    (UntoldDecision, "untold"),
    (DifferentExperiment, "experiment-exists"),
    (DifferentRequest, "different-request"),
    (ExperimentPaused, "paused"),
    (ExperimentError, "conflict"),
    (InvalidArgument, "invalid"),
    (StorageUnavailable, "unavailable"),
    (StorageError, "broken-storage"),
]


class CutOff(Exception):
    """An answer that has started cannot be finished; the connection is closed, so that what was
    sent is not mistaken for the whole."""


class Problem(Exception):
    """A problem with a request, as its caller is told.

    ``fields`` are members of the answer besides those of every problem (RFC 9457).
    """

    def __init__(
        self,
        slug: str,
        detail: str,
        *,
        fields: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.slug = slug
        self.detail = detail
        self.fields = dict(fields or {})
        self.headers = dict(headers or {})

    @property
    def status(self) -> int:
        return KINDS[self.slug].status

    def response(self, request_id: str) -> Response:
        kind = KINDS[self.slug]
        body: dict[str, Any] = {
            "type": f"/problems/{self.slug}",
            "title": kind.title,
            "status": kind.status,
            "detail": self.detail,
            "instance": request_id,
            **self.fields,
        }
        content = json.dumps(body).encode()
        return Response(content, kind.status, self.headers, media_type=MEDIA_TYPE)


def problem_of(error: Exception) -> Problem:
    """What a client is told about an error. Paths and secrets stay in the log."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, HTTPException):  # of the framework: no such path or method, for instance
        slug = BY_STATUS.get(error.status_code, "bad-request")
        return Problem(slug, str(error.detail or KINDS[slug].title), headers=error.headers)
    if isinstance(error, RequestValidationError):
        return invalid(_mismatch(error))
    if isinstance(error, InvalidArgument):
        return invalid(error)
    slug = next((slug for cls, slug in ERRORS if isinstance(error, cls)), "internal")
    if slug == "unavailable":
        log(logging.WARNING, "storage", problem=str(error))
        detail = "the database cannot be reached for now; nothing is half done: try again"
        return Problem(slug, detail, headers={"Retry-After": str(RETRY_AFTER)})
    if KINDS[slug].status == 500:
        log(logging.ERROR, "error", problem=f"{type(error).__name__}: {error}")
        return Problem(slug, "the log of the service says more about this request")
    if isinstance(error, DecisionError) and error.decision is not None:
        return Problem(slug, str(error), fields={"decision": error.decision})
    return Problem(slug, str(error))


def unknown_experiment(name: str) -> UnknownExperiment:
    """The error of an experiment that does not exist, or not for the caller."""
    return UnknownExperiment(f"no experiment named {name!r}")


def invalid(error: InvalidArgument) -> Problem:
    """A request with arguments that are not acceptable: what is wrong, and a list of it all."""
    several = isinstance(error, InvalidTable)
    errors = error.problems if isinstance(error, InvalidTable) else [error]
    described = _described(error)
    message = described.pop("message")
    return Problem(
        "invalid",
        f"{error.argument}: {error.got}" if several else message,
        fields={**described, "errors": [_described(each) for each in errors[:LISTED]]},
    )


def _described(error: InvalidArgument) -> dict[str, Any]:
    return {
        "argument": error.argument,
        "got": _shown(error.got),
        "wanted": error.wanted,
        "message": str(error),
    }


def _shown(value: object) -> Any:
    """A value in an answer: as it is if that is short, otherwise as messages show it."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float) and abs(value) <= MAX_NUMBER:
        return value
    if isinstance(value, str) and len(short_repr(value)) < 120:
        return without_password(value)
    return short_repr(value)


def _mismatch(error: RequestValidationError) -> InvalidArgument:
    """How a request differs from the form that its description says."""
    wanted: dict[str, dict[str, None]] = {}
    values: dict[str, object] = {}
    for each in error.errors()[: 5 * LISTED]:
        where = _where(each, error.body)
        wanted.setdefault(where, {})[_wanted(each["msg"])] = None
        values[where] = NOTHING if each["type"] == "missing" else each["input"]
    found = [
        InvalidArgument(where, values[where], ", or ".join(alternatives)[:300])
        for where, alternatives in wanted.items()
    ]
    return found[0] if len(found) == 1 else InvalidTable("the request", found)


def _wanted(message: str) -> str:
    """What Pydantic says about a value, as the end of a message of ours."""
    for start, words in PHRASES.items():
        if message.startswith(start):
            return words + message.removeprefix(start)
    return message


def _where(error: Any, body: Any) -> str:
    """The place of an error in a request, without the names of the forms that were tried there."""
    first, *rest = error["loc"]
    if first != "body":
        return ".".join(map(str, rest))
    place: list[str] = []
    here = body
    for step in rest:
        places = here if isinstance(here, dict) else range(len(here) if type(here) is list else 0)
        if step in places:
            here = here[step]
        elif error["type"] != "missing" or step is not rest[-1]:
            continue
        place.append(str(step))
    return ".".join(place) or "body"


class Nothing:
    """In place of a value that is missing."""

    def __repr__(self) -> str:
        return "nothing"


NOTHING = Nothing()
