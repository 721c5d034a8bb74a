"""What it saves to tell a GPU of a whole step at once: seconds of a counterfactual, by images.

    python tools/recorded_steps.py --device cuda [--subject celeba-hq] [--images 1 4 16 42]
    python tools/recorded_steps.py --device cuda --subject portraits --compile

The same network answers the same question at the default quality, prepared in every way: told
kernel by kernel; compiled, with the kernels of the network at once; and with all kernels of a step
at once, network, rule and update. The ways take turns in one process.
"""

from __future__ import annotations

import argparse
import functools
import gc
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
from fcfg.bench.bench_model import Question, preset_subject, stored_subject
from fcfg.evaluation.provenance import collect_provenance, without_folders
from fcfg.support.files import write_atomically
from fcfg.training import presets

KERNELS, NETWORK, STEP = "kernel by kernel", "network at once", "step at once"


def prepared(
    question: Question, precision: str, told: str, *, compiled: bool
) -> fcfg.CounterfactualPipeline:
    """The model, told of its work in one of these ways."""
    pipeline = question.subject.fresh().prepare(
        precision, compile=compiled, batch_size=question.rows_at_once, cuda_graphs=told != KERNELS
    )
    if told == NETWORK:  # asked through another's hands, a step is not recorded
        pipeline.denoiser.evaluate = functools.partial(pipeline.denoiser.evaluate)
    return pipeline


def seconds(pipeline: fcfg.CounterfactualPipeline, question: Question) -> tuple[float, Tensor]:
    """Of one answer, and the images; they come back, so that nothing is left to wait for."""
    start = time.perf_counter()
    pair = pipeline.counterfactual(
        question.images, question.attributes, question.do, batch_size=question.rows_at_once
    )
    return time.perf_counter() - start, pair.trajectory.x


def measured(question: Question, precision: str, args: argparse.Namespace) -> dict[str, Any]:
    """A row: the same question in every way."""
    compiled = args.compile and precision == "bf16"
    ways = (KERNELS, NETWORK, STEP) if compiled else (KERNELS, STEP)
    row: dict[str, Any] = {
        "images": len(question.images),
        "precision": precision,
        "compiled": compiled,
        "cold": {},
        "memory": {},
    }
    pipelines, answers = {}, {}
    for told in ways:
        gc.collect()
        before = reserved(args.device)
        pipelines[told] = prepared(question, precision, told, compiled=compiled)
        row["cold"][told], answers[told] = seconds(pipelines[told], question)
        row["memory"][told] = reserved(args.device) - before
    turns = [[seconds(pipelines[told], question)[0] for told in ways] for _ in range(args.repeats)]
    medians = [statistics.median(column) for column in zip(*turns, strict=True)]
    row["seconds"] = dict(zip(ways, medians, strict=True))
    row["difference"] = (answers[STEP] - answers[KERNELS]).abs().max().item()
    return row


def reserved(device: str) -> int:
    """Bytes that torch holds on a GPU, once it gave back what nobody uses."""
    if device == "cpu":
        return 0
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    return torch.cuda.memory_reserved()


def main(words: list[str]) -> None:
    """Measure, print, and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--subject", default="portraits", help="a model, or a preset with random weights")
    add("--images", type=int, nargs="+", default=[1, 4, 16, 42])
    add("--repeats", type=int, default=5)
    add("--precision", nargs="+", default=["tf32", "bf16"])
    add("--compile", action="store_true", help="in bf16")
    add("--device", default="cpu", choices=("cpu", "cuda"))
    add("--commit", help="of the code, where git cannot be asked")
    add("--out", type=Path)
    args = parser.parse_args(words)
    about = collect_provenance(args.device, "", compiled=args.compile, commit=args.commit)
    command = shlex.join(["python", "tools/recorded_steps.py", *without_folders(words)])
    find = preset_subject if args.subject in presets() else stored_subject
    subject, rows = find(args.subject, torch.device(args.device)), list[dict[str, Any]]()
    for precision in args.precision:
        for images in args.images:
            rows.append(measured(subject.question(images, 1), precision, args))
            print(rows[-1], flush=True)
            if args.out is not None:
                result = {**about, "command": command, "model": subject.name, "rows": rows}
                write_atomically(args.out, json.dumps(result, indent=1).encode() + b"\n")


if __name__ == "__main__":
    main(sys.argv[1:])
