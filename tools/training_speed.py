r"""How fast a training step is, beside a plain loop.

    python tools/training_speed.py [--preset celeba-hq] [--out FILE.csv] [--json FILE.json]

- the reference: a plain eager loop, bf16 autocast on a GPU, Adam, one batch that is already on
  the device, no moving average;
- ours: the step of ``fcfg train``, with its compilation, optimiser and moving average. Images are
  on the device, or in a memory-mapped file from which a thread gathers batches; or every step
  gets the same batch, which is already on the device. The difference is the time a step waits for
  data.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

import fcfg
from fcfg.bench import BenchModel, Measurement, Record
from fcfg.bench.bench_model import random_table
from fcfg.bench.record import RATES, Columns, Table, compared, make_table, number
from fcfg.bench.run import describe_run
from fcfg.bench.timing import (
    count_flops,
    fast_precision,
    isolated,
    matrix_rate,
    measure,
    peak_bytes,
    reset_peak,
)
from fcfg.datasets.base import Examples
from fcfg.diffusion.denoiser import Denoiser
from fcfg.diffusion.embedder import AttributeEmbedder
from fcfg.diffusion.networks import UNet
from fcfg.support.progress import Quiet
from fcfg.training.config import Diffusion, Run
from fcfg.training.feed import Batch, Feed
from fcfg.training.log import RunLog
from fcfg.training.loop import Course, Loop, StopRequest
from fcfg.training.objectives import DenoisingObjective
from fcfg.training.preflight import accelerator_for
from fcfg.training.run import denoising_optimiser
from fcfg.training.sections import LAST_STEP
from fcfg.training.state import Checkpoints
from study import bench_arguments, bench_model, command, show, write_json

TakeStep: TypeAlias = Callable[[], object]
REFERENCE = "reference, eager"
ONE_BATCH, ON_DEVICE, STREAMED = FEEDS = (
    *("ours, one batch", "ours, images on device"),
    "ours, images streamed",
)
_IMAGES = 24_000  # as many as the paper's data set, on a GPU
_FEW = 64


@dataclass(frozen=True)
class Pace:
    """How a training step is timed."""

    batch: int
    warmup: int  #: steps before the first window
    windows: int
    length: int  #: steps in a window

    @classmethod
    def for_device(cls, device: torch.device, *, quick: bool = False) -> Pace:
        """Choose what takes some minutes, or with `quick` one window."""
        pace = cls(128, 15, 5, 20) if device.type == "cuda" else cls(4, 1, 3, 1)
        return replace(pace, warmup=1, windows=1) if quick else pace


@dataclass(frozen=True, eq=False)
class TrainingBatch:
    """A batch of random images on the device, and the network to train on it."""

    model: BenchModel
    images: Tensor  #: in [-1, 1]
    values: Tensor  #: encoded attributes

    @classmethod
    def of(cls, model: BenchModel, batch: int) -> TrainingBatch:
        """Draw a batch."""
        workload = model.workload(batch, 1)
        values = torch.from_numpy(model.pipeline.space.encode(workload.attributes)).float()
        return cls(model, workload.images.to(model.device), values.to(model.device))

    def denoiser(self, *, channels_last: bool = False) -> Denoiser:
        """Return a new denoiser with the same initial weights each time."""
        known = self.model.pipeline.denoiser
        with torch.random.fork_rng():
            torch.manual_seed(0)
            denoiser = Denoiser(
                UNet(self.model.network, channels_last=channels_last),
                AttributeEmbedder(known.embedder.space, known.embedder.width),
                known.schedule,
                parameterisation=known.parameterisation,
            )
        return denoiser.to(self.model.device)


def training(model: BenchModel, pace: Pace, *, compiled: bool) -> list[Measurement]:
    """Time a training step of the plain loop, and of ours with every feed."""
    batch, device = TrainingBatch.of(model, pace.batch), model.device
    precision = "bf16" if fast_precision(device) == torch.bfloat16 else "float32"
    rows: list[Measurement] = []

    def add(name: str, step: TakeStep) -> None:
        times = measure(
            step, device, warmup=pace.warmup, repetitions=pace.windows, length=pace.length
        )
        row = Measurement(
            "training",
            name,
            precision=precision,
            images=pace.batch,
            size=model.network.size,
            evaluations=pace.batch,
            flops=operations,
            peak_bytes=peak_bytes(device),
        )
        rows.append(row.timed(times))

    with torch.random.fork_rng():
        with isolated(device, tf32=False):
            plain = plain_loop(batch)
            operations = count_flops(plain)
            add(REFERENCE, plain)
            del plain
        with isolated(device, tf32=False), TemporaryDirectory() as folder:
            torch.backends.cudnn.benchmark = True  # as `fcfg train` does
            with ours(batch, Path(folder), compiled=compiled) as steps:
                for name, step in steps.items():
                    add(name, step)
                    reset_peak(device)
    return rows


def plain_loop(batch: TrainingBatch) -> TakeStep:
    """Return the step of a plain training loop."""
    denoiser, device = batch.denoiser().train(), batch.model.device
    optimiser = torch.optim.Adam(denoiser.parameters(), lr=1e-4, weight_decay=1e-4)
    generator = torch.Generator(device=device).manual_seed(0)
    enabled = fast_precision(device) == torch.bfloat16
    count, channels, height, width = batch.images.shape

    def step() -> None:
        corruption = denoiser.draw((count, channels, height, width), generator)
        with torch.autocast(device.type, torch.bfloat16, enabled=enabled):
            loss = denoiser.loss(batch.images, batch.values, corruption)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    return step


@contextmanager
def ours(batch: TrainingBatch, folder: Path, *, compiled: bool) -> Generator[dict[str, TakeStep]]:
    """Yield the step of ``fcfg train`` with every feed, without logs and checkpoints.

    Args:
        batch: What is trained.
        folder: Folder for the images.
        compiled: Whether to compile the loss.
    """
    model, on_gpu = batch.model, batch.model.device.type == "cuda"
    denoiser = batch.denoiser(channels_last=on_gpu)
    objective = DenoisingObjective(denoiser, p_null=0.5, p_group=0.0)
    if compiled:
        objective.fuse(cuda_graphs=on_gpu)
    run = Run(device="auto" if on_gpu else "cpu")
    count = len(batch.images)
    examples = _examples(model, folder, _IMAGES if on_gpu else max(_FEW, count))

    def feed(resident: bool) -> Feed:
        options: dict[str, Any] = {"seed": 0, "batch": count, "share": slice(None)}
        space = model.pipeline.space
        return Feed(examples, space, {}, device=model.device, resident=resident, **options)

    with closing(feed(resident=True)) as resident, closing(feed(resident=False)) as streamed:
        loop = Loop(
            Course("diffusion", 0, LAST_STEP, Diffusion(steps=LAST_STEP, batch=count)),
            objective,
            denoising_optimiser(denoiser, 1e-4, 1e-4),
            resident,
            [],
            accelerator=accelerator_for(run),
            checkpoints=Checkpoints(folder, keep=1),
            log=RunLog(folder / "log.jsonl"),
            run=run,
            reporter=Quiet(),
            stop=StopRequest(),
        )
        sources = _OneBatch(resident.at(0)), resident, streamed

        def fed_by(source: Any) -> TakeStep:
            def step() -> None:
                loop.feed = source
                loop.take_step()

            return step

        yield dict(zip(FEEDS, map(fed_by, sources), strict=True))


class _OneBatch:
    """A feed that returns the same batch at every step."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch

    def at(self, step: int) -> Batch:
        return self.batch


