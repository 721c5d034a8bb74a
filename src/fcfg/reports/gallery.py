"""Strips as tables of pictures, which scroll in a box of their own."""

from __future__ import annotations

from collections.abc import Sequence

from fcfg.evaluation.summary import Summary
from fcfg.reports.html import Markup, picture, tag
from fcfg.reports.html_tables import scrolling
from fcfg.reports.numbers import named
from fcfg.reports.strips import Group, Strip, encoded, ramp
from fcfg.reports.texts import in_words
from fcfg.support.images import to_pictures

_SIDE = 72  # of a picture, at least
_GAPS = (12, 18)  # about what lies between two pictures, without and with columns in groups


def gallery(summary: Summary, strips: Sequence[Strip]) -> Markup:
    """Strips of one kind below each other.

    Args:
        summary: Of the run.
        strips: At least one.
    """
    parts: list[Markup | None] = []
    for strip in strips:
        title, columns = named(strip.do), sum(len(group.columns) for group in strip.groups)
        parts.append(tag("h3", title, " ", tag("small", in_words(summary, strip.do))))
        parts.append(scrolling(f"Pictures under {title}", _table(strip, columns), columns))
        parts.append(_legend(strip.scale) if strip.scale is not None else None)
    return tag("div", *parts, class_="strips")


def _table(strip: Strip, columns: int) -> Markup:
    """One line an image; the first column stays while the others scroll."""
    is_deep = any(len(group.columns) > 1 for group in strip.groups)
    size = _size(strip)
    above: list[Markup] = []
    below: list[Markup] = []
    cells: list[list[Markup]] = [[] for _ in next(iter(strip.groups[0].columns.values()))]
    for place, group in enumerate(strip.groups):
        above.append(_group_heading(group, _look(place, is_deep, "set" if group.setting else "")))
        for number, (heading, images) in enumerate(group.columns.items()):
            look = _look(place if number == 0 else None, is_deep)
            below.append(tag("th", heading, scope="col", class_=look))
            alt = ", ".join(part for part in (group.title, heading) if part)
            kind = "map" if heading in ("error", "change", "loss") else None
            for row, image in enumerate(to_pictures(images)):
                shown = picture(encoded(image), f"image {row + 1}: {alt}", size, kind)
                cells[row].append(tag("td", shown, class_=look))
    head = tag("thead", tag("tr", *above), tag("tr", *below) if is_deep else None)
    rows = [tag("tr", *row) for row in cells]
    style = f"--columns:{columns};--gap:{_GAPS[is_deep]}px"
    return tag("table", head, tag("tbody", *rows), class_="strip", style=style)


def _group_heading(group: Group, look: str | None) -> Markup:
    style = f"color:{group.setting.colour}" if group.setting is not None else None
    count = len(group.columns)
    title = tag(
        "span", group.title.replace(" / ", "\u00a0/\u00a0"), class_="wrap" if count == 1 else None
    )
    return tag("th", title, colspan=count, scope="colgroup", class_=look, style=style)


def _look(place: int | None, is_deep: bool, *more: str) -> str | None:
    """Classes of a column: the first stays, those that begin a group stand apart."""
    first = "sticky" if place == 0 else "open" if place and is_deep else ""
    words = [word for word in (first, "deep" if is_deep else "", *more) if word]
    return " ".join(words) or None


def _size(strip: Strip) -> tuple[int, int]:
    """Width and height of a picture, of which the style sheet makes as much as the page has."""
    height, width = next(iter(strip.groups[0].columns.values())).shape[-2:]
    return _SIDE, round(_SIDE * height / width)


def _legend(scale: float) -> Markup:
    words = "the colours of difference maps, from blue through white to red"
    return tag(
        "p",
        f"darker by {scale:g}",
        picture(ramp(), words, (128, 12), "map"),
        f"brighter by {scale:g}, in units of [−1, 1]",
        class_="scale",
    )
