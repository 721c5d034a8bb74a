r"""What weight decay does to conditioning: as a part of the loss, and decoupled from it.

    python tools/weight_decay.py --out docs/results/weight-decay.json

The paper trains with "Adam (wd 1e-4)". Adam divides gradients by their size, including weight
decay that is a part of the gradient: a weight whose gradient is smaller than 1e-4 times itself
shrinks by the learning rate in every step. The loss is a mean over pixels, and the condition
changes few of them. Small networks are trained on drawings, with each kind of weight decay. Two
numbers are measured on held-out drawings, at half the diffusion time:

- ``effect``: root mean square of the noise predicted under the condition, minus that under none;
- ``weights``: root mean square of the weights through which the condition enters.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import fcfg
from fcfg.datasets import portraits
from fcfg.evaluation.provenance import collect_provenance
from study import write_json

OPTIMISERS = {
    "in the loss (Adam)": torch.optim.Adam,
    "decoupled (AdamW)": torch.optim.AdamW,
}
SIZE, BATCH, DECAY = 8, 32, 1e-4


def new_denoiser() -> fcfg.Denoiser:
    """Build the same denoiser for every optimiser."""
    torch.manual_seed(0)
    embedder = fcfg.AttributeEmbedder(portraits.space())
    config = fcfg.UNetConfig(
        size=SIZE, base=8, multipliers=(1, 2), attention=(), condition=embedder.condition_width
    )
    return fcfg.Denoiser(fcfg.UNet(config), embedder, fcfg.NoiseSchedule())


@torch.no_grad()
def condition_state(denoiser: fcfg.Denoiser, images: Tensor, values: Tensor) -> dict[str, float]:
    """Measure the effect of the condition."""
    width = denoiser.embedder.condition_width
    corruption = denoiser.draw(images.shape, torch.Generator().manual_seed(1))
    t = torch.full_like(corruption.t, denoiser.schedule.steps // 2)
    schedule = denoiser.schedule
    signal, noise = (f(t).float().view(-1, 1, 1, 1) for f in (schedule.signal, schedule.noise))
    x, condition = signal * images + noise * corruption.noise, denoiser.embedder(values)
    effect = denoiser(x, t, condition) - denoiser(x, t, torch.zeros_like(condition))
    entries = [
        weight[:, -width:].flatten()
        for name, weight in denoiser.network.named_parameters()
        if name.endswith("modulation.weight")
    ]
    return {"effect": _rms(effect), "weights": _rms(torch.cat(entries))}


def _rms(x: Tensor) -> float:
    return float(x.square().mean().sqrt())


def train(name: str, args: argparse.Namespace) -> list[dict[str, Any]]:
    """Train, and measure every `args.every` steps."""
    space = portraits.space()
    drawn, held_out = (portraits.sample(n, seed=s, size=SIZE) for n, s in ((4096, 0), (256, 1)))
    values, others = (
        torch.from_numpy(space.encode(space.parse(record.attributes))).float()
        for record in (drawn, held_out)
    )
    denoiser, generator = new_denoiser(), torch.Generator().manual_seed(0)
    optimiser = OPTIMISERS[name](denoiser.parameters(), args.learning_rate, weight_decay=DECAY)
    rows, start = [], time.perf_counter()
    for step in range(args.steps + 1):
        if step % args.every == 0:
            found = condition_state(denoiser, held_out.images, others)
            rows.append({"optimiser": name, "step": step, **found})
            print(json.dumps(rows[-1]), f"{time.perf_counter() - start:.0f} s", flush=True)
        chosen = torch.randint(len(drawn.images), (BATCH,), generator=generator)
        corruption = denoiser.draw((BATCH, 3, SIZE, SIZE), generator)
        loss = denoiser.loss(drawn.images[chosen], values[chosen], corruption)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return rows


def main() -> None:
    """Train with both, and write the measurements."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--every", type=int, default=500, help="steps between measurements")
    parser.add_argument("--learning-rate", type=float, default=5e-4)
    parser.add_argument("--out", type=Path, required=True, help="JSON file to write")
    args = parser.parse_args()
    about = collect_provenance("cpu", "float32")
    about["command"] = "python tools/weight_decay.py"
    settings = {"learning_rate": args.learning_rate, "decay": DECAY, "batch": BATCH, "size": SIZE}
    rows = [row for name in OPTIMISERS for row in train(name, args)]
    result = about | settings | {"rows": rows}
    write_json(args.out, result)


if __name__ == "__main__":
    main()
