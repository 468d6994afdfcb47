"""What goes wrong, as RFC 9457 has it: ``application/problem+json``."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fastapi import Response

from rolf.errors import (
    AlreadyTold,
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
)
from rolf.service.http.logging import log

MEDIA_TYPE = "application/problem+json"
#: seconds after which a client may try again what the database could not do
RETRY_AFTER = 1
#: problems of a request that are listed
LISTED = 20


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
#: the kind of a problem of which only the status is known
BY_STATUS = {kind.status: slug for slug, kind in reversed(KINDS.items())}

#: what an error of the library is to a client, the special ones first
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


class Problem(Exception):
    """Something that a client is told about."""

    def __init__(
        self,
        slug: str,
        detail: str,
        *,
        errors: Sequence[Mapping[str, str]] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.slug = slug
        self.detail = detail
        self.errors = list(errors)
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
        }
        if self.errors:
            body["errors"] = self.errors
        content = json.dumps(body).encode()
        return Response(content, kind.status, self.headers, media_type=MEDIA_TYPE)


def problem_of(error: Exception) -> Problem:
    """What a client is told about an error. Paths and secrets stay in the log."""
    if isinstance(error, Problem):
        return error
    slug = next((slug for cls, slug in ERRORS if isinstance(error, cls)), "internal")
    if slug == "unavailable":
        log(logging.WARNING, "storage", problem=str(error))
        detail = "the database cannot be reached for now; nothing is half done: try again"
        return Problem(slug, detail, headers={"Retry-After": str(RETRY_AFTER)})
    if KINDS[slug].status == 500:
        log(logging.ERROR, "error", problem=f"{type(error).__name__}: {error}")
        return Problem(slug, "the log of the service says more about this request")
    if isinstance(error, InvalidTable):
        return Problem(slug, "the table has several problems", errors=_all_of(error.problems))
    if isinstance(error, InvalidArgument):
        return Problem(slug, str(error), errors=_all_of([error]))
    return Problem(slug, str(error))


def _all_of(errors: Sequence[InvalidArgument]) -> list[dict[str, str]]:
    return [{"where": each.argument, "message": str(each)} for each in errors[:LISTED]]


def invalid(where: str, message: str) -> Problem:
    """A problem with one field of a request."""
    return Problem("invalid", f"{where}: {message}", errors=[{"where": where, "message": message}])
