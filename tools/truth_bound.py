"""How close to the truth could any model of drawings come?

    python tools/truth_bound.py --out docs/results/truth-bound.json

A network is trained on pairs of a drawing and its true counterfactual, which no method in this
package sees. It minimises the error to the truth. What it reaches on test drawings can be known
from an image and its attributes; what is left may also be due to a short training.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

import fcfg
from fcfg.datasets import portraits
from fcfg.diffusion.networks.unet import UNet, UNetConfig
from fcfg.evaluation import choose_subset, find_experiment
from fcfg.evaluation.measurements import THRESHOLD
from fcfg.metrics import Bootstrap, image_errors, mean, ratio
from study import provenance, write_json

DO = ("smiling", "male", "young")
WARMUP = 200


def answer(network: UNet, images: Tensor, condition: Tensor) -> Tensor:
    """Return the counterfactuals that the network predicts, as a change of the images."""
    times = torch.ones(len(images), dtype=torch.long, device=images.device)
    return images + network(images, times, condition)


def pairs(drawn: portraits.Portraits, device: str) -> tuple[Tensor, Tensor, Tensor]:
    """Return true counterfactuals (DO, n, …), and the factual and counterfactual attributes."""
    truth, conditions = [], []
    factual = np.stack([drawn.attributes[name] for name in DO], axis=1)
    for name in DO:
        other = portraits.counterfactual(drawn, {name: 1 - drawn.attributes[name]}, device)
        after = np.stack([other.attributes[each] for each in DO], axis=1)
        truth.append(other.images)
        conditions.append(torch.from_numpy(np.concatenate([factual, after], axis=1)).float())
    return drawn.images, torch.stack(truth), torch.stack(conditions)


def train(args: argparse.Namespace) -> UNet:
    """Train on true pairs."""
    torch.manual_seed(0)
    drawn = portraits.sample(args.count, seed=7, device=args.device)
    images, truth, conditions = (part.to(args.device) for part in pairs(drawn, args.device))
    config = UNetConfig(
        size=32, condition=2 * len(DO), base=args.base, multipliers=(1, 2, 4), attention=(8,)
    )
    network = UNet(config).to(args.device)
    optimiser = torch.optim.AdamW(network.parameters(), lr=args.rate, fused=args.device == "cuda")
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimiser,
        lambda step: min((step + 1) / WARMUP, 0.5 + 0.5 * math.cos(math.pi * step / args.steps)),
    )
    start = time.perf_counter()
    for step in range(args.steps):
        rows = torch.randint(args.count, (args.batch,), device=args.device)
        do = torch.randint(len(DO), (args.batch,), device=args.device)
        with torch.autocast(args.device, torch.bfloat16, enabled=args.device == "cuda"):
            guess = answer(network, images[rows], conditions[do, rows])
        loss = (guess.float() - truth[do, rows]).abs().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        scheduler.step()
        if step % 200 == 0:
            print(
                f"step {step} {time.perf_counter() - start:.0f} s {loss.detach():.4f}", flush=True
            )
    return network.eval()


def main(words: list[str]) -> None:
    """Train, measure on test drawings, and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("--count", type=int, default=60_000, help="drawings, each under three interventions")
    add("--steps", type=int, default=8_000)
    add("--batch", type=int, default=512)
    add("--base", type=int, default=64, help="channels of the first level")
    add("--rate", type=float, default=5e-4)
    add("--images", type=int, default=1_000, help="test drawings")
    add("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    add("--commit", help="commit of the code, where git is missing")
    add("--out", type=Path, required=True)
    parser.set_defaults(compile=False)
    args = parser.parse_args(words)
    network = train(args)
    model = fcfg.load("portraits")
    experiment = find_experiment("portraits/core", images=args.images)
    drawn = choose_subset(model, experiment).drawn
    assert drawn is not None
    images, truth, conditions = pairs(drawn, "cpu")
    bootstrap, rows = Bootstrap(len(images)), {}
    for i, name in enumerate(DO):
        with torch.no_grad():
            parts = [
                answer(network, x.to(args.device), c.to(args.device)).cpu()
                for x, c in zip(images.split(500), conditions[i].split(500), strict=True)
            ]
        errors = image_errors(torch.cat(parts).clamp(-1, 1), truth[i], images, THRESHOLD)
        rows[name] = {
            "truth_mae": mean(errors.mae, bootstrap).to_json(),
            "truth_changed": ratio(errors.missed, errors.changed, bootstrap).to_json(),
        }
        print(name, rows[name], flush=True)
    about = {"images": len(images), "steps": args.steps, "drawings": args.count}
    write_json(args.out, {**about, "rows": rows, **provenance("truth_bound", words, args)})


if __name__ == "__main__":
    main(sys.argv[1:])
