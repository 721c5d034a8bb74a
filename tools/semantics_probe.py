"""Ask what the semantics of an SA-DCG of drawings hold, and whether answers follow them.

    python tools/semantics_probe.py runs/sadcg-portraits --out semantics.json

``readout``: how well the semantics tell each attribute. A linear readout is fitted by least
squares to the semantics of 600 drawings, and scored on 600 others. An intervention does not change
them.

``attributes`` and ``semantics``: what the judge of the shipped model reads from two kinds of
unguided answers. The first have the requested value as an attribute and their own semantics, as
SA-DCG predicts. The second keep their attribute and take the semantics of another drawing, which
has the requested value.
"""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

import fcfg
from fcfg.causal.attributes import Column
from fcfg.datasets import portraits
from fcfg.diffusion.semantic import SemanticDenoiser
from fcfg.evaluation.measurements import judge_of
from fcfg.guidance import Guidance
from fcfg.metrics import Bootstrap, auroc
from study import model_arguments, provenance, write_json

HALF = 600


def readout(z: Tensor, drawn: portraits.Portraits) -> dict[str, float]:
    """Return AUROC × 100 of the readout of each attribute.

    Args:
        z: Semantics of the drawings; the first half is fitted.
        drawn: The drawings.
    """
    known = torch.cat([z, torch.ones(len(z), 1)], dim=1).double()
    found: dict[str, float] = {}
    for name, column in drawn.attributes.items():
        values = torch.as_tensor(column).double()
        weights = torch.linalg.lstsq(known[:HALF], values[:HALF, None]).solution
        scores = (known[HALF:] @ weights)[:, 0]
        found[name] = 100 * auroc(scores.numpy(), values[HALF:].numpy(), Bootstrap(HALF)).value
    return found


def partners(column: Column) -> list[int]:
    """Return for each drawing the next one with the other value, from the first again at the end.

    >>> partners(np.array([0, 0, 1, 0]))
    [2, 2, 3, 2]

    Args:
        column: Values of an attribute.
    """
    count = len(column)
    order = [[(row + shift) % count for shift in range(count)] for row in range(count)]
    return [next(other for other in rows if column[other] != column[rows[0]]) for rows in order]


def answers(
    model: fcfg.CounterfactualPipeline, z: Tensor, drawn: portraits.Portraits, count: int
) -> dict[str, dict[str, float]]:
    """Return AUROC × 100 of the requested values, as the judge reads them.

    Args:
        model: Model of SA-DCG.
        z: Semantics of the drawings.
        drawn: The drawings.
        count: Number of drawings to ask about.
    """
    judge = judge_of(fcfg.load("portraits"))
    factual = {name: np.asarray(column)[:count] for name, column in drawn.attributes.items()}
    abduction = model.abduct(drawn.images[:count], factual, sampling="ddim uniform 50")
    found: dict[str, dict[str, float]] = {"attributes": {}, "semantics": {}}
    for name, column in factual.items():
        other = replace(abduction, semantics=z[partners(column)])
        asked = {
            "attributes": (abduction, {name: 1 - column}),
            "semantics": (other, {name: column}),
        }
        for kind, (inferred, do) in asked.items():
            images = model.predict(inferred, model.act(factual, do), Guidance.none()).images
            scores = judge.read(images).scores[name]
            found[kind][name] = 100 * auroc(scores, 1 - column, Bootstrap(count), few=True).value
            print(kind, name, round(found[kind][name], 1), flush=True)
    return found


def main(words: list[str]) -> None:
    """Ask a model."""
    parser = model_arguments(__doc__ or "")
    parser.add_argument("--images", type=int, default=100, help="answers of each kind")
    args = parser.parse_args(words)
    model = fcfg.load(args.model).to(args.device)
    assert isinstance(model, fcfg.CounterfactualPipeline), "a model of SA-DCG"
    assert isinstance(model.image_model, SemanticDenoiser), "a model of SA-DCG"
    drawn = portraits.sample(2 * HALF, seed=portraits.EVALUATION_SEED)
    with torch.no_grad():
        z = torch.cat(
            [model.image_model.semantics(part).cpu() for part in drawn.images.split(100)]
        )
    found = {"readout": readout(z, drawn)} | answers(model, z, drawn, args.images)
    table = {
        kind: {name: round(value, 1) for name, value in each.items()}
        for kind, each in found.items()
    }
    about = provenance("semantics_probe", words, args)
    write_json(args.out, {"provenance": about, "images": args.images, "auroc": table})


if __name__ == "__main__":
    main(sys.argv[1:])
