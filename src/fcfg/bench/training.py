"""Contestants for a training step: a plain loop, and ours, fed in three ways.

- the reference: a plain eager loop, bf16 autocast on a GPU, Adam, one batch that is on the device
  already, no moving average;
- ours: the step that ``fcfg train`` takes, with its compilation, optimiser and moving average.
  Images lie on the device, or in a memory-mapped file from which a thread gathers batches; or
  every step gets the same batch, which is there already. The difference is what a step waits for
  data.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from fcfg.bench.bench_model import Subject, random_table
from fcfg.bench.hardware import fast_precision, flops_of
from fcfg.bench.record import Measurement
from fcfg.bench.timing import forget_peak, measure, peak_bytes, switches
from fcfg.datasets.examples import Examples
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
from fcfg.training.state import LAST_STEP, Checkpoints

TakeStep: TypeAlias = Callable[[], object]
REFERENCE = "reference, eager"
ONE_BATCH, ON_DEVICE, STREAMED = FEEDS = (
    *("ours, one batch", "ours, images on device"),
    "ours, images streamed",
)
_IMAGES = 24_000  # of the paper's data set, on a GPU
_FEW = 64


@dataclass(frozen=True)
class Pace:
    """How a training step is timed."""

    batch: int
    warmup: int  #: steps that are not counted
    windows: int  #: whose median is taken
    length: int  #: steps in a window


@dataclass(frozen=True, eq=False)
class Work:
    """What every contestant trains: new weights, on one batch of random images."""

    subject: Subject
    images: Tensor  #: in [-1, 1], on the device
    values: Tensor  #: encoded attributes, on the device

    @classmethod
    def of(cls, subject: Subject, batch: int) -> Work:
        """Draw a batch."""
        question = subject.question(batch, 1)
        values = torch.from_numpy(subject.pipeline.space.encode(question.attributes)).float()
        return cls(subject, question.images.to(subject.device), values.to(subject.device))

    def denoiser(self, *, channels_last: bool = False) -> Denoiser:
        """A new one, the same each time."""
        known = self.subject.pipeline.denoiser
        with torch.random.fork_rng():
            torch.manual_seed(0)
            denoiser = Denoiser(
                UNet(self.subject.network, channels_last=channels_last),
                AttributeEmbedder(known.embedder.space, known.embedder.width),
                known.schedule,
                parameterisation=known.parameterisation,
            )
        return denoiser.to(self.subject.device)


def training(
    subject: Subject,
    pace: Pace,
    *,
    compiled: bool,
    on_row: Callable[[], None] = lambda: None,
) -> list[Measurement]:
    """Time a training step of every contestant.

    Args:
        subject: Whose network is trained, from new weights.
        pace: How often.
        compiled: Whether ours is, as ``fcfg train`` does on a GPU.
        on_row: Told after each of the four.
    """
    work, device = Work.of(subject, pace.batch), subject.device
    precision = "bf16" if fast_precision(device) == torch.bfloat16 else "float32"
    rows: list[Measurement] = []

    def add(name: str, step: TakeStep) -> None:
        row = Measurement(
            "training",
            name,
            precision=precision,
            images=pace.batch,
            size=subject.network.size,
            evaluations=pace.batch,
            flops=operations,
        )
        timing = measure(
            step, device, warmup=pace.warmup, repetitions=pace.windows, length=pace.length
        )
        rows.append(replace(row, peak_bytes=peak_bytes(device)).timed(timing))
        forget_peak(device)
        on_row()

    forget_peak(device)
    with torch.random.fork_rng():
        with switches(tf32=False):
            plain = reference(work)
            operations = flops_of(plain)
            add(REFERENCE, plain)
            del plain
        with switches(tf32=False), TemporaryDirectory() as folder:
            torch.backends.cudnn.benchmark = True  # as a run does
            with ours(work, Path(folder), compiled=compiled) as steps:
                for name, step in steps.items():
                    add(name, step)
    return rows


def reference(work: Work) -> TakeStep:
    """The plain loop: what anybody would write first."""
    denoiser, device = work.denoiser().train(), work.subject.device
    optimiser = torch.optim.Adam(denoiser.parameters(), lr=1e-4, weight_decay=1e-4)
    generator = torch.Generator(device=device).manual_seed(0)
    enabled = fast_precision(device) == torch.bfloat16
    batch, channels, height, width = work.images.shape

    def step() -> None:
        corruption = denoiser.draw((batch, channels, height, width), generator)
        with torch.autocast(device.type, torch.bfloat16, enabled=enabled):
            loss = denoiser.loss(work.images, work.values, corruption)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    return step


@contextmanager
def ours(work: Work, folder: Path, *, compiled: bool) -> Generator[dict[str, TakeStep]]:
    """The step of ``fcfg train``; only what happens between steps (logs, checkpoints) is left out.

    Args:
        work: What is trained.
        folder: For the images.
        compiled: Whether the loss is.
    """
    subject, on_gpu = work.subject, work.subject.device.type == "cuda"
    denoiser = work.denoiser(channels_last=on_gpu)
    objective = DenoisingObjective(denoiser, p_null=0.5, p_group=0.0)
    if compiled:
        objective.fuse(cuda_graphs=on_gpu)
    run = Run(device="auto" if on_gpu else "cpu")
    batch = len(work.images)
    examples = _examples(subject, folder, _IMAGES if on_gpu else max(_FEW, batch))

    def feed(resident: bool) -> Feed:
        options: dict[str, Any] = {"seed": 0, "batch": batch, "share": slice(None)}
        device = subject.device
        space = subject.pipeline.space
        return Feed(examples, space, {}, device=device, resident=resident, **options)

    with closing(feed(resident=True)) as resident, closing(feed(resident=False)) as streamed:
        loop = Loop(
            Course("diffusion", 0, LAST_STEP, Diffusion(steps=LAST_STEP, batch=batch)),
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
        sources = _One(resident.at(0)), resident, streamed

        def fed_by(source: Any) -> TakeStep:
            def step() -> None:
                loop.feed = source
                loop.take_step()

            return step

        yield dict(zip(FEEDS, map(fed_by, sources), strict=True))


class _One:
    """The same batch at every step."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch

    def at(self, step: int) -> Batch:
        return self.batch


def _examples(subject: Subject, folder: Path, count: int) -> Examples:
    shape = subject.network
    pixels = np.lib.format.open_memmap(
        folder / "images.npy", "w+", np.uint8, (count, shape.channels, shape.size, shape.size)
    )
    pixels[:] = np.random.default_rng(0).integers(0, 256, pixels.shape, dtype=np.uint8)
    table = random_table(subject.pipeline.space, count)
    return Examples(pixels, table, tuple(map(str, range(count))))
