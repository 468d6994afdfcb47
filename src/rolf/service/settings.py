"""How the service is set up: flags, then the environment, then a file, then defaults."""

from __future__ import annotations

import math
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from rolf.checks import between, one_of, whole
from rolf.errors import InvalidArgument

#: how the variables of the environment begin
PREFIX = "ROLF_SERVE_"
LEVELS = ("debug", "info", "warning", "error")


@dataclass(frozen=True)
class Settings:
    """What can be set.

    Attributes:
        storage: the database, as in ``rolf.open_experiment``.
        host, port: where to listen; port 0 takes any free one.
        insecure_local: no keys; only on a loopback address, and only for programs on this machine.
        public_metrics: whether ``/metrics`` can be read without a key.
        max_body: bytes of a request.
        max_batch: decisions, rewards or arms of a request; past rounds may be ten times as many.
        rate, burst: requests per second and key, in the long run and at once; rate 0: any number.
        receive_timeout: seconds that a client may take to send a request, or to take in a part of
            the answer.
        keep_alive: seconds for which a connection without requests is kept.
        drain: seconds for which requests are still taken after the signal to end, while ``/readyz``
            says that the service is not ready.
        shutdown_grace: seconds that requests in flight get to finish.
        storage_timeout: seconds after which a call gives up waiting for the database.
        max_connections: connections at a time.
        max_open: experiments that are kept in memory.
        log_level: debug, info, warning or error.
    """

    storage: str = "sqlite:///rolf.db"
    host: str = "127.0.0.1"
    port: int = 8000
    insecure_local: bool = False
    public_metrics: bool = False
    max_body: int = 8_000_000
    max_batch: int = 1_000
    rate: float = 1_000.0
    burst: int = 2_000
    receive_timeout: float = 20.0
    keep_alive: float = 30.0
    drain: float = 0.0
    shutdown_grace: float = 20.0
    storage_timeout: float = 10.0
    max_connections: int = 1_000
    max_open: int = 200
    log_level: str = "info"

    def __post_init__(self) -> None:
        for name in ("storage", "host"):
            if not getattr(self, name).strip():
                raise InvalidArgument(name, getattr(self, name), "some text")
        whole("port", self.port, 0, 65_535)
        whole("max_body", self.max_body, 1_000, 1_000_000_000)
        whole("max_batch", self.max_batch, 1, 100_000)
        between("rate", self.rate, 0.0, 1e9, inclusive=True)
        for name in ("burst", "max_connections", "max_open"):
            whole(name, getattr(self, name), 1)
        for name in ("receive_timeout", "keep_alive", "storage_timeout"):
            between(name, getattr(self, name), 0.0, 1e6)
        for name in ("drain", "shutdown_grace"):
            between(name, getattr(self, name), 0.0, 1e6, inclusive=True)
        one_of("log_level", self.log_level, *LEVELS)
        if self.insecure_local and not is_loopback(self.host):
            wanted = "127.0.0.1, ::1 or localhost: --insecure-local is for this machine alone"
            raise InvalidArgument("host", self.host, wanted)


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine alone."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def load(flags: Mapping[str, Any], config: Path | None = None) -> Settings:
    """The settings: of flags that are not None, of the environment, of a TOML file."""
    given = {} if config is None else _from_file(config)
    given |= _from_environment()
    given |= {name: value for name, value in flags.items() if value is not None}
    return replace(Settings(), **given)


def _from_environment() -> dict[str, Any]:
    given = {}
    for field in fields(Settings):
        variable = PREFIX + field.name.upper()
        text = os.environ.get(variable)
        if text is not None:
            given[field.name] = _parsed(variable, text, type(field.default))
    return given


def _from_file(path: Path) -> dict[str, Any]:
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"{path}", "something else", f"TOML ({error})") from None
    types = {field.name: type(field.default) for field in fields(Settings)}
    for name, value in data.items():
        if name not in types:
            raise InvalidArgument(f"{path}", name, f"one of {', '.join(types)}")
        kind = types[name]
        if type(value) is int and kind is float:
            data[name] = float(value)
        elif type(value) is not kind:
            shown = "..." if name == "storage" else value
            raise InvalidArgument(f"{path}: {name}", shown, WORDS[kind])
    return data


WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


def _parsed(variable: str, text: str, kind: type) -> Any:
    """The value that a variable of the environment holds."""
    if kind is bool:
        return one_of(variable, text.lower(), "true", "false") == "true"
    try:
        value = kind(text)
    except ValueError:
        raise InvalidArgument(variable, text, WORDS[kind]) from None
    if kind is float and not math.isfinite(value):
        raise InvalidArgument(variable, text, WORDS[kind])
    return value
