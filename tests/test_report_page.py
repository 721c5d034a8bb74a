"""The page in a browser, as a reader has it: wide or narrow, light or dark, without a network."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from browser import Reader, browsing, chromium
from fake_results import CORE, make_results
from fcfg.reports import compare, write_report

pytestmark = browsing


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    make_results(folder, n=200, settings=CORE[:5], pictures=3)
    return write_report(compare(folder)).page


@pytest.fixture(scope="module")
def comparison(page: Path) -> Path:
    run = page.parent.parent
    return write_report(compare(run, run)).page


@pytest.fixture(scope="module")
def browser() -> Iterator[Reader]:
    with chromium() as program:
        yield Reader(program)


@pytest.mark.parametrize("which", ["page", "comparison"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_a_page_is_whole_on_every_screen(browser, width, scheme, which, request) -> None:
    page: Path = request.getfixturevalue(which)
    browser.look(width, 844, scheme)
    browser.open(page)
    pictures = browser.run("[...document.images].map(i => i.complete && i.naturalWidth)")
    assert len(pictures) > 50
    assert all(width > 0 for width in pictures)
    assert browser.run("document.documentElement.scrollWidth") == width
    assert browser.run("document.querySelectorAll('.panels svg').length") == 3 * 3
    drawn = (
        "[...document.querySelectorAll('.panels svg')].map(s => s.getBoundingClientRect().width)"
    )
    assert all(300 < shown <= min(width, 420) for shown in browser.run(drawn))
    assert browser.tab.foreign(page.resolve().as_uri()) == []
    assert browser.tab.errors == []


def test_light_and_dark_are_what_they_say(browser: Reader, page: Path) -> None:
    colours: dict[str, list[str]] = {}
    for scheme in ("light", "dark"):
        browser.look(1280, 844, scheme)
        browser.open(page)
        colours[scheme] = browser.run(
            "[document.documentElement, document.querySelector('section figcaption'),"
            " document.querySelector('.panels svg text')].map((e, i) =>"
            " getComputedStyle(e)[['backgroundColor', 'color', 'fill'][i]])"
        )
    assert colours["light"] == ["rgb(255, 255, 255)", *["rgb(27, 31, 35)"] * 2]
    assert colours["dark"] == ["rgb(20, 23, 26)", *["rgb(230, 232, 234)"] * 2]


@pytest.mark.parametrize(("width", "in_a_line"), [(390, 2), (700, 2), (1280, 4)])
def test_the_page_opens_with_large_pictures_which_are_all_to_be_seen(
    browser: Reader, page: Path, width: int, in_a_line: int
) -> None:
    browser.look(width, 844, "light")
    browser.open(page)
    places = browser.run(
        "[...document.querySelectorAll('.opening img')].map(i => i.getBoundingClientRect())"
        ".map(r => [r.left, r.right, r.top, r.width])"
    )
    assert len(places) == 4  # factual, truth, CFG, FCFG
    assert all(left >= 0 and right <= width for left, right, _, _ in places)
    assert len({round(top) for _, _, top, _ in places}) == 4 / in_a_line
    assert min(size for *_, size in places) > 150
    assert max(top for _, _, top, _ in places) < 844  # on the first screen
    first = "document.querySelector('main figure').className"
    assert browser.run(first) == "opening"
    assert browser.run(
        "document.querySelector('.opening').getBoundingClientRect().top <"
        " document.querySelector('.glance').getBoundingClientRect().top"
    )


def test_no_half_of_a_wide_page_is_empty(browser: Reader, page: Path) -> None:
    """Long texts and strips of pictures reach into the right third of the page."""
    browser.look(1400, 844, "light")
    browser.open(page)
    for what in (".opening img", ".glance table", ".strip img", ".panels svg"):
        rights = browser.run(
            f"[...document.querySelectorAll('{what}')].map(e => e.getBoundingClientRect().right)"
        )
        assert max(rights) > 1400 * 2 / 3, what
    columns = "[...document.querySelectorAll('.long')].map(e => getComputedStyle(e).columnCount)"
    assert set(browser.run(columns)) == {"2"}


@pytest.mark.parametrize(("width", "shown"), [(390, True), (1280, False)])
def test_a_phone_says_what_scrolls(browser: Reader, page: Path, width: int, shown: bool) -> None:
    browser.look(width, 844, "light")
    browser.open(page)
    boxes = browser.run(
        "[...document.querySelectorAll('.box')].map(b => [b.scrollWidth > b.clientWidth,"
        " !!b.parentNode.querySelector('.swipe')?.offsetHeight])"
    )
    assert any(said for _, said in boxes) == shown
    if shown:
        assert sum(wide for wide, _ in boxes) > 5
        assert all(said for wide, said in boxes if wide)
    strips = (
        "[...document.querySelectorAll('.strips .box')].map(b => b.scrollWidth > b.clientWidth)"
    )
    assert set(browser.run(strips)) == {shown}  # elsewhere every picture is to be seen
    if shown:  # and the names of rows stay where they are
        assert browser.run(
            "(() => { const box = document.querySelector('.box'); box.scrollLeft = 200;"
            " const name = box.querySelector('tbody th').getBoundingClientRect();"
            " return box.scrollLeft === 200"
            " && Math.abs(name.left - box.getBoundingClientRect().left) < 1; })()"
        )
