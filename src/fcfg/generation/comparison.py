"""One picture that shows what changed: before, after, back again, and the difference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, UInt8
from numpy.typing import NDArray
from PIL import Image, ImageDraw
from torch import Tensor

from fcfg.support.errors import InputError
from fcfg.support.fonts import Font, font_for, legible
from fcfg.support.images import to_pictures

SCALES = (0.1, 0.25, 0.5, 1.0, 1.5, 2.0)  # where the colours of a difference may end
NEUTRAL = (247, 247, 247)  # the colour of no change

# ColorBrewer's RdBu: from darker through no change to brighter.
_STOPS = np.array([-1.0, -0.5, 0.0, 0.5, 1.0])
_COLOURS = np.array([(33, 102, 172), (146, 197, 222), NEUTRAL, (244, 165, 130), (178, 24, 43)])

_TILE = 256  # pixels that a tile has about; never less than the image
_MARGIN, _LINE, _FONT, _BAR = 12, 19, 14, 12
_INK, _PALE = (30, 30, 30), (110, 110, 110)


@dataclass(frozen=True, eq=False)
class Tile:
    """A picture with its title above and further lines below."""

    title: str
    picture: Image.Image
    lines: Sequence[str] = ()
    scale: float | None = None  #: of a difference map, which gets a bar of its colours


def difference_map(
    factual: Float[Tensor, "channel height width"],
    counterfactual: Float[Tensor, "channel height width"],
    scale: float,
) -> UInt8[np.ndarray, "height width 3"]:
    """Where an image became brighter (red) or darker (blue); no change is nearly white.

    Of several channels, the one that changed most decides, so that a change of colour that
    leaves the mean as it was is seen as well.

    >>> flat = torch.zeros(1, 1, 1)
    >>> [difference_map(flat, flat + change, scale=1.0)[0, 0].tolist() for change in (-1, 0, 1)]
    [[33, 102, 172], [247, 247, 247], [178, 24, 43]]

    Args:
        factual: In [-1, 1].
        counterfactual: In [-1, 1].
        scale: The change at which the colours end; larger ones look the same.
    """
    if not scale > 0:
        raise InputError(
            "difference map, scale", expected="a number above 0", got=scale, do="use 1.0"
        )
    share = _change(factual, counterfactual).double().numpy() / scale
    return _coloured(np.clip(share, -1, 1))


def difference_scale(
    factual: Float[Tensor, "channel height width"],
    counterfactual: Float[Tensor, "channel height width"],
) -> float:
    """The smallest round scale that holds 99 of 100 pixels.

    It is never so small that the noise of 8-bit files would look like a change.
    """
    bound = _change(factual, counterfactual).abs().flatten().quantile(0.99).item()
    return next((scale for scale in SCALES if bound <= scale), SCALES[-1])


def _change(
    factual: Float[Tensor, "channel height width"],
    counterfactual: Float[Tensor, "channel height width"],
) -> Float[Tensor, "height width"]:
    change = (counterfactual - factual).float()
    most = change.abs().argmax(dim=0, keepdim=True)
    return change.gather(0, most)[0]


def _coloured(share: NDArray[np.float64]) -> UInt8[np.ndarray, "height width 3"]:
    channels = [np.interp(share, _STOPS, _COLOURS[:, channel]) for channel in range(3)]
    return np.stack(channels, axis=-1).round().astype(np.uint8)


def comparison(tiles: Sequence[Tile]) -> Image.Image:
    """Put tiles side by side, each enlarged by one whole factor, so that pixels stay squares."""
    font = font_for((text for tile in tiles for text in (tile.title, *tile.lines)), _FONT)
    width, height = tiles[0].picture.size
    factor = max(1, _TILE // max(width, height))
    wide, high = factor * width, factor * height
    texts = [
        [wrapped for line in tile.lines for wrapped in _wrap(line, wide, font)] for tile in tiles
    ]
    below = max([2 if tile.scale is not None else 0 for tile in tiles] + [len(t) for t in texts])
    top = _MARGIN + _LINE + 4
    page = Image.new(
        "RGB",
        (_MARGIN + len(tiles) * (wide + _MARGIN), top + high + 8 + below * _LINE + _MARGIN),
        "white",
    )
    pen = ImageDraw.Draw(page)
    for column, (tile, text) in enumerate(zip(tiles, texts, strict=True)):
        left = _MARGIN + column * (wide + _MARGIN)
        pen.text((left, _MARGIN), legible(tile.title, font), fill=_INK, font=font)
        large = tile.picture.convert("RGB").resize((wide, high), Image.Resampling.NEAREST)
        page.paste(large, (left, top))
        pen.rectangle((left - 1, top - 1, left + wide, top + high), outline=(215, 215, 215))
        if tile.scale is not None:
            _draw_bar(page, (left, top + high + 10), wide, tile.scale, font)
        for number, line in enumerate(text):
            place = (left, top + high + 8 + number * _LINE)
            pen.text(place, line, fill=_PALE, font=font)
    return page


def _draw_bar(
    page: Image.Image,
    corner: tuple[int, int],
    width: int,
    scale: float,
    font: Font,
) -> None:
    """The colours of a difference and what they stand for, in units of [-1, 1]."""
    (left, top), pen = corner, ImageDraw.Draw(page)
    colours = np.repeat(_coloured(np.linspace(-1, 1, width)[None]), _BAR, axis=0)
    page.paste(Image.fromarray(colours), (left, top))
    marks = ((f"-{scale:g} darker", "la", 0), ("0", "ma", width // 2))
    for text, anchor, x in (*marks, (f"brighter +{scale:g}", "ra", width)):
        place = (left + x, top + _BAR + 5)
        pen.text(place, text, fill=_PALE, font=font, anchor=anchor)


def _wrap(text: str, width: int, font: Font) -> list[str]:
    """Break a line at its spaces, but not at its hard ones, so that it fits into a width."""
    lines = [""]
    for word in text.split(" "):
        written = legible(word, font)
        longer = f"{lines[-1]} {written}".strip()
        if lines[-1] and font.getlength(longer) > width:
            lines.append(written)
        else:
            lines[-1] = longer
    return lines


def compared(
    images: Mapping[str, Float[Tensor, "channel height width"]],
    captions: Mapping[str, Sequence[str]],
) -> Image.Image:
    """Images side by side under their names, then the difference of the first two.

    Args:
        images: By name, in [-1, 1], all of one shape: the factual one, the counterfactual one,
            and any others.
        captions: For each name the lines below its image.
    """
    pictures = to_pictures(torch.stack(list(images.values())))
    tiles = [Tile(name, p, captions[name]) for name, p in zip(images, pictures, strict=True)]
    factual, counterfactual = list(images.values())[:2]
    scale = difference_scale(factual, counterfactual)
    change = Image.fromarray(difference_map(factual, counterfactual, scale))
    return comparison([*tiles, Tile("counterfactual - factual", change, scale=scale)])
