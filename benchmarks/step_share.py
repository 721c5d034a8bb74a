"""How much of a step is not the network: the rule of guidance, the update, and Python.

    python benchmarks/step_share.py [--model portraits] [--images 1 16] [--out FILE]
    python benchmarks/step_share.py --model runs/faces --device cuda --compile --images 1 512

A prediction is timed as it is, and with a network whose answer lies ready. What the second takes
is all that could be saved by compiling the rule and the update together with the network.
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import fcfg
from fcfg.experiments.circumstances import circumstances, without_folders
from fcfg.files import write_atomically

GUIDANCE = ("cfg:3.0", "fcfg:affected=3.0,invariant=1.2", "fapg:affected=3.0,invariant=1.2")


class Ready:
    """A network whose answer lies ready, for any number of rows up to some."""

    def __init__(self, rows: int, like: Tensor) -> None:
        self.answer = torch.zeros(rows, *like.shape[1:], device=like.device, dtype=like.dtype)

    def __call__(self, x: Tensor, t: Tensor, c: Tensor) -> Tensor:
        """So many rows of it."""
        return self.answer[: len(x)]


def question(
    pipeline: fcfg.CounterfactualPipeline, images: int, steps: int
) -> tuple[fcfg.Abduction, fcfg.Action]:
    """Noise, and what is asked of it."""
    size, channels = pipeline.denoiser.network.config.size, pipeline.denoiser.channels
    generator = torch.Generator().manual_seed(0)
    noise = torch.rand(images, channels, size, size, generator=generator) * 2 - 1
    attributes = {name: [0] * images for name in pipeline.space.names}
    abduction = pipeline.abduct(noise, attributes, steps=steps, batch_size=4 * images)
    return abduction, pipeline.act(attributes, {pipeline.space.names[0]: 1})


def seconds(
    pipeline: fcfg.CounterfactualPipeline,
    asked: tuple[fcfg.Abduction, fcfg.Action],
    text: str,
    repeats: int,
) -> float:
    """Of one step, the median; the first prediction is not counted."""
    guidance, times = fcfg.Guidance.parse(text), list[float]()
    for _ in range(1 + repeats):
        start = time.perf_counter()
        pair = pipeline.predict(*asked, guidance, batch_size=4 * len(asked[0].trajectory.x))
        times.append((time.perf_counter() - start) / (len(pair.abduction.times) - 1))
    return statistics.median(times[1:])


def measured(args: argparse.Namespace, images: int) -> list[dict[str, Any]]:
    """A row for each guidance."""
    pipeline = fcfg.load(args.model).to(args.device)
    pipeline.prepare(args.precision, compile=args.compile, batch_size=4 * images)
    asked = question(pipeline, images, args.steps)
    denoiser, x = pipeline.denoiser, asked[0].trajectory.x
    rows = []
    for text in GUIDANCE:
        whole = seconds(pipeline, asked, text, args.repeats)
        network = denoiser.evaluate
        denoiser.evaluate = Ready(4 * images, x.to(denoiser.device, denoiser.state_dtype))
        rest = seconds(pipeline, asked, text, args.repeats)
        denoiser.evaluate = network
        rows.append({"images": images, "guidance": text, "step": whole, "rest": rest})
        print(f"{images:6} {text:34} {whole:.5f} s, the rest {rest:.5f} s, {rest / whole:.1%}")
    return rows


def main(words: list[str]) -> None:
    """Measure, print, and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--model", default="portraits")
    add("--images", type=int, nargs="+", default=[1, 16])
    add("--steps", type=int, default=5)
    add("--repeats", type=int, default=5)
    add("--precision", default="auto")
    add("--compile", action="store_true")
    add("--device", default="cpu", choices=("cpu", "cuda"))
    add("--commit", help="of the code, where git cannot be asked")
    add("--out", type=Path)
    args = parser.parse_args(words)
    about = circumstances(args.device, args.precision, compiled=args.compile, commit=args.commit)
    command = shlex.join(["python", "benchmarks/step_share.py", *without_folders(words)])
    rows: list[dict[str, Any]] = []
    for images in args.images:
        rows += measured(args, images)
        if args.out is not None:
            result = {**about, "command": command, "model": Path(args.model).name, "rows": rows}
            write_atomically(args.out, json.dumps(result, indent=1).encode() + b"\n")


if __name__ == "__main__":
    main(sys.argv[1:])
