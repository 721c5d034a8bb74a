"""Pages in a headless Chromium, and what they log and ask for."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PROGRAM = next((path for path in map(shutil.which, NAMES) if path), None)
browsing = pytest.mark.skipif(
    PROGRAM is None or not sys.platform.startswith("linux"),
    reason="a browser is no Python package, so `make test` cannot bring one; .ci/run installs it, "
    f"and pages are opened in Chromium on Linux, one of {', '.join(NAMES)}",
)


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser of Playwright."""
    reason = "opens pages by Playwright"
    sync_api = pytest.importorskip("playwright.sync_api", reason=reason)
    with sync_api.sync_playwright() as playwright:
        program = playwright.chromium.launch(executable_path=PROGRAM, args=["--no-sandbox"])
        yield program
        program.close()


class Tab:
    """A page on a screen of a size and a colour scheme."""

    def __init__(self, browser: Any, size: tuple[int, int], scheme: str, **options: Any) -> None:
        width, height = size
        self.context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, **options
        )
        self.page = self.context.new_page()
        self.page.set_default_timeout(20_000)
        self.errors: list[str] = []
        self.asked: list[Any] = []
        self.page.on("console", lambda message: self.errors.append(message.text))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request))

    def foreign(self, address: str) -> list[str]:
        """Return what was asked for beside an address and what is inside the page."""
        own = ("data:", "blob:", address)
        return [each.url for each in self.asked if not each.url.startswith(own)]


class Reader:
    """Opens files on one screen after the other."""

    def __init__(self, browser: Any) -> None:
        self._browser = browser

    def look(self, width: int, height: int, scheme: str) -> None:
        """Take another screen; narrow ones are of a phone."""
        is_mobile = width < 600
        self.tab = Tab(self._browser, (width, height), scheme, is_mobile=is_mobile)

    def open(self, file: Path) -> None:
        """Open a file and wait until it is loaded."""
        self.tab.page.goto(file.resolve().as_uri())

    def run(self, script: str) -> Any:
        """Return the value of an expression in the page."""
        return self.tab.page.evaluate(script)
