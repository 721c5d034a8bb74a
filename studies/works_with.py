"""Ask every wrapped network by every rule and solver, and write what holds.

    python studies/works_with.py

A cell of ``results/tables/works-with.csv`` counts the solvers and kinds of noise, of five and two,
under which nothing asked returned the image to 1e-5, without the shortcut for unchanged images,
and something asked did not; or says that the rule is refused.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from fcfg.guidance import Guidance  # noqa: E402
from fcfg.pipeline.records import Abduction  # noqa: E402
from fcfg.support.errors import InputError  # noqa: E402
from test_foreign import ASKED, FLOWS, LATENT, SOLVERS, images, model  # noqa: E402

TABLE = ROOT / "studies/results/tables/works-with.csv"
NETWORKS = {
    "unet": ("UNet2DModel", "classes"),
    "prompted_unet": ("UNet2DConditionModel, as SD 1.5", "prompts"),
    "sdxl": ("UNet2DConditionModel, as SDXL", "prompts, pooled"),
    "dit": ("DiTTransformer2DModel", "classes"),
    "sd3": ("SD3Transformer2DModel", "prompts, pooled"),
    "flux": ("FluxTransformer2DModel", "prompts, pooled"),
    "monai_unet": ("DiffusionModelUNet of MONAI, volumes", "learned tokens"),
}
TWO = "affected=2,invariant=-0.5"
RULES = {
    "CFG": "cfg:2",
    "FCFG, a weight below 0": f"fcfg:{TWO}",
    "contrast": "contrast:1.5",
    "APG": "apg:2",
    "FAPG": f"fapg:{TWO}",
    "CFG++": "cfg++:0.6",
}


def holds(name: str, guidance: Guidance, solver: str, drawn: bool) -> bool:
    """Return whether nothing changes nothing, and something something."""
    pipeline, x = model(name), images(model(name))
    guidance = guidance.replace(anchor=True, drawn_noise=drawn)
    how: dict[str, Any] = {"guidance": guidance, "sampling": f"{solver} uniform 3"}
    same = pipeline.counterfactual(x, ASKED, {"smiling": ASKED["smiling"]}, **how).images
    other = pipeline.counterfactual(x, ASKED, {"smiling": "flip"}, **how).images
    return bool((same - x).abs().max() < 1e-5 and (other - x).square().mean() > 1e-8)


def cell(name: str, rule: str) -> str:
    """Return the count of what holds, or that the rule is refused."""
    guidance = Guidance.parse(rule)
    try:
        held = [
            holds(name, guidance, solver, drawn) for solver in SOLVERS for drawn in (True, False)
        ]
    except InputError:
        return "refused"
    return f"{sum(held)} of {len(held)}"


def main() -> None:
    """Write the table."""
    Abduction.unchanged = lambda abduction, action: torch.zeros(  # type: ignore[method-assign]
        len(abduction.images), dtype=torch.bool
    )
    rows = [("network", "condition", "works on", "predicts", *RULES)]
    for name, (words, condition) in NETWORKS.items():
        about = ("latents" if name in LATENT else "pixels", "flow" if name in FLOWS else "noise")
        rows.append((words, condition, *about, *(cell(name, rule) for rule in RULES.values())))
        print(*rows[-1], sep=", ", flush=True)
    with TABLE.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


if __name__ == "__main__":
    main()
