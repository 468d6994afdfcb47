"""Routes for operating the service, and the page."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter, Request, Response
from fastapi.responses import FileResponse, PlainTextResponse

from rolf.errors import StorageError
from rolf.service.dependencies import Calling, needs
from rolf.service.http import metrics
from rolf.service.http.answers import answer
from rolf.service.http.errors import Problem

router = APIRouter()

PAGE = Path(__file__).parent.parent / "page"


@router.head("/healthz", include_in_schema=False)
@router.get("/healthz", tags=["operations"])
async def healthz() -> Response:
    """Whether the process is alive."""
    return answer({"status": "ok"})


@router.head("/readyz", include_in_schema=False)
@router.get("/readyz", tags=["operations"])
def readyz(request: Request) -> Response:
    """Whether requests can be served: the database answers, and the process is not shutting
    down."""
    service = request.app.state.service
    if service.closing:
        raise Problem("unavailable", "the service is shutting down", headers={"Retry-After": "1"})
    try:
        service.experiments.store.record("-")
    except StorageError:
        words = "the database does not answer"
        raise Problem("unavailable", words, headers={"Retry-After": "1"}) from None
    return answer({"status": "ok"})


@router.get(
    "/metrics",
    tags=["operations"],
    openapi_extra=needs("read"),
    response_class=PlainTextResponse,
)
def show_metrics(caller: Calling) -> Response:
    """Metrics for Prometheus."""
    service = caller.service
    if not service.settings.public_metrics:
        key = caller.check()
        if key.experiment is not None:
            raise Problem("forbidden", "this key is for one experiment; the metrics are of all")
    service.metrics.open.set(len(service.experiments))
    return Response(service.metrics.text(), headers={"Content-Type": metrics.CONTENT_TYPE})


@router.head("/", include_in_schema=False)
@router.get("/", include_in_schema=False)
async def page() -> FileResponse:
    return FileResponse(PAGE / "index.html")
