"""Services for tests: in a thread of this process, or in a process of their own."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import httpx

from rolf.experiments.storage.urls import connect
from rolf.service.app import create_app
from rolf.service.auth import new_key
from rolf.service.server import Server, configuration
from rolf.service.settings import Settings
from support.stores import make_url

FEATURES = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.5, -0.5]]
ROWS = [
    {"arm": "a", "width": 1.0, "colour": "red"},
    {"arm": "b", "width": 2.0, "colour": "blue"},
    {"arm": "c", "width": 0.5, "colour": "red"},
]


def make_key(url, scope="admin", experiment=None):
    """A key that works."""
    text, key = new_key(scope, experiment)
    store = connect(url)
    store.add_key(key)
    store.close()
    return text


class Client(httpx.Client):
    """A client with a key; ``as_`` returns one with another key."""

    def __init__(self, url, key=None, **more):
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        super().__init__(base_url=url, headers=headers, timeout=60.0, trust_env=False, **more)
        self._others = {}

    def as_(self, key):
        if key not in self._others:
            self._others[key] = Client(self.base_url, key)
        return self._others[key]

    def close(self):
        for other in self._others.values():
            other.close()
        super().close()

    def __exit__(self, *details):
        self.close()

    def make(self, name="one", **settings):
        settings.setdefault("features", FEATURES)
        settings = {name: value for name, value in settings.items() if value is not None}
        answer = self.post("/v1/experiments", json={"name": name, "policy": "ucb", **settings})
        assert answer.status_code == 201, answer.text
        return answer.json()

    def ask(self, name="one", key=None, **wanted):
        headers = {} if key is None else {"Idempotency-Key": key}
        return self.post(f"/v1/experiments/{name}/ask", json=wanted, headers=headers)

    def tell(self, decision, reward, name="one"):
        body = {"id": decision["id"], "reward": reward}
        return self.post(f"/v1/experiments/{name}/tell", json=body)


@contextlib.contextmanager
def service(kind="sqlite", url=None, **settings):
    """A client of a service in a thread of this process, with a key that may do everything."""
    url = url or make_url(kind)
    settings = Settings(storage=url, port=0, **settings)
    app = create_app(settings)
    started = queue.SimpleQueue()
    server = Server(configuration(app, settings), app.state.service, started.put)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        with Client(started.get(timeout=30), make_key(url)) as client:
            client.app = app
            yield client
    finally:
        server.should_exit = True
        thread.join()


def problem(answer, status, slug):
    """Check that an answer is an API problem of this kind, and return it."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    data = answer.json()
    assert data["type"] == f"/problems/{slug}"
    assert data["status"] == status
    assert data["title"]
    assert data["instance"] == answer.headers["x-request-id"]
    assert "Traceback" not in answer.text
    return data


class Process:
    """``rolf serve`` as a process of its own."""

    def __init__(self, *arguments, environment=None, cwd=None):
        self.log = Path(tempfile.mkstemp(prefix="rolf-log")[1])
        variables = {**os.environ, "PYTHONUNBUFFERED": "1", **(environment or {})}
        command = [sys.executable, "-c", "from rolf.cli import main; main()", "serve"]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [*command, "--port", "0", *arguments],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=variables,
                cwd=cwd,
            )
        line = self.process.stdout.readline()
        assert line.startswith("serving: "), self.log.read_text()
        self.url = line.split()[-1]

    def lines(self):
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def stop(self):
        """Stop it as systemd does; returns the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=30)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.log.unlink()


def wait_until(condition, seconds=10.0):
    """Wait until a condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)
