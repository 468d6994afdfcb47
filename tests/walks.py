"""The files of rolf that one call enters, in order: ``python tests/walks.py``.

A walk is recorded with Python's own hook for calls, once the same call has been made twice: by then
everything is imported, compiled, cached and open. Leaves (checks, errors, linear algebra, text,
types, the dispatch of kernels) are looked through, as if they were Python's own.

``files`` are those entered, in order; ``changes`` counts how often a call is in another file than
the call before it in the same thread; ``calls`` are pairs of files: a caller, and what it calls.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import re
import sys
import tempfile
import textwrap
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import rolf

PACKAGE = str(Path(rolf.__file__).parent) + "/"
#: what everything may use, and what stands between an operation and its body
LEAVES = ("checks.py", "errors.py", "linalg.py", "text.py", "types.py")
DISPATCH = "kernel/"
#: the page that shows the walks, and where
PAGE = Path(__file__).parents[1] / "docs" / "reference" / "engine.md"
SHOWN = re.compile(r"(<!-- walks -->\n+)(.*?)(\n+<!-- end of the walks -->)", re.DOTALL)
FEATURES = [[1.0, 0.2], [0.3, 1.5], [0.8, 0.9], [0.1, 0.4]]
TABLE = "name,width,price,colour,sold\na,1.5,10%,red,true\nb,2.5,20%,blue,false\nc,3,5%,red,true\n"


class Walk(NamedTuple):
    """What one call went through."""

    files: list[str]
    changes: int
    calls: set[tuple[str, str]]

    def circles(self, but: set[tuple[str, str]] = frozenset()) -> list[list[str]]:
        """Files that call each other, directly or through others."""
        return circles(self.calls - but)


class Recorder:
    """Notes the file of every Python call while it is on, in threads as well."""

    def __init__(self) -> None:
        self._on = False
        self._lock = threading.Lock()
        self._entered: list[str] = []
        self._changes = 0
        self._last: dict[int, str] = {}  # file of the last call, per thread
        self._calls: set[tuple[str, str]] = set()
        self._names: dict[str, str | None] = {}

    def __enter__(self) -> Recorder:
        """From here on, threads that start are watched."""
        threading.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        threading.setprofile(None)

    def walk(self, call: Callable[[], object]) -> Walk:
        """What ``call`` goes through."""
        self._entered, self._calls, self._last = [], set(), {}
        self._changes, self._on = 0, True
        sys.setprofile(self._note)
        try:
            call()
        finally:
            sys.setprofile(None)
            self._on = False
        changes = self._changes - 1  # the first call is no change
        return Walk(list(dict.fromkeys(self._entered)), changes, self._calls)

    def _note(self, frame: Any, event: str, _: object) -> None:
        if event != "call" or not self._on or frame.f_code.co_name == "<module>":
            return
        name = self._name(frame)
        if name is None:
            return
        caller, dispatched = self._caller(frame)
        with self._lock:
            self._entered.append(name)
            thread = threading.get_ident()
            self._changes += self._last.get(thread) != name
            self._last[thread] = name
            if caller is not None and caller != name and not dispatched:
                self._calls.add((caller, name))

    def _caller(self, frame: Any) -> tuple[str | None, bool]:
        """The file that calls a frame, and whether it calls an operation of the kernel."""
        dispatched = False
        caller = frame.f_back
        while caller is not None and self._name(caller) is None:
            dispatched |= caller.f_code.co_filename.startswith(PACKAGE + DISPATCH)
            caller = caller.f_back
        return (None if caller is None else self._name(caller)), dispatched

    def _name(self, frame: Any) -> str | None:
        """A file of rolf that is no leaf, relative to the package."""
        path = frame.f_code.co_filename
        if path not in self._names:
            name = path.removeprefix(PACKAGE) if path.startswith(PACKAGE) else None
            if name is not None and (name in LEAVES or name.startswith(DISPATCH)):
                name = None
            self._names[path] = name
        return self._names[path]


def circles(calls: set[tuple[str, str]]) -> list[list[str]]:
    """The strongly connected components of a graph that have more than one node."""
    below: dict[str, set[str]] = {}
    for caller, called in calls:
        below.setdefault(caller, set()).add(called)

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        left = [start]
        while left:
            for name in below.get(left.pop(), set()) - seen:
                seen.add(name)
                left.append(name)
        return seen

    reach = {name: reached(name) for name in below}
    found = {
        tuple(sorted(other for other in names if name in reach.get(other, set())))
        for name, names in reach.items()
        if name in names
    }
    return sorted(map(list, found))


def record() -> dict[str, Walk]:
    """Every walk, by its name."""
    with (
        warnings.catch_warnings(),
        tempfile.TemporaryDirectory() as folder,
        Recorder() as recorder,
        contextlib.ExitStack() as stack,
    ):
        warnings.simplefilter("ignore")
        walks = {}
        for name, call in {
            "simulate": simulated(),
            **of_a_policy(),
            **of_an_experiment(Path(folder), stack),
            "POST .../ask": over_http(Path(folder), stack),
            "a CSV of arms": of_a_table(Path(folder)),
            "reproduce": reproduced(Path(folder)),
        }.items():
            call()
            call()
            walks[name] = recorder.walk(call)
        return walks


def simulated() -> Callable[[], object]:
    family = rolf.environments.paper(arms=4, size=6)
    plan: Any = {"RoLF": "rolf-ridge", "UCB": "ucb"}
    return lambda: rolf.simulate(plan, family, rounds=20, runs=2, seed=0, jobs=1)


def of_a_policy() -> dict[str, Callable[[], object]]:
    policy = rolf.policy_class("ucb")(np.array(FEATURES), seed=0)
    asked = [policy.ask() for _ in range(20)]
    for decision in asked[:8]:
        policy.tell(decision, 1.0)
    rest = iter(asked[8:])
    return {
        "policy.ask": lambda: policy.ask(),
        "policy.tell": lambda: policy.tell(next(rest), 0.5),
    }


def of_an_experiment(folder: Path, stack: Any) -> dict[str, Callable[[], object]]:
    url = f"sqlite:///{folder}/walks.db"
    experiment: Any = rolf.open_experiment(url, "walk", features=FEATURES, policy="ucb")
    stack.callback(experiment.close)
    asked = [experiment.ask() for _ in range(20)]
    for decision in asked[:8]:
        experiment.tell(decision, 1.0)
    rest = iter(asked[8:])
    return {
        "experiment.ask": lambda: experiment.ask(),
        "experiment.tell": lambda: experiment.tell(next(rest), 0.5),
    }


def of_a_table(folder: Path) -> Callable[[], object]:
    path = folder / "arms.csv"
    path.write_text(TABLE)
    return lambda: rolf.read_arms(path)


def reproduced(folder: Path) -> Callable[[], object]:
    from rolf.paper.reproduce import reproduce

    out = folder / "out"
    return lambda: reproduce(out, figure=["figure1"], runs=1, rounds=50, jobs=1, setting="paper")


def over_http(folder: Path, stack: Any) -> Callable[[], object]:
    """An ask through the whole application, as a server would pass it on."""
    from rolf.experiments.storage.urls import connect
    from rolf.service.app import create_app
    from rolf.service.auth import new_key
    from rolf.service.settings import Settings

    url = f"sqlite:///{folder}/served.db"
    rolf.open_experiment(url, "walk", features=FEATURES, policy="ucb").close()
    text, key = new_key("admin", None)
    store = connect(url)
    store.add_key(key)
    store.close()
    app = create_app(Settings(storage=url))
    runner = stack.enter_context(asyncio.Runner())
    stack.enter_context(lifespan(app, runner))
    return lambda: runner.run(post(app, "/v1/experiments/walk/ask", {}, text))


@contextlib.contextmanager
def lifespan(app: Any, runner: asyncio.Runner) -> Iterator[None]:
    """Start an application and end it, as servers do."""

    to_app: asyncio.Queue[Any] = asyncio.Queue()
    from_app: asyncio.Queue[Any] = asyncio.Queue()

    async def start() -> asyncio.Task[None]:
        running = asyncio.ensure_future(app({"type": "lifespan"}, to_app.get, from_app.put))
        await to_app.put({"type": "lifespan.startup"})
        assert (await from_app.get())["type"] == "lifespan.startup.complete"
        return running

    running = runner.run(start())

    async def end() -> None:
        await to_app.put({"type": "lifespan.shutdown"})
        assert (await from_app.get())["type"] == "lifespan.shutdown.complete"
        await running

    try:
        yield
    finally:
        runner.run(end())


async def post(app: Any, path: str, body: object, key: str) -> Any:
    """One request, without a server."""
    data = json.dumps(body).encode()
    headers = {
        "authorization": f"Bearer {key}",
        "content-type": "application/json",
        "content-length": str(len(data)),
        "host": "127.0.0.1",
    }
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    messages: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": data, "more_body": False}

    async def send(message: Any) -> None:
        messages.append(message)

    await app(scope, receive, send)
    assert messages[0]["status"] == 200, messages
    return messages


def markdown(walks: dict[str, Walk]) -> str:
    """The walks as docs/reference/engine.md shows them."""
    paragraphs = []
    for name, walk in walks.items():
        files = ", ".join(f"`{file.removesuffix('.py')}`" for file in walk.files)
        text = f"**{name}**: {files}."
        paragraphs.append(textwrap.fill(text, 118, break_on_hyphens=False, break_long_words=False))
    return "\n\n".join(paragraphs)


def write_page(walks: dict[str, Walk]) -> None:
    PAGE.write_text(
        SHOWN.sub(lambda found: found[1] + markdown(walks) + found[3], PAGE.read_text())
    )


def table(walks: dict[str, Walk]) -> str:
    lines = []
    for name, walk in walks.items():
        lines.append(f"{name:16} {len(walk.files):3} files {walk.changes:4} changes")
        lines += [f"    circle: {', '.join(each)}" for each in walk.circles()]
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--markdown", action="store_true", help="as the page shows them")
    parser.add_argument("--write", action="store_true", help=f"into {PAGE.name}")
    parser.add_argument("--calls", metavar="WALK", help="who calls whom in one walk")
    options = parser.parse_args()
    recorded = record()
    if options.calls:
        for caller, called in sorted(recorded[options.calls].calls):
            print(caller, "->", called)
    elif options.write:
        write_page(recorded)
    else:
        print((markdown if options.markdown else table)(recorded))
