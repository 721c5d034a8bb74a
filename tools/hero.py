"""Draw docs/figures/hero.png: two drawings that become older, by FCFG, anchored, and in truth.

They are the first man and the first woman who are young among the drawings of the evaluation seed.
The number is the mean absolute error to the true counterfactual.

``python tools/pages.py --hero`` draws it again.
"""

from __future__ import annotations

from typing import cast

import numpy as np
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

import fcfg
from fcfg.datasets import portraits
from fcfg.pipeline.defaults import PAPER_GUIDANCE

COLUMNS = {
    "Factual": "young",
    "FCFG": "the paper's rule: overshoots",
    "Ours": "anchored, weight calibrated",
    "Truth": "the true counterfactual",
}
NOTE = (
    "What if they had been older? Two held-out drawings of 32 × 32 pixels: the first young woman "
    "and the first young man.",
    "Numbers: mean absolute error to the true counterfactual, pixels in [-1, 1]. FCFG 3.0 / 1.2, "
    "20 steps; ours, the default, 12 steps.",
)
SIDE, GAP, EDGE = 256, 24, 28  # pixels
PAPER, INK, PALE, RED, GREEN = "#fbfaf7", "#1d1d1f", "#6e6e73", "#b3261e", "#1b6e3c"


def chosen() -> list[int]:
    """Return the positions of the two drawings in the sample."""
    attributes = portraits.sample(20, seed=portraits.EVALUATION_SEED).attributes
    young, male = attributes["young"] == 1, attributes["male"]
    return [int(np.flatnonzero(young & (male == value))[0]) for value in (0, 1)]


def answers() -> tuple[dict[str, Tensor], dict[str, list[float]]]:
    """Return the images of each column, and the error of each answer."""
    rows = chosen()
    faces = portraits.sample(1 + max(rows), seed=portraits.EVALUATION_SEED)
    truth = portraits.counterfactual(faces, {"young": 0}).images[rows]
    factual = faces.images[rows]
    attributes = {name: column[rows] for name, column in faces.attributes.items()}
    pipeline = fcfg.load("portraits").prepare()
    guided = {
        name: pipeline.counterfactual(factual, attributes, {"young": 0}, guidance=guidance).images
        for name, guidance in (("FCFG", PAPER_GUIDANCE), ("Ours", None))
    }
    errors = {
        name: (images - truth).abs().mean(dim=(1, 2, 3)).tolist()
        for name, images in guided.items()
    }
    return {"Factual": factual, **guided, "Truth": truth}, errors


def font(size: int, *, bold: bool = False) -> ImageFont.FreeTypeFont:
    """Return a font of the machine, or Pillow's own."""
    names = ("DejaVuSans-Bold.ttf",) if bold else ("DejaVuSans.ttf",)
    for name in (*names, "Arial.ttf"):
        try:
            return ImageFont.truetype(name, size)
        except OSError:
            continue
    return cast(ImageFont.FreeTypeFont, ImageFont.load_default(size))


def draw() -> Image.Image:
    """Draw the picture."""
    columns, errors = answers()
    rows = len(columns["Factual"])
    head, foot, caption = 78, 66, 40
    width = 2 * EDGE + len(columns) * SIDE + (len(columns) - 1) * GAP
    height = EDGE + head + rows * (SIDE + caption) + foot + EDGE // 2
    page = Image.new("RGBA", (width, height), (0, 0, 0, 0))
    pen = ImageDraw.Draw(page)
    pen.rounded_rectangle((0, 0, width - 1, height - 1), 18, fill=PAPER)
    for column, (title, images) in enumerate(columns.items()):
        left = EDGE + column * (SIDE + GAP)
        colour = {"FCFG": RED, "Ours": GREEN}.get(title, INK)
        pen.text((left, EDGE - 8), title, fill=colour, font=font(34, bold=True))
        pen.text((left, EDGE + 36), COLUMNS[title], fill=PALE, font=font(15))
        for row, picture in enumerate(fcfg.to_pictures(images)):
            top = EDGE + head + row * (SIDE + caption)
            large = picture.resize((SIDE, SIDE), Image.Resampling.LANCZOS)
            page.paste(large, (left, top))
            if title in errors:
                words = f"error {errors[title][row]:.3f}"
                pen.text((left, top + SIDE + 8), words, fill=colour, font=font(18, bold=True))
    for line, words in enumerate(NOTE):
        place = EDGE, height - foot - EDGE // 2 + 14 + 24 * line
        pen.text(place, words, fill=PALE, font=font(15))
    return page
