"""A matrix of correlations as a picture with labels and numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from fcfg.sheet import difference_colours
from fcfg.support.fonts import font_for, legible

_CELL, _FONT, _MARGIN = 52, 13, 14
_LONGEST = 60  # letters of a label
_GREY = (225, 225, 225)


def heatmap(labels: Sequence[str], matrix: NDArray[np.float64]) -> Image.Image:
    """Draw a matrix of numbers from -1 (blue) to 1 (red); cells that are not a number are grey."""
    font = font_for(labels, _FONT)
    short = (name if len(name) <= _LONGEST else f"{name[: _LONGEST - 3]}..." for name in labels)
    labels = [legible(name, font) for name in short]
    longest = max(int(font.getlength(label)) for label in labels)
    start = longest + 2 * _MARGIN
    side = start + len(labels) * _CELL + _MARGIN
    page = Image.new("RGB", (side, side), "white")
    pen, colours = ImageDraw.Draw(page), difference_colours(np.nan_to_num(matrix))
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
            known = not math.isnan(value)
            pen.rectangle(box, fill=tuple(colours[row, column].tolist()) if known else _GREY)
            ink = "white" if abs(value) > 0.6 else "black"
            text = f"{value:.2f}".replace("-0.00", "0.00") if known else "-"
            pen.text((left + _CELL // 2, middle), text, fill=ink, font=font, anchor="mm")
    return page
