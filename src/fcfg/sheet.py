"""Sheets of images, maps of the difference between two images, and matrices of correlations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

import numpy as np
from jaxtyping import Float, UInt8
from numpy.typing import NDArray
from PIL import Image, ImageDraw
from torch import Tensor

from fcfg.support.errors import InputError
from fcfg.support.fonts import font_for, legible
from fcfg.support.images import data_url, to_pictures, to_png, views

SCALES = (0.1, 0.25, 0.5, 1.0, 1.5, 2.0)  # changes at which the colours of a map may saturate
NEUTRAL = (247, 247, 247)  # the colour of no change

# ColorBrewer's RdBu: from darker through no change to brighter.
_STOPS = np.array([-1.0, -0.5, 0.0, 0.5, 1.0])
_COLOURS = np.array([(33, 102, 172), (146, 197, 222), NEUTRAL, (244, 165, 130), (178, 24, 43)])

_MARGIN = 4  # pixels between pictures, and around the sheet
_FONT = 13
_CELL, _SPACE = 52, 14  # pixels of a cell of a matrix, and around it
_LONGEST = 60  # letters of a label
_GREY = (225, 225, 225)


def sheet(
    rows: Mapping[str, Float[Tensor, "batch channel *size"]], *, scale: int = 1
) -> Image.Image:
    """Draw rows of images, or of their views, with the name of every row to its left.

    >>> import torch
    >>> sheet({"factual": torch.zeros(3, 3, 8, 8), "do(smiling)": torch.zeros(3, 3, 8, 8)}).mode
    'RGB'
    """
    shapes = {tuple(images.shape) for images in rows.values()}
    if len(shapes) != 1:
        raise InputError(
            "sheet",
            expected="at least one row, all of one shape",
            got=sorted(shapes) or "none",
            do="show the same images in every row",
        )
    columns, _, height, width = views(next(iter(rows.values()))).shape
    font = font_for(rows, _FONT)
    titles = [legible(name, font) for name in rows]
    left = max(int(font.getlength(title)) for title in titles) + 2 * _MARGIN
    step_x, step_y = scale * width + _MARGIN, scale * height + _MARGIN
    page = Image.new("RGB", (left + columns * step_x, _MARGIN + len(rows) * step_y), "white")
    pen = ImageDraw.Draw(page)
    for row, (title, images) in enumerate(zip(titles, rows.values(), strict=True)):
        top = _MARGIN + row * step_y
        pen.text((_MARGIN, top + (scale * height - _FONT) // 2), title, fill="black", font=font)
        for column, picture in enumerate(to_pictures(images)):
            large = picture.resize((scale * width, scale * height), Image.Resampling.NEAREST)
            page.paste(large, (left + column * step_x, top))
    return page


def figure(rows: Mapping[str, Float[Tensor, "batch channel *size"]], caption: str) -> str:
    """Draw the first images of a sheet for a notebook, as HTML with the picture inside."""
    count, _, _, width = views(next(iter(rows.values()))).shape
    shown = max(1, min(count, 8, 1024 // width))
    first = {name: images[:shown].float().nan_to_num() for name, images in rows.items()}
    page = data_url(to_png(sheet(first, scale=max(1, 96 // width))))
    text = escape(caption + (f", the first {shown}" if shown < count else ""))
    return f'<figure><img src="{page}" alt="{text}"><figcaption>{text}</figcaption></figure>'


def difference_map(
    factual: Float[Tensor, "channel *size"],
    counterfactual: Float[Tensor, "channel *size"],
    scale: float,
) -> UInt8[np.ndarray, "height width 3"]:
    """Colour pixels that became brighter (red) or darker (blue); no change is nearly white.

    The channel that changed most decides, so that a change of hue is visible as well.

    >>> import torch
    >>> flat = torch.zeros(1, 1, 1)
    >>> [difference_map(flat, flat + change, scale=1.0)[0, 0].tolist() for change in (-1, 0, 1)]
    [[33, 102, 172], [247, 247, 247], [178, 24, 43]]
    """
    if not scale > 0:
        raise InputError(
            "difference map, scale", expected="a number above 0", got=scale, do="use 1.0"
        )
    share = _largest_change(factual, counterfactual).double().numpy() / scale
    return difference_colours(np.clip(share, -1, 1))


def difference_scale(
    factual: Float[Tensor, "channel *size"],
    counterfactual: Float[Tensor, "channel *size"],
) -> float:
    """Return the smallest round scale that covers 99 % of the pixels.

    It is never so small that the rounding of 8-bit files would look like a change.
    """
    bound = _largest_change(factual, counterfactual).abs().flatten().quantile(0.99).item()
    return next((scale for scale in SCALES if bound <= scale), SCALES[-1])


def _largest_change(
    factual: Float[Tensor, "channel *size"],
    counterfactual: Float[Tensor, "channel *size"],
) -> Float[Tensor, "height width"]:
    change = (views(counterfactual[None]) - views(factual[None]))[0].float()
    most = change.abs().argmax(dim=0, keepdim=True)
    return change.gather(0, most)[0]


def difference_colours(share: NDArray[np.float64]) -> UInt8[np.ndarray, "height width 3"]:
    """Return the colours of changes, given as shares of the scale in [-1, 1]."""
    channels = [np.interp(share, _STOPS, _COLOURS[:, channel]) for channel in range(3)]
    return np.stack(channels, axis=-1).round().astype(np.uint8)


def heatmap(labels: Sequence[str], matrix: NDArray[np.float64]) -> Image.Image:
    """Draw a matrix of numbers from -1 (blue) to 1 (red); cells that are not a number are grey."""
    font = font_for(labels, _FONT)
    short = (name if len(name) <= _LONGEST else f"{name[: _LONGEST - 3]}..." for name in labels)
    labels = [legible(name, font) for name in short]
    longest = max(int(font.getlength(label)) for label in labels)
    start = longest + 2 * _SPACE
    side = start + len(labels) * _CELL + _SPACE
    page = Image.new("RGB", (side, side), "white")
    pen, colours = ImageDraw.Draw(page), difference_colours(np.nan_to_num(matrix))
    for row, label in enumerate(labels):
        upper, end = start + row * _CELL, start - _SPACE // 2
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
