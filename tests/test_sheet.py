from __future__ import annotations

import numpy as np
import pytest
import torch

from fcfg.sheet import sheet
from fcfg.support.images import to_pictures
from refusal import refused


@pytest.mark.parametrize(("channels", "scale"), [(1, 1), (3, 2)])
def test_every_image_is_on_the_sheet_where_it_belongs(channels: int, scale: int) -> None:
    generator = torch.Generator().manual_seed(0)
    rows = {
        name: torch.rand(4, channels, 6, 5, generator=generator) * 2 - 1 for name in ("a", "do(b)")
    }
    page = np.asarray(sheet(rows, scale=scale))
    left = page.shape[1] - 4 * (5 * scale + 4)
    for row, images in enumerate(rows.values()):
        for column, picture in enumerate(to_pictures(images)):
            top, start = 4 + row * (6 * scale + 4), left + column * (5 * scale + 4)
            part = page[top : top + 6 * scale : scale, start : start + 5 * scale : scale]
            assert np.array_equal(part, np.asarray(picture.convert("RGB")))
    assert (page[:, :left] != 255).any()  # the names


def test_rows_that_do_not_match_are_refused() -> None:
    with refused("sheet", "one shape", "(1, 1, 8, 8)"):
        sheet({"a": torch.zeros(1, 1, 8, 8), "b": torch.zeros(2, 1, 8, 8)})
    refused("sheet", "at least one row", "none").by(sheet, {})
