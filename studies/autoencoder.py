r"""Train a small autoencoder of portraits, and write the configuration of a model of its latents.

    python studies/autoencoder.py --out vae --seconds 110
    fcfg train vae/latents.yaml --out portraits-128-latents

The autoencoder is one of diffusers, and sees the drawings that the preset trains on.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path
from typing import Any

import torch
import yaml
from diffusers.models.autoencoders.autoencoder_kl import AutoencoderKL
from torch import Tensor

from fcfg.datasets import portraits
from fcfg.support.files import write_atomically
from fcfg.support.images import images_from_bytes, images_to_bytes
from fcfg.training import read_config

WIDTHS = (24, 48, 64)
CONFIG: dict[str, Any] = {
    "in_channels": 3,
    "out_channels": 3,
    "latent_channels": 4,
    "block_out_channels": list(WIDTHS),
    "layers_per_block": 1,
    "norm_num_groups": 8,
    "down_block_types": ["DownEncoderBlock2D"] * len(WIDTHS),
    "up_block_types": ["UpDecoderBlock2D"] * len(WIDTHS),
}
#: A network of latents, which are squares of a quarter of the side.
NETWORK = {"patch": 1, "base": 32, "multipliers": [1, 2, 2], "attention": [8, 16]}
RATE, KL, EDGES = 1.5e-3, 1e-4, 0.5


def drawn(size: int, count: int, device: str) -> Tensor:
    """Return the drawings that the preset trains on, as bytes on the device."""
    chunks = portraits.sample_in_chunks(count, 0, size, device=device)
    return torch.cat([images_to_bytes(chunk.images) for chunk in chunks]).to(device)


def loss(network: Any, images: Tensor) -> Tensor:
    """Return the error of pixels and of edges, and a little of the divergence of latents."""
    latents = network.encode(images).latent_dist
    error = network.decode(latents.sample()).sample.float() - images
    edges = error.diff(dim=-1).abs().mean() + error.diff(dim=-2).abs().mean()
    pixels = error.abs().mean() + error.square().mean()
    return pixels + EDGES * edges + KL * latents.kl().mean() / latents.mean[0].numel()


def train(network: Any, images: Tensor, seconds: float, batch: int) -> int:
    """Train until the time is over; return the number of steps."""
    optimiser = torch.optim.AdamW(network.parameters(), RATE, weight_decay=0.0)
    start, step, done = time.monotonic(), 0, 0.0
    while done < 1:
        for group in optimiser.param_groups:
            group["lr"] = RATE * min(1, (step + 1) / 100) * (0.5 + 0.5 * math.cos(math.pi * done))
        rows = torch.randint(len(images), (batch,), device=images.device)
        with torch.autocast(images.device.type, torch.bfloat16):
            found = loss(network, images_from_bytes(images[rows]))
        optimiser.zero_grad()
        found.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimiser.step()
        step, done = step + 1, (time.monotonic() - start) / seconds
        if step % 200 == 0:
            print(f"step {step}, loss {found.item():.4f}, {done:.0%}", flush=True)
    return step


def main() -> None:
    """Draw, train, save, and write the configuration."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--preset", default="portraits-128")
    parser.add_argument("--seconds", type=float, default=110)
    parser.add_argument("--count", type=int, help="drawings; by default those of the preset")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    torch.manual_seed(0)
    data: Any = read_config(args.preset).data
    images = drawn(data.size, args.count or data.count, args.device)
    network: Any = AutoencoderKL(**CONFIG, sample_size=data.size).to(args.device)
    steps = train(network, images, args.seconds, args.batch)
    network.eval().save_pretrained(args.out)
    some = images_from_bytes(images[:256])
    with torch.no_grad():
        latents = network.encode(some).latent_dist.mode()
        error = (network.decode(latents).sample - some).square().mean().sqrt().item()
    module = {"name": "diffusers.AutoencoderKL", "config": CONFIG | {"sample_size": data.size}}
    module["source"] = str(args.out.resolve())
    codec = {"module": module, "scale": 1 / latents.std().item(), "shift": latents.mean().item()}
    written = {"extends": args.preset, "model": {"codec": codec, "network": NETWORK}}
    write_atomically(args.out / "latents.yaml", yaml.safe_dump(written).encode())
    print(f"{steps} steps; root mean square error {error:.4f}; {args.out / 'latents.yaml'}")


if __name__ == "__main__":
    main()
