"""Structured logs: one JSON object per line, on standard error."""

from __future__ import annotations

import json
import logging
import time
from contextvars import ContextVar
from typing import Any

from rolf.errors import without_password

logger = logging.getLogger("rolf.service")
#: the request that is being answered
current_request: ContextVar[str | None] = ContextVar("request", default=None)


class JSONLines(logging.Formatter):
    """One line per record: time, level, event, request, and further fields."""

    def format(self, record: logging.LogRecord) -> str:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, Any] = {
            "time": f"{stamp}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
        }
        fields = getattr(record, "fields", None)
        if fields is None:
            line |= {"event": "message", "logger": record.name}
            line["message"] = without_password(record.getMessage())
        else:
            line |= {"event": record.msg, **fields}
        if "request" not in line and (request := current_request.get()) is not None:
            line["request"] = request
        if record.exc_info:
            line["traceback"] = without_password(self.formatException(record.exc_info))
        return json.dumps(line, default=str)


def log(level: int, event: str, *, traceback: bool = False, **fields: Any) -> None:
    """Write a line about an event."""
    if logger.isEnabledFor(level):
        logger.log(level, event, exc_info=traceback, extra={"fields": fields})


def set_up(level: str) -> None:
    """Send everything that is logged, by libraries too, to standard error as JSON lines."""
    handler = logging.StreamHandler()
    handler.setFormatter(JSONLines())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.WARNING)
    for name in ("rolf", "uvicorn", "uvicorn.error"):
        each = logging.getLogger(name)
        each.handlers = []
        each.propagate = True
    logging.getLogger("rolf").setLevel(level.upper())
    logging.getLogger("uvicorn.error").setLevel(
        max(logging.WARNING, getattr(logging, level.upper()))
    )
    logging.getLogger("uvicorn.error").addFilter(is_news)
    logging.captureWarnings(True)


def is_news(record: logging.LogRecord) -> bool:
    """Whether a line of the server says something that ours do not."""
    return "without completing response" not in record.getMessage()
