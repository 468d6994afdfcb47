"""Firefox, driven by its own protocol: Marionette, JSON over a socket. No driver is needed."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from support.browser import FIREFOX

#: seconds to wait for something to happen
SOON = 30.0
#: key of an element in answers, as WebDriver has it
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
ENTER = "\ue007"
PREFERENCES = {
    "marionette.port": 0,  # any that is free
    "browser.dom.window.dump.enabled": True,  # what pages write to the console goes to the log
    "devtools.console.stdout.content": True,
    "devtools.console.stdout.chrome": False,
}
#: read with the rights of the browser: errors and warnings of pages, refused resources among them
ERRORS = """
return Services.console.getMessageArray()
  .filter(each => each instanceof Ci.nsIScriptError && each.sourceName.startsWith(arguments[0]))
  .map(each => each.errorMessage);
"""
#: in the log: what pages wrote; RSLoader is Firefox itself, which finds no server of its makers
WRITTEN = re.compile(r"^console\.\w+: (?!RSLoader).*$", re.MULTILINE)


class Firefox:
    """One window of a browser, used as people use it."""

    def __init__(self, port: int, log: Path) -> None:
        self.log = log
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=SOON)
        self.stream = self.socket.makefile("rb")
        self.last = 0
        self.receive()  # which version of the protocol it speaks
        self.send("WebDriver:NewSession", {})

    def receive(self) -> Any:
        digits = b""
        while (digit := self.stream.read(1)) != b":":
            assert digit, "Firefox is gone"
            digits += digit
        return json.loads(self.stream.read(int(digits)))

    def send(self, command: str, parameters: dict[str, Any]) -> Any:
        self.last += 1
        message = json.dumps([0, self.last, command, parameters]).encode()
        self.socket.sendall(f"{len(message)}:".encode() + message)
        _, number, error, result = self.receive()
        assert number == self.last
        assert error is None, f"{command}: {error}"
        return result

    def open(self, address: str) -> None:
        self.send("WebDriver:Navigate", {"url": address})

    def run(self, script: str, *arguments: Any) -> Any:
        """What a script in the page returns."""
        return self.send("WebDriver:ExecuteScript", {"script": script, "args": arguments})["value"]

    def find(self, selector: str) -> str:
        """An element, once it is there."""
        where = {"using": "css selector", "value": selector}
        self.wait("return document.querySelector(arguments[0]) !== null", selector)
        return self.send("WebDriver:FindElement", where)["value"][ELEMENT]

    def click(self, selector: str) -> None:
        self.send("WebDriver:ElementClick", {"id": self.find(selector)})

    def type(self, selector: str, text: str) -> None:
        self.send("WebDriver:ElementSendKeys", {"id": self.find(selector), "text": text})

    def text(self) -> str:
        """What the page shows."""
        return self.run("return document.body.innerText")

    def wait(self, script: str, *arguments: Any) -> None:
        """Wait until a script in the page returns true."""
        end = time.monotonic() + SOON
        while not self.run(script, *arguments):
            assert time.monotonic() < end, f"{script} {arguments}: {self.text()}"
            time.sleep(0.05)

    def console(self, address: str) -> list[str]:
        """Errors of the pages below an address, and what any page wrote to the console."""
        self.send("Marionette:SetContext", {"value": "chrome"})
        errors = self.run(ERRORS, address)
        self.send("Marionette:SetContext", {"value": "content"})
        return [*errors, *WRITTEN.findall(self.log.read_text())]

    def close(self) -> None:
        self.stream.close()
        self.socket.close()


@contextlib.contextmanager
def running_firefox(folder: Path) -> Iterator[Firefox]:
    """Firefox without a screen, with everything that it writes in ``folder``."""
    profile = folder / "profile"
    profile.mkdir()
    lines = [f'user_pref("{name}", {json.dumps(value)});\n' for name, value in PREFERENCES.items()]
    (profile / "user.js").write_text("".join(lines))
    options = ["--headless", "--marionette", "--remote-allow-system-access", "--no-remote"]
    command = [FIREFOX, *options, "--profile", profile, "about:blank"]
    log = folder / "log"
    with log.open("wb") as file:
        environment = {**os.environ, "HOME": str(folder)}
        process = subprocess.Popen(command, stdout=file, stderr=file, env=environment)
    try:
        port = profile / "MarionetteActivePort"
        end = time.monotonic() + SOON
        while not (port.exists() and port.read_text()):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < end, "Firefox did not start"
            time.sleep(0.05)
        with contextlib.closing(Firefox(int(port.read_text()), log)) as firefox:
            yield firefox
    finally:
        process.terminate()
        process.wait(timeout=30)
