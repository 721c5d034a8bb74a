"""Draw docs/figures/ghosts.png: what anchors of different strength leave of the old image.

The first drawings of the validation seed, under do(male). ``python tools/pages.py --hero`` draws
it again.
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
INFERRED = fcfg.Guidance.parse("contrast:1.78;anchor=true")  # calibrated for 11 steps
#: Sampling and variant of each column.
ANCHORED = {
    "6 steps": ("dpm-2m uniform 6", ""),
    "11 steps": ("dpm-2m uniform 11", ""),
    "fading": ("dpm-2m uniform 11", "fade"),
    "gate": ("dpm-2m uniform 11", "gate"),
}


def answers() -> dict[str, Tensor]:
    """Return the images of each column."""
    faces = portraits.sample(ROWS, seed=portraits.EVALUATION_SEED + VALIDATION_SEED)
    flip = {"male": 1 - np.asarray(faces.attributes["male"])}
    pipeline = fcfg.load("portraits").prepare()
    columns = {"factual": faces.images}
    for title, (sampling, kind) in ANCHORED.items():
        with variant(kind):
            pair = pipeline.counterfactual(
                faces.images, faces.attributes, flip, guidance=INFERRED, sampling=sampling
            )
        columns[title] = pair.images
    return columns | {"truth": portraits.counterfactual(faces, flip).images}


def draw() -> Image.Image:
    """Draw the picture."""
    return draw_columns(answers())
