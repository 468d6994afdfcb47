"""The application."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from rolf import __version__
from rolf.errors import RolfError
from rolf.service.auth import redacted
from rolf.service.demo import Demo
from rolf.service.dependencies import Service, on_error
from rolf.service.http.errors import Problem
from rolf.service.http.middleware import wrapped
from rolf.service.http.openapi import describe
from rolf.service.open_experiments import OpenExperiments
from rolf.service.routes import arms, decisions, experiments, log
from rolf.service.routes import health as operations
from rolf.service.routes import status as reading
from rolf.service.settings import Settings

DESCRIPTION = "Decisions over HTTP. Every route under /v1 needs `Authorization: Bearer <key>`."


class App(FastAPI):
    """An application within all middleware, also around errors."""

    def build_middleware_stack(self) -> ASGIApp:
        service: Service = self.state.service
        inner = super().build_middleware_stack()
        return wrapped(inner, service.settings, service.metrics, redacted)

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            self.openapi_schema = describe(super().openapi())
        return self.openapi_schema


def create_app(settings: Settings, *, demo: bool = False) -> App:
    """The service as an ASGI application; opens the database.

    Args:
        settings: how it is set up.
        demo: include an experiment that runs by itself.
    """
    opened = OpenExperiments(settings.storage, settings.storage_timeout, settings.max_open)
    if not settings.insecure_local:
        opened.store.key("")  # raises if this storage keeps none
    service = Service(settings, opened)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        player = Demo(opened) if demo else None
        if player is not None:
            player.start()
        yield
        service.closing = True
        if player is not None:
            player.stop()
        service.close()

    app = App(
        title="rolf",
        version=__version__,
        description=DESCRIPTION,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        swagger_ui_oauth2_redirect_url=None,
        redirect_slashes=False,
    )
    app.state.service = service
    for group in (experiments, decisions, arms, reading, log, operations):
        app.include_router(group.router)
    if operations.PAGE.is_dir():
        app.mount("/static", StaticFiles(directory=operations.PAGE))
    for kind in (Problem, RolfError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, on_error)
    return app
