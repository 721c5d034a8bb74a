"""Comparisons: factual, counterfactual and reversed image side by side, and the difference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

import numpy as np
import torch
from jaxtyping import Float
from PIL import Image, ImageDraw
from torch import Tensor

from fcfg.sheet import difference_colours, difference_map, difference_scale
from fcfg.support.fonts import Font, font_for, legible
from fcfg.support.images import to_pictures

_TILE = 256  # approximate size of a tile in pixels; images are never shrunk
_MARGIN, _LINE, _FONT, _BAR = 12, 19, 14, 12
_INK, _PALE = (30, 30, 30), (110, 110, 110)


def compare(
    images: Mapping[str, Float[Tensor, "channel *size"]], captions: Mapping[str, Sequence[str]]
) -> Image.Image:
    """Draw images side by side under their names, then the difference of the first two.

    Images are those in [-1, 1] of one shape, by name: factual, counterfactual, others; captions
    are lines below each. All are enlarged by an integer factor, so that pixels stay square.
    """
    factual, counterfactual = list(images.values())[:2]
    scale = difference_scale(factual, counterfactual)
    pictures = to_pictures(torch.stack(list(images.values())))
    pictures.append(Image.fromarray(difference_map(factual, counterfactual, scale)))
    titles = [*images, "counterfactual - factual"]
    lines = [*(captions[name] for name in images), ()]
    font = font_for([*titles, *chain.from_iterable(lines)], _FONT)
    width, height = pictures[0].size
    factor = max(1, _TILE // max(width, height))
    wide, high, top = factor * width, factor * height, _MARGIN + _LINE + 4
    texts = [[part for line in own for part in _wrap(line, wide, font)] for own in lines]
    below = max(2, *map(len, texts))
    size = _MARGIN + len(titles) * (wide + _MARGIN), top + high + 8 + below * _LINE + _MARGIN
    page = Image.new("RGB", size, "white")
    pen = ImageDraw.Draw(page)
    for column, (title, picture, text) in enumerate(zip(titles, pictures, texts, strict=True)):
        left = _MARGIN + column * (wide + _MARGIN)
        pen.text((left, _MARGIN), legible(title, font), fill=_INK, font=font)
        large = picture.convert("RGB").resize((wide, high), Image.Resampling.NEAREST)
        page.paste(large, (left, top))
        pen.rectangle((left - 1, top - 1, left + wide, top + high), outline=(215, 215, 215))
        for number, line in enumerate(text):
            corner = (left, top + high + 8 + number * _LINE)
            pen.text(corner, line, fill=_PALE, font=font)
    _draw_bar(page, (size[0] - _MARGIN - wide, top + high + 10), wide, scale, font)
    return page


def _draw_bar(
    page: Image.Image, corner: tuple[int, int], width: int, scale: float, font: Font
) -> None:
    """Draw the colour bar of a difference map, labelled in units of [-1, 1]."""
    (left, top), pen = corner, ImageDraw.Draw(page)
    colours = np.repeat(difference_colours(np.linspace(-1, 1, width)[None]), _BAR, axis=0)
    page.paste(Image.fromarray(colours), (left, top))
    marks = ((f"-{scale:g} darker", "la", 0), ("0", "ma", width // 2))
    for text, anchor, x in (*marks, (f"brighter +{scale:g}", "ra", width)):
        pen.text((left + x, top + _BAR + 5), text, fill=_PALE, font=font, anchor=anchor)


def _wrap(text: str, width: int, font: Font) -> list[str]:
    """Break a line at its spaces, but not at hard ones, so that it fits into a width."""
    lines = [""]
    for word in text.split(" "):
        written = legible(word, font)
        longer = f"{lines[-1]} {written}".strip()
        if lines[-1] and font.getlength(longer) > width:
            lines.append(written)
        else:
            lines[-1] = longer
    return lines
