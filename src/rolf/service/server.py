"""Run the service in this process."""

from __future__ import annotations

import gc
import logging
import math
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import uvicorn

from rolf.experiments.storage.urls import shown
from rolf.service.app import create_app
from rolf.service.dependencies import Service
from rolf.service.http import logging as logs
from rolf.service.http.connection import Protocol
from rolf.service.http.logging import log
from rolf.service.settings import Settings


class Server(uvicorn.Server):
    """A server that says where it listens. When told to end, it first says that it is no longer
    ready, so that load balancers notice, and then finishes the requests in flight."""

    def __init__(
        self, config: uvicorn.Config, service: Service, ready: Callable[[str], None]
    ) -> None:
        super().__init__(config)
        self._service = service
        self._ready = ready
        self._end = math.inf

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        if self.started:
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            self._ready(f"http://{f'[{host}]' if ':' in host else host}:{port}")

    def handle_exit(self, sig: int, frame: Any) -> None:
        if self._service.closing:
            self.should_exit = self.force_exit = True  # told twice
        self._service.closing = True
        self._end = time.monotonic() + self._service.settings.drain

    async def on_tick(self, counter: int) -> bool:
        return await super().on_tick(counter) or time.monotonic() >= self._end

    async def shutdown(self, sockets: Any = None) -> None:
        self._service.closing = True
        log(logging.INFO, "stopping")
        await super().shutdown(sockets)


def serve(settings: Settings, ready: Callable[[str], None], *, demo: bool = False) -> None:
    """Serve until a signal says to stop; requests in flight are finished first."""
    logs.set_up(settings.log_level)
    with ExitStack() as stack:
        if demo:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="rolf-demo-"))
            storage = f"sqlite:///{folder}/demo.db"
            settings = replace(settings, storage=storage, insecure_local=True)
        app = create_app(settings, demo=demo)
        app.state.service.experiments.warm_up()
        gc.freeze()  # what lasts as long as the process need not be looked at again and again
        log(logging.INFO, "starting", storage=shown(settings.storage), host=settings.host)
        if not settings.insecure_local and not app.state.service.experiments.store.keys():
            how = f"rolf keys new --scope admin --storage {shown(settings.storage)}"
            log(logging.WARNING, "no keys", message=f"there are no API keys yet; make one: {how}")
        Server(configuration(app, settings), app.state.service, ready).run()
    log(logging.INFO, "stopped")


def configuration(app: Any, settings: Settings) -> uvicorn.Config:
    limits = {"timeout": settings.receive_timeout, "most": settings.max_connections}
    protocol = type("LimitedProtocol", (Protocol,), limits)
    return uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        http=protocol,
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=max(1, round(settings.keep_alive)),
        timeout_graceful_shutdown=max(1, round(settings.shutdown_grace)),
    )
