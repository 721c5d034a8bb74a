"""Drawings: scales with round ticks, and panels, which are drawn by templates."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

from markupsafe import Markup

from fcfg.reports.rule_styles import PAPER, colours

_STEPS = (1, 2, 2.5, 5, 10)


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
        sheet = f'<rect width="100%" height="100%" fill="{PAPER["paper"][0]}"/>'
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
        """Round numbers within the scale, 0 among them if it is within."""
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
