"""Draws docs/figures/portraits.png: faces, and their true counterfactuals.

python docs/figures/portraits.py
"""

from pathlib import Path

from fcfg.datasets import portraits
from fcfg.sheet import sheet

faces = portraits.sample(9, seed=12, size=64)
rows = {"factual": faces.images}
for name in faces.attributes:
    rows[f"{name} flipped"] = portraits.counterfactual(faces, {name: "flip"}).images
causal = portraits.sample(9, seed=12, size=64, variant="portraits-causal")
rows["factual, causal"] = causal.images
for age in (25, 75):
    rows[f"do(age={age})"] = portraits.counterfactual(causal, {"age": age}).images
sheet(rows).save(Path(__file__).with_suffix(".png"), optimize=True)
