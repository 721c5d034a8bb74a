"""How fast a network is evaluated, by how it is prepared: rows per second.

    python tools/execution_rates.py [--rows 1 2 8 32 96] [--threads 2] [--out FILE]
    python tools/execution_rates.py --ways prepared bf16 --rows 8

The settings take turns in one process, on random images, so that other load on the machine
affects all of them alike. Medians are reported.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import time
from pathlib import Path
from typing import Any

import torch

import fcfg
from fcfg.evaluation.provenance import collect_provenance
from study import write_json

WAYS: dict[str, dict[str, Any] | None] = {
    "as loaded": None,
    "prepared": {"precision": "auto"},
    "bf16": {"precision": "bf16"},
    "compiled": {"precision": "auto", "compile": True},
    "bf16 compiled": {"precision": "bf16", "compile": True},
}


def prepared(args: argparse.Namespace, way: str, rows: int) -> fcfg.Denoiser:
    """Load the model, and prepare it for a number of rows."""
    pipeline, options = fcfg.load(args.model).to(args.device), WAYS[way]
    if options is not None:
        pipeline.prepare(**options, batch_size=rows)
    return pipeline.denoiser


@torch.no_grad()
def seconds(denoiser: fcfg.Denoiser, rows: int, size: int) -> float:
    """Time one evaluation."""
    device = denoiser.device
    x = torch.randn(rows, denoiser.channels, size, size, device=device)
    t = torch.full((rows,), 500, device=device)
    c = torch.randn(rows, denoiser.embedder.condition_width, device=device)
    _ = torch.cuda.synchronize() if device.type == "cuda" else None
    start = time.perf_counter()
    denoiser(x, t, c).sum().item()  # waits for a GPU
    return time.perf_counter() - start


def measured(args: argparse.Namespace, rows: int) -> dict[str, float]:
    """Measure the rows per second of all settings."""
    ways = {way: prepared(args, way, rows) for way in args.ways}
    size = fcfg.load(args.model).denoiser.network.config.size
    for denoiser in ways.values():
        seconds(denoiser, rows, size)  # compiles it
    repeats = max(3, min(args.repeats, 200 // rows))
    turns = [[seconds(d, rows, size) for d in ways.values()] for _ in range(repeats)]
    taken = [statistics.median(column) for column in zip(*turns, strict=True)]
    return {way: round(rows / median, 2) for way, median in zip(ways, taken, strict=True)}


def main(words: list[str] | None = None) -> dict[str, Any]:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="portraits")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 2, 8, 32, 96])
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=list(WAYS))
    parser.add_argument(
        "--threads", type=int, default=torch.get_num_threads(), help="threads of the CPU"
    )
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--commit", help="commit of the code, where git is missing")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args(words)
    torch.set_num_threads(args.threads)
    found: dict[str, Any] = {
        "model": Path(args.model).name,
        "device": torch.cuda.get_device_name() if args.device == "cuda" else platform.machine(),
        "threads": args.threads,
        "torch": torch.__version__,
        "commit": collect_provenance(args.device, "", commit=args.commit)["commit"],
        "rows_per_second": {},
    }
    for rows in args.rows:
        found["rows_per_second"][str(rows)] = rates = measured(args, rows)
        print(rows, rates, flush=True)
        if args.out is not None:
            write_json(args.out, found)
    return found


if __name__ == "__main__":
    main()
