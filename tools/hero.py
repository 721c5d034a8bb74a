"""Draw docs/figures/hero.png: one question about each of three drawings, answered in three ways.

For each question it is the drawing, of 1,000 held-out ones, whose gain over FCFG is the median.
The number is the mean absolute error to the true counterfactual.

``python tools/pages.py --hero`` draws it again.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import cast

import torch
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

import fcfg
from fcfg.datasets import portraits
from fcfg.pipeline.defaults import PAPER_GUIDANCE
from reproduction_tables import RESULTS

COLUMNS = {
    "Factual": "a held-out drawing",
    "FCFG": "3.0 / 1.2, not calibrated",
    "Default": "anchored, calibrated",
    "Truth": "drawn anew",
}
QUESTIONS = {  # the intervention on each drawing, and the words for either value
    "smiling": ("Had they not smiled?", "Had they smiled?"),
    "male": ("Had he been a woman?", "Had she been a man?"),
    "young": ("Had they been older?", "Had they been younger?"),
}
NOTE = (
    "For each question, the drawing whose gain over FCFG is the median of 1,000 held-out ones.",
    "Error: mean absolute, to the truth, in [-1, 1]. FCFG: paper's weights, 20 steps; default 11.",
)
SIDE, GAP, EDGE = 180, 28, 28  # pixels
PAPER, INK, PALE, RED, GREEN = "#fbfaf7", "#1d1d1f", "#6e6e73", "#b3261e", "#1b6e3c"


def chosen(name: str, ours: str) -> int:
    """Return the number of the drawing whose gain over FCFG is the median.

    Args:
        name: Attribute intervened on.
        ours: Guidance of our answers.
    """
    errors: dict[str, dict[str, float]] = {}
    for file, rule in (("drawn-noise-portraits", ours), ("portraits-core", repr(PAPER_GUIDANCE))):
        with gzip.open(RESULTS / f"{file}.jsonl.gz", "rt", encoding="utf-8") as lines:
            rows = [row for row in map(json.loads, lines) if row.get("do") == name]
        for row in rows:
            if row["kind"] == "row" and row["guidance"] == rule:
                errors.setdefault(row["image"], {})[rule] = row["truth"]["mae"]
    gains = sorted((own[repr(PAPER_GUIDANCE)] - own[ours], image) for image, own in errors.items())
    return int(Path(gains[len(gains) // 2][1]).stem.rpartition("-")[2])


def answers() -> tuple[dict[str, Tensor], dict[str, list[float]], list[str]]:
    """Return the images of each column, the error of each answer, and the questions."""
    pipeline = fcfg.load("portraits").prepare()
    numbers = [chosen(name, repr(pipeline.method([name]).setting)) for name in QUESTIONS]
    faces = portraits.sample(1 + max(numbers), seed=portraits.EVALUATION_SEED)
    columns: dict[str, list[Tensor]] = {title: [] for title in COLUMNS}
    questions: list[str] = []
    for i, (name, words) in zip(numbers, QUESTIONS.items(), strict=True):
        here = slice(i, i + 1)
        attributes = {key: column[here] for key, column in faces.attributes.items()}
        value = 1 - int(attributes[name][0])
        questions.append(words[value])
        columns["Factual"].append(faces.images[here])
        for title, guidance in (("FCFG", PAPER_GUIDANCE), ("Default", None)):
            pair = pipeline.counterfactual(
                faces.images[here], attributes, {name: value}, guidance=guidance
            )
            columns[title].append(pair.images)
        columns["Truth"].append(portraits.counterfactual(faces, {name: value}).images[here])
    images = {title: torch.cat(parts) for title, parts in columns.items()}
    errors = {
        title: (images[title] - images["Truth"]).abs().mean(dim=(1, 2, 3)).tolist()
        for title in ("FCFG", "Default")
    }
    return images, errors, questions


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
    columns, errors, questions = answers()
    rows = len(columns["Factual"])
    head, foot, caption = 78, 66, 40
    width = 2 * EDGE + len(columns) * SIDE + (len(columns) - 1) * GAP
    height = EDGE + head + rows * (SIDE + caption) + foot + EDGE // 2
    page = Image.new("RGBA", (width, height), (0, 0, 0, 0))
    pen = ImageDraw.Draw(page)
    pen.rounded_rectangle((0, 0, width - 1, height - 1), 18, fill=PAPER)
    for column, (title, images) in enumerate(columns.items()):
        left = EDGE + column * (SIDE + GAP)
        colour = {"FCFG": RED, "Default": GREEN}.get(title, INK)
        pen.text((left, EDGE - 8), title, fill=colour, font=font(30, bold=True))
        pen.text((left, EDGE + 36), COLUMNS[title], fill=PALE, font=font(15))
        for row, picture in enumerate(fcfg.to_pictures(images)):
            top = EDGE + head + row * (SIDE + caption)
            large = picture.resize((SIDE, SIDE), Image.Resampling.LANCZOS)
            page.paste(large, (left, top))
            if title == "Factual":
                words = questions[row]
                pen.text((left, top + SIDE + 9), words, fill=INK, font=font(14, bold=True))
            if title in errors:
                words = f"error {errors[title][row]:.3f}"
                pen.text((left, top + SIDE + 8), words, fill=colour, font=font(18, bold=True))
    for line, words in enumerate(NOTE):
        place = EDGE, height - foot - EDGE // 2 + 14 + 24 * line
        pen.text(place, words, fill=PALE, font=font(14))
    return page
