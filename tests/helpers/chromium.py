"""Headless Chromium, driven through the DevTools protocol on two pipes: no driver and no library."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest


@dataclass
class Page:
    """One tab; ``events`` are all that the browser told of it."""

    reader: int
    writer: int
    session: str = ""
    events: list[dict[str, Any]] = field(default_factory=list)
    _rest: bytes = b""
    _number: int = 0

    def send(self, method: str, **parameters: object) -> dict[str, Any]:
        """Send a command, and return its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        os.write(
            self.writer, json.dumps(message | ({"sessionId": self.session} if self.session else {})).encode() + b"\0"
        )
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return dict(answer["result"])
            self.events.append(answer)

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            part = os.read(self.reader, 1 << 16)
            assert part, "Chromium ended"
            self._rest += part
        text, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(text))

    def run(self, script: str) -> Any:
        """Return the value of an expression, awaited."""
        done = self.send("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def open(self, path: Path) -> None:
        """Open a file, and wait until it is loaded."""
        self.load(path.absolute().as_uri())

    def load(self, url: str) -> None:
        """Open an address, and wait until it is loaded."""
        self.send("Page.navigate", url=url)
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._read())

    def named(self, *methods: str) -> list[dict[str, Any]]:
        """Return the parameters of the events with these names."""
        return [event["params"] for event in self.events if event.get("method") in methods]


@contextmanager
def chromium(folder: Path) -> Iterator[Page]:
    """Start Chromium with a new profile in ``folder``; fail the test if none is installed."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if not program:
        pytest.fail("these tests need Chromium: apt-get install chromium")
    (commands, writer), (reader, answers) = os.pipe(), os.pipe()
    # The browser has the pipes as 3 and 4, whatever their numbers are here.
    shell = f'exec "$0" "$@" 3<&{commands} 4>&{answers}'
    options = ["--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    options += ["--no-first-run", "--disable-background-networking", f"--user-data-dir={folder}"]
    process = subprocess.Popen(
        ["bash", "-c", shell, program, *options, "about:blank"],
        pass_fds=(commands, answers),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(commands)
    os.close(answers)
    page = Page(reader, writer)
    try:
        targets = page.send("Target.getTargets")["targetInfos"]
        tab = next(target["targetId"] for target in targets if target["type"] == "page")
        page.session = page.send("Target.attachToTarget", targetId=tab, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.send(f"{domain}.enable")
        yield page
    finally:
        page.session = ""
        with contextlib.suppress(OSError, AssertionError):
            page.send("Browser.close")
        os.close(writer)
        os.close(reader)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
