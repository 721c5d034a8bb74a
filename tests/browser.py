"""A headless Chromium, controlled through a pipe by the DevTools protocol."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe"),
)
# Chromium reads from descriptor 3 and writes to 4; our pipes may have these numbers already.
_LAUNCH = """import os, sys
os.dup2(int(sys.argv[1]), 100), os.dup2(int(sys.argv[2]), 101)
os.dup2(100, 3), os.dup2(101, 4)
os.closerange(100, 102)
os.execv(sys.argv[3], sys.argv[3:])"""
_LIMIT = 120.0  # seconds to wait for one answer on a busy machine


def find_chromium() -> str | None:
    """Path of the installed browser, or None."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Chromium:
    """One browser with one page, as a context manager."""

    def __init__(self, program: str, profile: Path) -> None:
        to_browser, from_us = os.pipe()
        from_browser, to_us = os.pipe()
        ends = (str(to_browser), str(to_us))
        words = (program, *FLAGS, f"--user-data-dir={profile}", "about:blank")
        self._process = subprocess.Popen(
            [sys.executable, "-c", _LAUNCH, *ends, *words],
            pass_fds=(to_browser, to_us),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(to_us)
        self._in, self._out = from_us, from_browser
        self._buffer, self._count = b"", 0
        self.events: list[dict[str, Any]] = []
        self._session: str | None = None

    def __enter__(self) -> Chromium:
        try:
            self._attach()
        except BaseException:
            self._end()
            raise
        return self

    def _attach(self) -> None:
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(target["targetId"] for target in targets if target["type"] == "page")
        attached = self.call("Target.attachToTarget", targetId=page, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def __exit__(self, *_: object) -> None:
        self._session = None
        try:
            self.call("Browser.close")
            self._process.wait(timeout=_LIMIT)
        finally:
            self._end()

    def _end(self) -> None:
        self._process.kill()  # does nothing if it has ended
        self._process.wait()
        os.close(self._in)
        os.close(self._out)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method and return its result; events that arrive before it are kept."""
        self._count += 1
        message: dict[str, Any] = {"id": self._count, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._in, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._count:
                assert "error" not in answer, answer["error"]
                return answer["result"]
            self.events.append(answer)

    def _read(self) -> dict[str, Any]:
        until = time.monotonic() + _LIMIT
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._out], [], [], until - time.monotonic())
            if not ready:
                raise TimeoutError("Chromium did not answer")
            piece = os.read(self._out, 1 << 20)
            if not piece:
                raise EOFError("Chromium ended")
            self._buffer += piece
        line, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(line)

    def look(self, width: int, height: int, scheme: str) -> None:
        """Set the size of the window and the preferred colour scheme."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.call("Emulation.setEmulatedMedia", features=[feature])

    def open(self, file: Path) -> None:
        """Open a file and wait until it is loaded."""
        self.events.clear()
        self.call("Page.navigate", url=file.resolve().as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._read())

    def run(self, script: str) -> Any:
        """Value of an expression in the page."""
        answer = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def of(self, method: str) -> list[dict[str, Any]]:
        """Events of one kind since the page was opened."""
        return [event["params"] for event in self.events if event.get("method") == method]

    def screenshot(self, path: Path) -> None:
        """Write a picture of the whole page."""
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))
