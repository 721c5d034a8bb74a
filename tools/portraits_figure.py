"""The figure docs/figures/portraits.png: faces and their true counterfactuals."""

from __future__ import annotations

from PIL import Image

from fcfg.datasets import portraits
from fcfg.sheet import sheet


def draw() -> Image.Image:
    """Draw nine faces of each variant, and what becomes of them under every intervention."""
    faces = portraits.sample(9, seed=12, size=64)
    rows = {"factual": faces.images}
    for name in faces.attributes:
        rows[f"{name} flipped"] = portraits.counterfactual(faces, {name: "flip"}).images
    causal = portraits.sample(9, seed=12, size=64, variant="portraits-causal")
    rows["factual, causal"] = causal.images
    for age in (25, 75):
        rows[f"do(age={age})"] = portraits.counterfactual(causal, {"age": age}).images
    return sheet(rows)
