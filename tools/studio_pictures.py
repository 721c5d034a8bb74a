"""Take the pictures of the studio in docs/_static: three screens, and a tour that moves.

    python tools/studio_pictures.py

Needs Chromium, Playwright and the extra ``app``. The faces are drawings of the shipped model.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "tests"))

from browser import find_chromium  # noqa: E402  the same browser and server as in the tests
from visits import Visit, running_studio  # noqa: E402

OUT = ROOT / "docs" / "_static"
MODEL = "portraits-causal"
SCREENS = {
    "studio-light": ((1280, 800), "light", "image=s1&do=age:72"),
    "studio-dark": ((1280, 800), "dark", "image=s5&do=smiling:0&tab=history"),
    "studio-phone": ((390, 844), "dark", "image=s4&do=hair:red"),
}
LARGEST, LARGEST_TOUR = 150_000, 1_500_000  # bytes
WIDTH = 960  # pixels of the tour


def picture(visit: Visit) -> Image.Image:
    """Return the screen as it is."""
    visit.page.wait_for_timeout(300)  # for transitions
    return Image.open(io.BytesIO(visit.page.screenshot())).convert("RGB")


def tour(visit: Visit) -> Iterator[tuple[Image.Image, int]]:
    """Walk through the page; yield screens and for how many milliseconds they stay."""
    page = visit.page

    def after(action: Callable[[], Any]) -> Image.Image:
        action()
        visit.answered()
        return picture(visit)

    yield picture(visit), 2500
    page.locator("[data-view=slide]").click()
    for place in (50, 70, 90, 70, 50, 30, 10, 30, 50):
        page.locator("#wipe").fill(str(place))
        yield picture(visit), 250
    page.locator("[data-view=difference]").click()
    yield picture(visit), 1800
    page.locator("[data-view=truth]").click()
    yield picture(visit), 1800
    page.locator("[data-view=answer]").click()
    yield after(lambda: page.locator(".node[data-name=hair]").click()), 2000
    yield after(lambda: page.locator(".thumb").nth(4).click()), 2000
    yield after(lambda: page.locator(".node[data-name=smiling]").click()), 2000
    page.locator("#tab-rules").click()
    page.locator(".tile canvas").nth(len(page.locator(".tile").all()) - 1).wait_for()
    page.locator(".explore").scroll_into_view_if_needed()
    page.evaluate("scrollTo(0, 500)")
    yield picture(visit), 3000
    page.evaluate("scrollTo(0, 0)")
    yield picture(visit), 1500


def save(name: str, frames: list[tuple[Image.Image, int]], largest: int, quality: int) -> None:
    """Write a picture, or several that follow each other, as WebP."""
    file = OUT / f"{name}.webp"
    (first, _), *rest = frames
    moving: dict[str, Any] = {}
    if rest:
        durations = [duration for _, duration in frames]
        moving = {"save_all": True, "append_images": [f for f, _ in rest], "duration": durations}
    first.save(file, quality=quality, method=6, loop=0, **moving)
    size = file.stat().st_size
    print(f"{file.relative_to(ROOT)}: {size:,} bytes")
    assert size < largest, "too large: lower the quality"


def main() -> None:
    """Take all pictures."""
    with running_studio(MODEL) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=find_chromium(), args=["--no-sandbox"]
        )
        for name, (size, scheme, fragment) in SCREENS.items():
            visit = Visit(browser, f"{address}/", size, scheme, device_scale_factor=1.5)
            visit.page.set_default_timeout(120_000)
            visit.open(fragment)
            count = visit.page.locator(".tile").count()
            visit.page.locator(".tile canvas").nth(count - 1).wait_for()
            save(name, [(picture(visit), 0)], LARGEST, 82)
            visit.close()
        visit = Visit(browser, f"{address}/")
        visit.page.set_default_timeout(120_000)
        visit.open("image=s1&do=age:72&tab=history")
        frames = [
            (frame.resize((WIDTH, WIDTH * frame.height // frame.width)), duration)
            for frame, duration in tour(visit)
        ]
        visit.close()
        save("studio-tour", frames, LARGEST_TOUR, 70)
        browser.close()


if __name__ == "__main__":
    main()
