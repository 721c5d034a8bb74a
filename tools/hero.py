"""Draw docs/figures/hero.png: two drawings asked to smile, by CFG, by FCFG, and in truth.

The two were chosen by eye from the first 20 non-smiling drawings of the evaluation seed, because
the effect shows clearly in them. The numbers are the judge's: how far each answer is from the true
counterfactual in attributes that should not change, in standard deviations.

``python tools/pages.py --hero`` draws it again.
"""

from __future__ import annotations

from typing import cast

from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

import fcfg
from fcfg.datasets import portraits

CHOSEN = [36, 47]  # positions in the sample
CFG, FCFG = fcfg.Guidance.cfg(3.0), fcfg.Guidance.fcfg(affected=3.0, invariant=1.2)
COLUMNS = {
    "Factual": "not smiling",
    "CFG": "smiles; sex and age change, too",
    "FCFG": "smiles; the rest stays",
    "Truth": "the true counterfactual",
}
NOTE = (
    "What if they had smiled? Two held-out drawings of 32 × 32 pixels, chosen from 20 because the "
    "effect is easy to see.",
    "Numbers: error against the truth in attributes that should stay the same, in standard "
    "deviations. CFG 3.0, FCFG 3.0 / 1.2.",
)
SIDE, GAP, EDGE = 256, 24, 28  # pixels
PAPER, INK, PALE, RED, GREEN = "#fbfaf7", "#1d1d1f", "#6e6e73", "#b3261e", "#1b6e3c"


def answers() -> tuple[dict[str, Tensor], dict[str, list[dict[str, float]]]]:
    """Return the images of each column, and the errors of each guidance in each row."""
    faces = portraits.sample(1 + max(CHOSEN), seed=portraits.EVALUATION_SEED)
    truth = portraits.counterfactual(faces, {"smiling": 1}).images[CHOSEN]
    factual = faces.images[CHOSEN]
    attributes = {name: column[CHOSEN] for name, column in faces.attributes.items()}
    pipeline = fcfg.load("portraits").prepare()
    abduction = pipeline.abduct(factual, attributes)
    action = pipeline.act(attributes, {"smiling": 1}, keys=abduction.keys)
    guided = {
        name: pipeline.predict(abduction, action, guidance).images
        for name, guidance in (("CFG", CFG), ("FCFG", FCFG))
    }
    judge = cast(fcfg.AttributeJudge, pipeline.judge)
    true = judge.read(truth).factors
    errors = {name: judge.read(images).factors for name, images in guided.items()}
    rows = {
        name: [
            {
                attribute: (factors[attribute][row] - true[attribute][row]) / scale
                for attribute, (_, scale) in judge.factors.items()
                if attribute != "smiling"
            }
            for row in range(len(CHOSEN))
        ]
        for name, factors in errors.items()
    }
    return {"Factual": factual, **guided, "Truth": truth}, rows


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
    head, foot, caption = 78, 66, 40
    width = 2 * EDGE + len(columns) * SIDE + (len(columns) - 1) * GAP
    height = EDGE + head + len(CHOSEN) * (SIDE + caption) + foot + EDGE // 2
    page = Image.new("RGBA", (width, height), (0, 0, 0, 0))
    pen = ImageDraw.Draw(page)
    pen.rounded_rectangle((0, 0, width - 1, height - 1), 18, fill=PAPER)
    for column, (title, images) in enumerate(columns.items()):
        left = EDGE + column * (SIDE + GAP)
        colour = {"CFG": RED, "FCFG": GREEN}.get(title, INK)
        pen.text((left, EDGE - 8), title, fill=colour, font=font(34, bold=True))
        pen.text((left, EDGE + 36), COLUMNS[title], fill=PALE, font=font(15))
        for row, picture in enumerate(fcfg.to_pictures(images)):
            top = EDGE + head + row * (SIDE + caption)
            large = picture.resize((SIDE, SIDE), Image.Resampling.LANCZOS)
            page.paste(large, (left, top))
            if title in errors:
                words = "   ".join(f"{k} {v:+.1f}" for k, v in errors[title][row].items())
                pen.text((left, top + SIDE + 8), words, fill=colour, font=font(18, bold=True))
    for line, words in enumerate(NOTE):
        place = EDGE, height - foot - EDGE // 2 + 14 + 24 * line
        pen.text(place, words, fill=PALE, font=font(15))
    return page
