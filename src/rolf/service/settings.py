"""Settings of the service: from flags, then the environment, then a file, then defaults."""

from __future__ import annotations

import math
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from rolf.errors import InvalidArgument

#: how the names of environment variables start
PREFIX = "ROLF_SERVE_"
LEVELS = ("debug", "info", "warning", "error")


def _setting(default: Any, help: str) -> Any:
    return field(default=default, metadata={"help": help})


@dataclass(frozen=True)
class Settings:
    """What can be set. Each field has a ``help`` in its metadata, which the command line shows."""

    storage: str = _setting(
        "sqlite:///rolf.db", "The database: sqlite:///file.db or postgresql://user@host/database."
    )
    host: str = _setting("127.0.0.1", "The address to listen on.")
    port: int = _setting(8000, "The port to listen on; 0: any that is free.")
    insecure_local: bool = _setting(
        False, "No keys; only on a loopback address, and only for programs on this machine."
    )
    public_metrics: bool = _setting(False, "Show /metrics without a key.")
    max_body: int = _setting(8_000_000, "Bytes of a request.")
    max_batch: int = _setting(
        1_000, "Decisions, rewards or arms of a request; past rounds may be ten times as many."
    )
    rate: float = _setting(1_000.0, "Requests per second and key in the long run; 0: no limit.")
    burst: int = _setting(2_000, "Requests of a key at once.")
    receive_timeout: float = _setting(
        20.0, "Seconds a client may take to send a request, or to read 16 kB of the answer."
    )
    keep_alive: float = _setting(30.0, "Seconds for which an idle connection is kept.")
    drain: float = _setting(
        0.0,
        "Seconds for which requests are still taken after the signal to end, while /readyz says "
        "that the service is not ready.",
    )
    shutdown_grace: float = _setting(20.0, "Seconds that requests in flight get to finish.")
    storage_timeout: float = _setting(10.0, "Seconds to wait for the database.")
    max_connections: int = _setting(1_000, "Connections at a time.")
    max_open: int = _setting(200, "Experiments kept in memory.")
    log_level: str = _setting("info", f"{', '.join(LEVELS[:-1])} or {LEVELS[-1]}.")

    def __post_init__(self) -> None:
        from rolf.checks import between, one_of, whole  # NumPy is slow to import

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
            wanted = "127.0.0.1, ::1 or localhost: --insecure-local is only for this machine"
            raise InvalidArgument("host", self.host, wanted)


def is_loopback(host: str) -> bool:
    """Whether an address can only be reached from this machine."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def load(flags: Mapping[str, Any], config: Path | None = None) -> Settings:
    """The settings from flags that are not None, from the environment and from a TOML file."""
    values = {} if config is None else _from_file(config)
    values |= _from_environment()
    values |= {name: value for name, value in flags.items() if value is not None}
    return replace(Settings(), **values)


def _from_environment() -> dict[str, Any]:
    values = {}
    for each in fields(Settings):
        variable = PREFIX + each.name.upper()
        text = os.environ.get(variable)
        if text is not None:
            values[each.name] = _parsed(variable, text, type(each.default))
    return values


def _from_file(path: Path) -> dict[str, Any]:
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"{path}", "something else", f"TOML ({error})") from None
    types = {each.name: type(each.default) for each in fields(Settings)}
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
    """The value of an environment variable."""
    if kind is bool:
        from rolf.checks import one_of

        return one_of(variable, text.lower(), "true", "false") == "true"
    try:
        value = kind(text)
    except ValueError:
        raise InvalidArgument(variable, text, WORDS[kind]) from None
    if kind is float and not math.isfinite(value):
        raise InvalidArgument(variable, text, WORDS[kind])
    return value
