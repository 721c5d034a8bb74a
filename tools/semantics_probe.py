"""Ask how well the semantics of an SA-DCG of drawings tell each attribute.

    python tools/semantics_probe.py runs/sadcg-portraits > semantics.json

A linear readout is fitted by least squares to the semantics of 600 drawings, and scored on 600
others. An intervention on the attributes does not change the semantics.
"""

from __future__ import annotations

import json
import sys

import torch

import fcfg
from fcfg.datasets import portraits
from fcfg.diffusion.semantic import SemanticDenoiser
from fcfg.metrics import Bootstrap, auroc

HALF = 600


def probe(folder: str) -> dict[str, float]:
    """Return AUROC × 100 of the readout of each attribute.

    Args:
        folder: Model.
    """
    denoiser = fcfg.load(folder).image_model
    assert isinstance(denoiser, SemanticDenoiser), "a model of SA-DCG"
    drawn = portraits.sample(2 * HALF, seed=portraits.EVALUATION_SEED)
    with torch.no_grad():
        z = torch.cat([denoiser.semantics(images) for images in drawn.images.split(100)])
    known = torch.cat([z, torch.ones(len(z), 1)], dim=1).double()
    found: dict[str, float] = {}
    for name, column in drawn.attributes.items():
        values = torch.as_tensor(column).double()
        weights = torch.linalg.lstsq(known[:HALF], values[:HALF, None]).solution
        scores = (known[HALF:] @ weights)[:, 0]
        area = auroc(scores.numpy(), values[HALF:].numpy(), Bootstrap(HALF))
        found[name] = 100 * area.value
    return found


if __name__ == "__main__":
    print(json.dumps({name: round(value, 1) for name, value in probe(sys.argv[1]).items()}))
