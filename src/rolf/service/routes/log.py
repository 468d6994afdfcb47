"""The route that exports a log."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse

from rolf.experiments.experiment import Experiment
from rolf.experiments.streaming import stream_log
from rolf.service.core import Calling, Route, needs

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

    def work(experiment: Experiment) -> Experiment:
        return experiment

    experiment = caller.use(name, work)
    lines = stream_log(experiment, format)
    headers = {"Content-Disposition": f'attachment; filename="log.{format}"'}
    return StreamingResponse(lines, headers=headers, media_type=TYPES[format])