def _examples(model: BenchModel, folder: Path, count: int) -> Examples:
    shape = model.network
    pixels = np.lib.format.open_memmap(
        folder / "images.npy", "w+", np.uint8, (count, shape.channels, shape.size, shape.size)
    )
    pixels[:] = np.random.default_rng(0).integers(0, 256, pixels.shape, dtype=np.uint8)
    table = random_table(model.pipeline.space, count)
    return Examples(pixels, table, tuple(map(str, range(count))))


def training_table(record: Record) -> Table:
    """Format the training steps of a record."""
    rows = record.of("training")
    columns: Columns = {
        "precision": lambda row: row.precision,
        "steps/s": lambda row: number(1 / (row.seconds or 1)),
        "images/s": lambda row: number(row.images_per_second),
        **RATES,
    }
    flops = (rows[0].flops or 0) / 1e12
    return make_table(
        f"Training: batches of {rows[0].images}, {flops:.3g} TFLOP a step", rows, columns
    )


def result(record: Record, pace: Pace) -> dict[str, Any]:
    """Return the contents of the JSON file, for the table of docs/training.md."""
    facts, rows = record.facts, {row.name: row for row in record.of("training")}
    found = {name: _rates(row) for name, row in rows.items()}
    alone = found[ONE_BATCH]["steps_per_second"]["median"]
    waits = {"on device": ON_DEVICE, "streamed": STREAMED}
    return {
        "fcfg": fcfg.__version__,
        "torch": facts["torch"],
        "device": facts["device"],
        "precision": facts["chip_precision"],
        "preset": facts["model"],
        "parameters": int(facts["parameters"]),
        "batch": pace.batch,
        "warmup": pace.warmup,
        "windows": pace.windows,
        "length": pace.length,
        "flops": rows[ONE_BATCH].flops,
        "chip_tflops": float(facts["chip_tflops"]),
        "rows": found,
        "data_wait": {
            name: 1 - found[row]["steps_per_second"]["median"] / alone
            for name, row in waits.items()
        },
    }


def _rates(row: Measurement) -> dict[str, Any]:
    assert row.seconds
    assert row.seconds_low
    assert row.seconds_high
    return {
        "steps_per_second": {
            "median": 1 / row.seconds,
            "low": 1 / row.seconds_high,
            "high": 1 / row.seconds_low,
        },
        "images_per_second": row.images_per_second,
        "tflops": row.tflops,
        "share_of_chip": row.share_of_chip,
        "ratio": row.ratio,
    }


def main(words: list[str]) -> None:
    """Measure, print and write."""
    parser = bench_arguments(__doc__)
    parser.add_argument("--json", type=Path, help="JSON file to write, for docs/training.md")
    args = parser.parse_args(words)
    model = bench_model(args)
    pace = Pace.for_device(model.device, quick=args.quick)
    rate, compiled = matrix_rate(model.device), model.device.type == "cuda"
    rows = compared(training(model, pace, compiled=compiled), REFERENCE, rate)
    facts = describe_run(model, rate, compiled=compiled, commit=args.commit)
    facts["command"] = command("training_speed", words)
    record = Record(facts, tuple(rows))
    show([training_table(record)])
    if args.out is not None:
        record.write(args.out)
    if args.json is not None:
        write_json(args.json, result(record, pace))


if __name__ == "__main__":
    main(sys.argv[1:])
