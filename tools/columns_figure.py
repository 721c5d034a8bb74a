"""Draw columns of pictures, each under a title."""

from __future__ import annotations

from collections.abc import Mapping

from PIL import Image, ImageDraw
from torch import Tensor

import fcfg
from hero import EDGE, INK, PAPER, font

SIDE, GAP = 110, 12  # pixels


def draw_columns(columns: Mapping[str, Tensor]) -> Image.Image:
    """Draw the images of each column from top to bottom.

    Args:
        columns: Images of each column, by its title; as many in each.
    """
    rows = len(next(iter(columns.values())))
    width = 2 * EDGE + len(columns) * (SIDE + GAP) - GAP
    page = Image.new("RGB", (width, EDGE + 30 + rows * (SIDE + GAP) + 10), PAPER)
    pen = ImageDraw.Draw(page)
    for column, (title, images) in enumerate(columns.items()):
        left = EDGE + column * (SIDE + GAP)
        pen.text((left, EDGE - 8), title, fill=INK, font=font(18, bold=True))
        for row, picture in enumerate(fcfg.to_pictures(images)):
            large = picture.resize((SIDE, SIDE), Image.Resampling.LANCZOS)
            page.paste(large, (left, EDGE + 26 + row * (SIDE + GAP)))
    return page
