"""SVG drawings: escaped elements, scales with round ticks, and marks."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from markupsafe import Markup

from fcfg.evaluation.result_files import BASELINE
from fcfg.reports.rule_styles import PAPER, Setting, colours, variable

INK, PALE, RULE, FOCUS, GROUND = (
    variable(name) for name in ("ink", "pale", "rule", "focus", "paper")
)
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif"
_STEPS = (1, 2, 2.5, 5, 10)
_MARK = 4.5  # half the size of a mark
_CORNERS = {
    "square": ((-1, -1), (1, -1), (1, 1), (-1, 1)),
    "triangle": ((0, -1.25), (1.15, 0.85), (-1.15, 0.85)),
    "wedge": ((0, 1.25), (1.15, -0.85), (-1.15, -0.85)),
    "star": (
        *((0, 1.5), (0.45, 0.45), (1.5, 0), (0.45, -0.45)),
        *((0, -1.5), (-0.45, -0.45), (-1.5, 0), (-0.45, 0.45)),
    ),
    "bar": ((-1.4, -0.55), (1.4, -0.55), (1.4, 0.55), (-1.4, 0.55)),
    "diamond": ((0, -1.2), (1.2, 0), (0, 1.2), (-1.2, 0)),
}


def tag(name: str, /, *children: str, **attributes: object) -> Markup:
    """An element. Text is escaped; markup is not.

    >>> tag("g", "a < b", tag("rect", x=1.50), class_="note", data_n=3, fill=None)
    Markup('<g class="note" data-n="3">a &lt; b<rect x="1.5"/></g>')
    """
    pairs = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(_text(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    inside = Markup().join(children)
    return Markup(f"<{name}{pairs}>{inside}</{name}>" if children else f"<{name}{pairs}/>")


def _text(value: object) -> str:
    """A number with at most two decimal places, enough for a coordinate."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class Panel:
    """One drawing, on the page and as a file of its own."""

    name: str  #: of the file, without suffix
    svg: Markup  #: in the colour variables of the page

    @property
    def file(self) -> str:
        """The drawing by itself, in fixed colours on white paper."""
        fixed = colours(dark=False)
        text = re.sub(r"var\(--\w+\)", lambda found: fixed[found[0]], str(self.svg))
        sheet = tag("rect", width="100%", height="100%", fill=PAPER["paper"][0])
        head, _, rest = text.partition(">")
        return f'{head} xmlns="http://www.w3.org/2000/svg">{sheet}{rest}\n'


@dataclass(frozen=True)
class Scale:
    """Linear map from numbers to positions along an axis."""

    low: float
    high: float
    start: float  #: position of the lowest number
    stop: float

    def __call__(self, value: float) -> float:
        """Position of a number."""
        share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.stop - self.start)

    @property
    def ticks(self) -> list[float]:
        """Round numbers within the scale, 0 among them if it is within.

        >>> Scale(-0.13, 0.71, 0, 100).ticks
        [0.0, 0.2, 0.4, 0.6]
        """
        length = (self.high - self.low) / 6
        power = 10.0 ** math.floor(math.log10(length))
        step = power * next(step for step in _STEPS if step * power >= length * (1 - 1e-9))
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [round(number * step, 12) + 0.0 for number in range(first, last + 1)]

    @property
    def digits(self) -> int:
        """Decimal places that the ticks need."""
        texts = [f"{tick:.10f}".rstrip("0") for tick in self.ticks]
        return max((len(text.partition(".")[2]) for text in texts), default=0)


def around(values: Iterable[float], start: float, stop: float) -> Scale:
    """A scale that holds all values and 0, with a margin.

    >>> around([0.2, 0.4], 0, 1).low < 0 < 0.4 < around([0.2, 0.4], 0, 1).high
    True
    """
    given = [0.0, *(value for value in values if math.isfinite(value))]
    low, high = min(given), max(given)
    room = 0.1 * (high - low) or 1.0
    return Scale(low - room, high + room, start, stop)


def drawing(width: float, height: float, title: str, words: str, *children: str) -> Markup:
    """A whole SVG."""
    return tag(
        "svg",
        *(tag("title", title), tag("desc", words), *children),
        viewBox=f"0 0 {width:.0f} {height:.0f}",
        width=f"{width:.0f}",
        height=f"{height:.0f}",
        role="img",
        aria_label=f"{title}. {words}",
        font_family=_FONT,
        font_size=12,
    )


def write(x: float, y: float, text: str, fill: str = INK, **more: object) -> Markup:
    """Text in a drawing; ``anchor``, ``size`` and ``weight`` are short names of attributes."""
    names = {"anchor": "text_anchor", "size": "font_size", "weight": "font_weight"}
    look = {names.get(key, key): value for key, value in more.items()}
    return tag("text", text, x=float(x), y=float(y), fill=fill, **look)


def stroke(x1: float, y1: float, x2: float, y2: float, colour: str, **more: object) -> Markup:
    """A straight line in a drawing."""
    ends = {"x1": float(x1), "y1": float(y1), "x2": float(x2), "y2": float(y2)}
    return tag("line", **ends, stroke=colour, **more)


def levels(
    scale: Scale, left: float, right: float, text: Callable[[float], str]
) -> Iterator[Markup]:
    """Lines across a plot at the ticks of its vertical axis, and their numbers."""
    for tick in scale.ticks:
        y = scale(tick)
        yield stroke(left, y, right, y, PALE if tick == 0 else RULE)
        yield write(left - 7, y + 4, text(tick), PALE, anchor="end", size=10.5)


def mark(setting: Setting, x: float, y: float) -> Markup:
    """The mark of a setting: hollow for a global rule, filled for a factored one."""
    colour, is_filled = setting.colour, setting.factored or setting.family == BASELINE
    look = {"fill": colour if is_filled else GROUND, "stroke": colour, "stroke_width": 1.8}
    kind = setting.style.mark
    if kind == "circle":
        return tag("circle", cx=float(x), cy=float(y), r=_MARK, **look)
    side = 0.9 * _MARK
    points = [f"{x + dx * side:.1f} {y + dy * side:.1f}" for dx, dy in _CORNERS[kind]]
    return tag("path", d=f"M{' L'.join(points)}Z", **look)


def described(shape: Markup, words: str, **data: object) -> Markup:
    """A shape with its numbers, as a title that shows on hover and as data attributes."""
    return tag("g", tag("title", words), shape, **data)
