"""A matrix of correlations as a picture with labels and numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from fcfg.support.fonts import font_for, legible

_CELL, _FONT, _MARGIN = 52, 13, 14
_LONGEST = 60  # letters of a label
_COLD, _HOT = (59, 104, 178), (190, 64, 54)  # -1 and 1; 0 is white


def heatmap(labels: Sequence[str], matrix: NDArray[np.float64]) -> Image.Image:
    """Draw a matrix of numbers from -1 to 1; cells that are not a number stay grey.

    >>> heatmap(["age", "sex"], np.array([[1.0, -0.2], [-0.2, 1.0]])).mode
    'RGB'
    """
    font = font_for(labels, _FONT)
    labels = [legible(_short(label), font) for label in labels]
    longest = max(int(font.getlength(label)) for label in labels)
    start = longest + 2 * _MARGIN
    side = start + len(labels) * _CELL + _MARGIN
    page = Image.new("RGB", (side, side), "white")
    pen = ImageDraw.Draw(page)
    for row, label in enumerate(labels):
        upper, end = start + row * _CELL, start - _MARGIN // 2
        middle = upper + _CELL // 2
        pen.text((end, middle), label, fill="black", font=font, anchor="rm")
        strip = Image.new("RGB", (int(font.getlength(label)) + 2, _FONT + 6), "white")
        ImageDraw.Draw(strip).text((0, 1), label, fill="black", font=font)
        upwards = strip.rotate(90, expand=True)
        page.paste(upwards, (middle - upwards.width // 2, end - upwards.height))
        for column, value in enumerate(matrix[row].tolist()):
            left = start + column * _CELL
            box = left, upper, left + _CELL - 2, upper + _CELL - 2
            pen.rectangle(box, fill=_colour(value))
            ink = "white" if abs(value) > 0.6 else "black"
            text = "-" if math.isnan(value) else f"{value:.2f}".replace("-0.00", "0.00")
            pen.text((left + _CELL // 2, middle), text, fill=ink, font=font, anchor="mm")
    return page


def _short(label: str) -> str:
    return label if len(label) <= _LONGEST else f"{label[: _LONGEST - 3]}..."


def _colour(value: float) -> tuple[int, int, int]:
    """Red for positive numbers, blue for negative ones, white for 0, grey for none."""
    if math.isnan(value):
        return 225, 225, 225
    share = min(1.0, abs(value))
    red, green, blue = (round(255 + share * (end - 255)) for end in (_HOT if value > 0 else _COLD))
    return red, green, blue
