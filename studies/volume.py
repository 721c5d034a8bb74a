"""Seconds and memory of one anchored answer about a volume, in latents, by networks of MONAI.

    python studies/volume.py --size 128 --out studies/results/volume.json

The autoencoder and the network are as wide as published ones of brains, and have random weights:
neither seconds nor memory depend on their values.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch

import fcfg
from fcfg.diffusion.codec import Autoencoder
from fcfg.evaluation.provenance import collect_provenance
from fcfg.support.files import write_atomically

CODEC: dict[str, Any] = {
    "spatial_dims": 3,
    "in_channels": 1,
    "out_channels": 1,
    "channels": [64, 128, 128, 128],
    "latent_channels": 3,
    "num_res_blocks": 2,
    "norm_num_groups": 32,
    "attention_levels": [False] * 4,
    "with_encoder_nonlocal_attn": False,
    "with_decoder_nonlocal_attn": False,
}
NETWORK: dict[str, Any] = {
    "spatial_dims": 3,
    "in_channels": 3,
    "out_channels": 3,
    "channels": [256, 512, 768],
    "num_res_blocks": 2,
    "attention_levels": [False, True, True],
    "num_head_channels": [0, 512, 768],
    "norm_num_groups": 32,
    "with_conditioning": True,
    "cross_attention_dim": 64,
}
QUESTION: dict[str, Any] = {
    "guidance": fcfg.Guidance.parse("contrast:2.0;anchor=true;drawn_noise=true"),
    "sampling": "ddim uniform 11",
}


def build() -> Any:
    """Return a model of latents of volumes, with random weights."""
    from monai.networks.nets.autoencoderkl import AutoencoderKL
    from monai.networks.nets.diffusion_model_unet import DiffusionModelUNet

    torch.manual_seed(0)
    space = fcfg.AttributeSpace([fcfg.Continuous("age", 20, 90), fcfg.Binary("disease")])
    scm = fcfg.StructuralCausalModel(space, fcfg.CausalGraph({"age": [], "disease": []}))
    tokens = fcfg.AttributeTokens(space, NETWORK["cross_attention_dim"], "context")
    codec = Autoencoder(AutoencoderKL(**CODEC), CODEC)
    schedule = fcfg.NoiseSchedule("scaled-linear")
    network = DiffusionModelUNet(**NETWORK)
    return fcfg.wrap(network, schedule, scm, tokens, config=NETWORK, codec=codec)


def measure(model: Any, size: int, device: torch.device) -> dict[str, Any]:
    """Answer a few times; return the fastest in seconds, and the largest memory in GiB."""
    volume = torch.rand(1, 1, size, size, size, generator=torch.Generator().manual_seed(0))
    factual = {"age": [60.0], "disease": [1]}
    on_gpu, taken, rows = device.type == "cuda", [], 0.0
    for _ in range(4):
        if on_gpu:
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
        start = time.perf_counter()
        answer = model.counterfactual(volume, factual, {"disease": 0}, **QUESTION)
        taken.append(time.perf_counter() - start)  # the answer is on the CPU
        rows = float(answer.spent[0])
    peak = torch.cuda.max_memory_allocated() / 2**30 if on_gpu else float("nan")
    seconds = {"seconds": round(min(taken), 3), "first": round(taken[0], 3)}
    return seconds | {"peak GiB": round(peak, 2), "network evaluations": rows}


def main() -> None:
    """Measure at each size and precision, and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--size", type=int, nargs="+", default=[128])
    parser.add_argument("--precision", nargs="+", default=["float32", "tf32", "bf16"])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--commit")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    device = torch.device(args.device)
    model = build().to(device)
    about = collect_provenance(args.device, "", compiled=False, commit=args.commit)
    parts = {"network": model.denoiser.network, "codec": model.denoiser.codec}
    numbers = {name: sum(p.numel() for p in part.parameters()) for name, part in parts.items()}
    found: dict[str, Any] = {key: about.get(key) for key in ("command", "commit", "environment")}
    found |= {"parameters": numbers, "answers": []}
    for size in args.size:
        for precision in args.precision:
            model.prepare(precision)
            made = measure(model, size, device)
            found["answers"].append({"size": size, "precision": precision} | made)
            print(found["answers"][-1], flush=True)
            write_atomically(args.out, json.dumps(found, indent=1).encode() + b"\n")


if __name__ == "__main__":
    main()
