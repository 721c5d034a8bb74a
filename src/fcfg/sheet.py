"""Images on one sheet, row by row: what training and reports show."""

from __future__ import annotations

from collections.abc import Mapping

from jaxtyping import Float
from PIL import Image, ImageDraw
from torch import Tensor

from fcfg.support.errors import InputError
from fcfg.support.fonts import font_for, legible
from fcfg.support.images import to_pictures

_MARGIN = 4  # pixels between pictures, and around the sheet
_FONT = 13


def sheet(
    rows: Mapping[str, Float[Tensor, "batch channel height width"]], *, scale: int = 1
) -> Image.Image:
    """Put images side by side, with the name of every row to its left.

    >>> import torch
    >>> sheet({"factual": torch.zeros(3, 3, 8, 8), "do(smiling)": torch.zeros(3, 3, 8, 8)}).mode
    'RGB'

    Args:
        rows: For every name as many images in [-1, 1] as there are columns, all of one size.
        scale: By how much to enlarge them; every pixel becomes a square.
    """
    shapes = {tuple(images.shape) for images in rows.values()}
    if len(shapes) != 1:
        raise InputError(
            "sheet",
            expected="at least one row, all of one shape",
            got=sorted(shapes) or "none",
            do="show the same images in every row",
        )
    ((columns, _, height, width),) = shapes
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
