"""A real ``rolf serve`` in a separate process, for tests of clients."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import closing
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from rolf.experiments.storage.urls import connect
from rolf.service.auth import new_key

#: runs the command line of the rolf imported here
COMMAND = "from rolf.cli import main; main()"


class RunningService:
    """A service on this machine with a database; ``key`` has all permissions.

    Use it in a ``with`` statement, or call ``stop``.
    """

    def __init__(self, storage: str, *flags: str, port: int = 0, log: Path | None = None) -> None:
        self.storage = storage
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.key = add_key(storage, "admin")
        self._flags = flags
        self._log = log
        self.start()

    def start(self) -> None:
        """Start the process and wait until it answers."""
        self.launch()
        self.wait()

    def launch(self) -> None:
        """Start the process."""
        address = ("--host", "127.0.0.1", "--port", str(self.port))
        words = (sys.executable, "-c", COMMAND, "serve", "--storage", self.storage, *address)
        with open(os.devnull if self._log is None else self._log, "ab") as log:
            self.process = subprocess.Popen([*words, *self._flags], stdout=log, stderr=log)

    def wait(self, seconds: float = 60.0) -> None:
        """Wait until the service is ready."""
        end = time.monotonic() + seconds
        while True:
            if self.process.poll() is not None:
                raise RuntimeError(f"rolf serve ended with status {self.process.returncode}")
            if self._ready():
                return
            if time.monotonic() > end:
                raise RuntimeError(f"rolf serve is not ready after {seconds:g} s")
            time.sleep(0.02)

    def _ready(self) -> bool:
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=5.0)) as connection:
            try:
                connection.request("GET", "/readyz")
                return connection.getresponse().status == 200
            except (OSError, HTTPException):
                return False

    def kill(self) -> None:
        """Kill the process, as in a crash."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """Shut the process down and return its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def __enter__(self) -> RunningService:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def add_key(storage: str, scope: str, experiment: str | None = None) -> str:
    """Create an API key in a database."""
    text, key = new_key(scope, experiment)
    with closing(connect(storage)) as store:
        store.add_key(key)
    return text


def free_port() -> int:
    """A free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
