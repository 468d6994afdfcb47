"""Run the service in this process."""

from __future__ import annotations

import logging
from collections.abc import Callable

import uvicorn

from rolf.experiments.storage.urls import shown
from rolf.policies.warm import warm_up
from rolf.service import logs
from rolf.service.app import create_app
from rolf.service.core import Service
from rolf.service.logs import log
from rolf.service.settings import Settings


class Server(uvicorn.Server):
    """A server that says where it listens, and no longer claims to be ready when it ends."""

    def __init__(self, config: uvicorn.Config, service: Service, ready: Callable[[str], None]):
        super().__init__(config)
        self._service = service
        self._ready = ready

    async def startup(self, sockets: list[object] | None = None) -> None:  # type: ignore[override]
        await super().startup(sockets)  # type: ignore[arg-type]
        if self.started:
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            name = f"[{host}]" if ":" in host else host
            self._ready(f"http://{name}:{port}")

    async def shutdown(self, sockets: list[object] | None = None) -> None:  # type: ignore[override]
        self._service.closing = True
        log(logging.INFO, "stopping")
        await super().shutdown(sockets)  # type: ignore[arg-type]


def serve(settings: Settings, ready: Callable[[str], None]) -> None:
    """Serve until a signal says to stop; requests in flight are finished first."""
    logs.set_up(settings.log_level)
    warm_up("rolf-bayes")
    app = create_app(settings)
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        http="h11",
        limit_concurrency=settings.max_connections,
        timeout_keep_alive=int(settings.keep_alive),
        timeout_graceful_shutdown=int(settings.shutdown_grace),
    )
    log(logging.INFO, "starting", storage=shown(settings.storage), host=settings.host)
    Server(config, app.state.service, ready).run()
    log(logging.INFO, "stopped")
