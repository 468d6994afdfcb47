"""The route that exports a log."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse

from rolf.errors import RolfError
from rolf.experiments.transfer.streaming import stream_log
from rolf.service.dependencies import Calling, Route, needs
from rolf.service.http.errors import CutOff

router = APIRouter(route_class=Route, prefix="/v1/experiments/{name}")

TYPES = {"jsonl": "application/x-ndjson", "csv": "text/csv; charset=utf-8"}


LINES = {"schema": {"type": "string"}}


@router.get(
    "/log",
    response_class=StreamingResponse,
    responses={200: {"content": {"application/x-ndjson": LINES, "text/csv": LINES}}},
    openapi_extra=needs("read"),
)
def export_log(
    caller: Calling,
    name: str,
    format: Annotated[Literal["jsonl", "csv"], Query()] = "jsonl",
) -> StreamingResponse:
    """The log, a line per decision with its probability and its reward, as a stream."""

    parts = stream_log(caller.experiment(name), format)
    first = next(parts), next(parts, "")  # a short log is whole, or a problem
    lines = chain(first, _rest(parts))
    headers = {"Content-Disposition": f'attachment; filename="log.{format}"'}
    return StreamingResponse(lines, headers=headers, media_type=TYPES[format])


def _rest(parts: Iterator[str]) -> Iterator[str]:
    """Parts of an answer that has started, and so can no longer become a problem."""
    try:
        yield from parts
    except RolfError as error:
        raise CutOff(f"{type(error).__name__}: {error}") from None
