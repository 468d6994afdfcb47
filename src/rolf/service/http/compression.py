"""Large answers to browsers, which fetch them again and again, are compressed."""

from __future__ import annotations

from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

#: bytes from which it is worth while
LARGE = 10_000


class Compression(GZipMiddleware):
    """What is read, except logs, which are streams; decisions and rewards are small."""

    def __init__(self, app: ASGIApp) -> None:
        super().__init__(app, minimum_size=LARGE, compresslevel=5)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        small = (
            scope["type"] != "http" or scope["method"] != "GET" or scope["path"].endswith("/log")
        )
        await (self.app if small else super().__call__)(scope, receive, send)
