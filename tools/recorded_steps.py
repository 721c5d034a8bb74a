"""What CUDA graphs of whole steps save: seconds of a counterfactual, by number of images.

    python tools/recorded_steps.py --device cuda [--model celeba-hq] [--images 1 4 16 42]
    python tools/recorded_steps.py --device cuda --model portraits --compile

The same network computes the same counterfactuals with default sampling: launching kernel by
kernel; compiled, with one graph for the network; and with one graph for a whole step, which
includes network, rule and update. The settings take turns in one process.
"""

from __future__ import annotations

import argparse
import functools
import gc
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import fcfg
from fcfg.bench import BenchModel, Workload
from fcfg.training import presets
from study import provenance, write_json

KERNELS, NETWORK, STEP = "kernel by kernel", "network at once", "step at once"


def prepared(
    workload: Workload, precision: str, launch: str, *, compiled: bool
) -> fcfg.CounterfactualPipeline:
    """Prepare the model for one way of launching kernels."""
    pipeline = workload.model.fresh().prepare(
        precision,
        compile=compiled,
        batch_size=workload.rows_at_once,
        cuda_graphs=launch != KERNELS,
    )
    if launch == NETWORK:  # a step is not recorded if its network is wrapped
        pipeline.denoiser.evaluate = functools.partial(pipeline.denoiser.evaluate)
    return pipeline


def seconds(pipeline: fcfg.CounterfactualPipeline, workload: Workload) -> tuple[float, Tensor]:
    """Return the seconds of one call, and the images, whose copy to the CPU waits for the GPU."""
    start = time.perf_counter()
    pair = pipeline.counterfactual(
        workload.images, workload.attributes, workload.do, batch_size=workload.rows_at_once
    )
    return time.perf_counter() - start, pair.trajectory.x


def measured(workload: Workload, precision: str, args: argparse.Namespace) -> dict[str, Any]:
    """Measure all ways of launching kernels."""
    compiled = args.compile and precision == "bf16"
    ways = (KERNELS, NETWORK, STEP) if compiled else (KERNELS, STEP)
    row: dict[str, Any] = {
        "images": len(workload.images),
        "precision": precision,
        "compiled": compiled,
        "cold": {},
        "memory": {},
    }
    pipelines, answers = {}, {}
    for launch in ways:
        gc.collect()
        before = reserved(args.device)
        pipelines[launch] = prepared(workload, precision, launch, compiled=compiled)
        row["cold"][launch], answers[launch] = seconds(pipelines[launch], workload)
        row["memory"][launch] = reserved(args.device) - before
    turns = [
        [seconds(pipelines[launch], workload)[0] for launch in ways] for _ in range(args.repeats)
    ]
    medians = [statistics.median(column) for column in zip(*turns, strict=True)]
    row["seconds"] = dict(zip(ways, medians, strict=True))
    row["difference"] = (answers[STEP] - answers[KERNELS]).abs().max().item()
    return row


def reserved(device: str) -> int:
    """Return the bytes that torch holds on a GPU, without cached memory."""
    if device == "cpu":
        return 0
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    return torch.cuda.memory_reserved()


def main(words: list[str]) -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--model", default="portraits", help="a model, or a preset with random weights")
    add("--images", type=int, nargs="+", default=[1, 4, 16, 42])
    add("--repeats", type=int, default=5)
    add("--precision", nargs="+", default=["tf32", "bf16"])
    add("--compile", action="store_true", help="compile the network in bf16")
    add("--device", default="cpu", choices=("cpu", "cuda"))
    add("--commit", help="commit of the code, where git is missing")
    add("--out", type=Path)
    args = parser.parse_args(words)
    result = provenance("recorded_steps", words, args)
    build = BenchModel.from_preset if args.model in presets() else BenchModel.load
    model, rows = build(args.model, torch.device(args.device)), list[dict[str, Any]]()
    for precision in args.precision:
        for images in args.images:
            rows.append(measured(model.workload(images, 1), precision, args))
            print(rows[-1], flush=True)
            if args.out is not None:
                write_json(args.out, {**result, "model": model.name, "rows": rows})


if __name__ == "__main__":
    main(sys.argv[1:])
