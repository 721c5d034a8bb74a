"""HTML and SVG as text: elements with escaped contents, and the frame of a page."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from html import escape
from importlib.resources import files

from fcfg.reports.rule_styles import palette_css

_EMPTY = {"br", "circle", "img", "line", "meta", "path", "polyline", "rect", "stop"}


class Markup(str):
    """Text that is HTML already, and is put into a page as it is."""

    __slots__ = ()


def tag(name: str, /, *children: object, **attributes: object) -> Markup:
    """An element; whatever is not markup already is escaped.

    >>> tag("p", "a < b", tag("br"), class_="note", data_n=3)
    '<p class="note" data-n="3">a &lt; b<br/></p>'

    Args:
        name: Of the element.
        children: Markup, texts, numbers, or lists of them; None is left out.
        attributes: Underscores become hyphens, one at the end falls away; None is left out.
    """
    pairs = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_text(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _EMPTY:
        return Markup(f"<{name}{pairs}/>")
    return Markup(f"<{name}{pairs}>{joined(children)}</{name}>")


def joined(children: Iterable[object]) -> Markup:
    """Children one after the other."""
    return Markup("".join(_child(child) for child in children))


def _child(child: object) -> str:
    if child is None:
        return ""
    if isinstance(child, Markup):
        return child
    if isinstance(child, list | tuple):
        return joined(child)
    return escape(_text(child), quote=False)


def _text(value: object) -> str:
    """A coordinate needs no more than two digits."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def picture(png: bytes, alt: str, size: tuple[int, int], class_: str | None = None) -> Markup:
    """A PNG inside the page.

    Args:
        png: The file.
        alt: What is to be seen, for who cannot.
        size: Width and height in pixels of the page.
        class_: For the style sheet.
    """
    data = base64.b64encode(png).decode()
    width, height = size
    return tag(
        "img",
        src=f"data:image/png;base64,{data}",
        alt=alt,
        width=width,
        height=height,
        class_=class_,
    )


def page(title: str, *body: Markup) -> str:
    """A whole document that asks for nothing else.

    Args:
        title: Of the window.
        body: What stands in it.
    """
    style = palette_css() + files("fcfg.reports").joinpath("style.css").read_text("utf-8")
    head = (
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", Markup(style)),
    )
    document = tag("html", tag("head", *head), "\n", tag("body", *body), lang="en")
    return f"<!DOCTYPE html>\n{document}\n"
