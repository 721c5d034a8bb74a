"""Draw docs/figures/rivals.png: the answers of several models about the same drawings.

    python tools/rivals_figure.py runs/hvae-portraits runs/sadcg-portraits

The first drawings of the test seed, under each intervention. The models are trained as
docs/rivals.md says; ours comes with the package.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

import fcfg
from columns_figure import draw_columns
from fcfg.datasets import portraits
from fcfg.model import AnyModel
from rivals_seconds import ask

FIGURE = Path(__file__).parents[1] / "docs" / "figures" / "rivals.png"
TARGETS, FACES = ("smiling", "male", "young"), 2


def answers(hvae: AnyModel, sadcg: AnyModel) -> dict[str, Tensor]:
    """Return the images of each column, two rows for each intervention.

    Args:
        hvae: A hierarchical VAE.
        sadcg: A model of SA-DCG.
    """
    asked: dict[str, tuple[AnyModel, str | None]] = {
        "HVAE": (hvae, None),
        "SA-DCG": (sadcg, "cfg:2.0"),
        "anchored": (sadcg, "cfg:2.0;anchor=true"),
        "ours": (fcfg.load("portraits"), None),
    }
    faces = portraits.sample(FACES, seed=portraits.EVALUATION_SEED)
    columns = {"factual": faces.images.repeat(len(TARGETS), 1, 1, 1)}
    flips = [{name: 1 - np.asarray(faces.attributes[name])} for name in TARGETS]
    for title, (model, text) in asked.items():
        images: list[Tensor] = []
        for flip in flips:
            setting = None if text is None else model.parse_setting(text)
            sampling = "ddim uniform 50" if model is sadcg else "default"
            method = model.method(list(flip), setting, sampling=sampling)
            images.append(ask(model, method, faces.images, faces.attributes, flip).images)
        columns[title] = torch.cat(images)
    truth = [portraits.counterfactual(faces, flip).images for flip in flips]
    return columns | {"truth": torch.cat(truth)}


if __name__ == "__main__":
    draw_columns(answers(*map(fcfg.load, sys.argv[1:3]))).save(FIGURE, optimize=True)
