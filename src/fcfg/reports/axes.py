"""What charts share: scales with round ticks, marks, and a figure with its words."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

from fcfg.reports.html import Markup, joined, tag
from fcfg.reports.rule_styles import PAPER, Setting, colours, variable

INK, PALE, RULE, FOCUS, GROUND = (
    variable(name) for name in ("ink", "pale", "rule", "focus", "paper")
)
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif"
_STEPS = (1, 2, 2.5, 5, 10)


@dataclass(frozen=True)
class Panel:
    """One drawing, which becomes a file of its own."""

    name: str  #: of the file, without its suffix
    svg: Markup  #: as it stands in a page, in the page's colours

    @property
    def file(self) -> str:
        """The drawing by itself, in fixed colours on white paper."""
        fixed = colours(dark=False)
        text = re.sub(r"var\(--\w+\)", lambda found: fixed[found[0]], self.svg)
        sheet = tag("rect", width="100%", height="100%", fill=PAPER["paper"][0])
        head, _, rest = text.partition(">")
        return f'{head} xmlns="http://www.w3.org/2000/svg">{sheet}{rest}\n'


@dataclass(frozen=True)
class Scale:
    """From numbers to places along an axis."""

    low: float
    high: float
    start: float  #: the place of the lowest number
    stop: float

    def __call__(self, value: float) -> float:
        """The place of a number."""
        share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.stop - self.start)

    @property
    def ticks(self) -> list[float]:
        """Round numbers within, 0 among them where it is.

        >>> Scale(-0.13, 0.71, 0, 100).ticks
        [0.0, 0.2, 0.4, 0.6]
        """
        step = _round_step((self.high - self.low) / 6)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [round(number * step, 12) + 0.0 for number in range(first, last + 1)]

    @property
    def digits(self) -> int:
        """How many the ticks need."""
        texts = [f"{tick:.10f}".rstrip("0") for tick in self.ticks]
        return max((len(text.partition(".")[2]) for text in texts), default=0)


def _round_step(length: float) -> float:
    power = 10.0 ** math.floor(math.log10(length))
    return power * next(step for step in _STEPS if step * power >= length * (1 - 1e-9))


def around(values: Iterable[float], start: float, stop: float) -> Scale:
    """A scale that holds all values and 0, with some room.

    >>> around([0.2, 0.4], 0, 1).low < 0 < 0.4 < around([0.2, 0.4], 0, 1).high
    True
    """
    given = [0.0, *(value for value in values if math.isfinite(value))]
    low, high = min(given), max(given)
    room = 0.1 * (high - low) or 1.0
    return Scale(low - room, high + room, start, stop)


def drawing(width: float, height: float, title: str, words: str, *children: object) -> Markup:
    """An SVG with a title, and a description for who cannot see it."""
    return tag(
        "svg",
        tag("title", title),
        tag("desc", words),
        *children,
        viewBox=f"0 0 {width:.0f} {height:.0f}",
        width=f"{width:.0f}",
        height=f"{height:.0f}",
        role="img",
        aria_label=f"{title}. {words}",
        font_family=FONT,
        font_size=12,
    )


def write(
    x: float,
    y: float,
    text: str,
    *,
    fill: str = INK,
    anchor: str | None = None,
    size: float | None = None,
    weight: str | None = None,
    halo: bool = False,
) -> Markup:
    """Text in a drawing; with a halo it can be read on lines."""
    around_it = {"paint_order": "stroke", "stroke": GROUND, "stroke_width": 3} if halo else {}
    return tag(
        "text",
        text,
        x=float(x),
        y=float(y),
        fill=fill,
        text_anchor=anchor,
        font_size=size,
        font_weight=weight,
        **around_it,
    )


def stroke(x1: float, y1: float, x2: float, y2: float, colour: str, **more: object) -> Markup:
    """A straight line in a drawing."""
    return tag(
        "line", x1=float(x1), y1=float(y1), x2=float(x2), y2=float(y2), stroke=colour, **more
    )


def mark(setting: Setting, x: float, y: float, size: float = 4.5) -> Markup:
    """The mark of a family: hollow if it is global, filled if it is factored."""
    colour = setting.colour
    look = {
        "fill": colour if setting.factored or setting.family == "none" else GROUND,
        "stroke": colour,
        "stroke_width": 1.8,
    }
    return symbol(setting.mark, x, y, size, **look)


def symbol(kind: str, x: float, y: float, size: float, **look: object) -> Markup:
    """A small shape around a place: circle, square, triangle, wedge or diamond."""
    if kind == "circle":
        return tag("circle", cx=float(x), cy=float(y), r=size, **look)
    corners = {
        "square": ((-1, -1), (1, -1), (1, 1), (-1, 1)),
        "triangle": ((0, -1.25), (1.15, 0.85), (-1.15, 0.85)),
        "wedge": ((0, 1.25), (1.15, -0.85), (-1.15, -0.85)),
        "diamond": ((0, -1.2), (1.2, 0), (0, 1.2), (-1.2, 0)),
    }[kind]
    shrunk = size * 0.9
    points = " L".join(f"{x + dx * shrunk:.1f} {y + dy * shrunk:.1f}" for dx, dy in corners)
    return tag("path", d=f"M{points}Z", **look)


def described(shape: Markup, words: str, **data: object) -> Markup:
    """A shape with its numbers: as a title that a pointer shows, and as data."""
    return tag("g", tag("title", words), joined([shape]), **data)
