"""Draw docs/figures/ghosts*.png: what anchors of different strength leave of the old image.

The first drawings of the validation seed, under do(male). ``python tools/pages.py --hero`` draws
them again.
"""

from __future__ import annotations

import numpy as np
from PIL import Image
from torch import Tensor

import fcfg
from anchoring_study import VALIDATION_SEED
from anchoring_variants import variant
from columns_figure import draw_columns
from fcfg.datasets import portraits

ROWS = 4
#: Guidance, calibrated for 11 steps, and sampling, by the noise.
KINDS = {
    "inferred": ("contrast:1.78;anchor=true", "dpm-2m uniform"),
    "drawn": ("contrast:1.87;anchor=true;drawn_noise=true", "ddim quadratic"),
}
#: Steps and variant of each column.
ANCHORED = {"6 steps": (6, ""), "11 steps": (11, ""), "fading": (11, "fade"), "gate": (11, "gate")}


def answers(noise: str) -> dict[str, Tensor]:
    """Return the images of each column.

    Args:
        noise: Key of KINDS.
    """
    rule, sampling = fcfg.Guidance.parse(KINDS[noise][0]), KINDS[noise][1]
    faces = portraits.sample(ROWS, seed=portraits.EVALUATION_SEED + VALIDATION_SEED)
    flip = {"male": 1 - np.asarray(faces.attributes["male"])}
    pipeline = fcfg.load("portraits").prepare()
    columns = {"factual": faces.images}
    for title, (steps, kind) in ANCHORED.items():
        how = {"guidance": rule, "sampling": f"{sampling} {steps}"}
        with variant(kind):
            pair = pipeline.counterfactual(faces.images, faces.attributes, flip, **how)
        columns[title] = pair.images
    return columns | {"truth": portraits.counterfactual(faces, flip).images}


def draw(noise: str) -> Image.Image:
    """Draw the picture.

    Args:
        noise: Key of KINDS.
    """
    return draw_columns(answers(noise))
