"""How fast a training step is, beside a plain loop and beside what the chip can do.

    python benchmarks/training_throughput.py [--preset celeba-hq] [--batch 128] [--out FILE]
    python benchmarks/training_throughput.py --tiny          # a smoke test for a CPU

Three things in one process, on random images:

- the chip: its rate on a large matrix product, in bf16 (on a CPU in float32);
- the reference: a plain eager loop, bf16 autocast, Adam, one batch that is on the device already,
  no moving average;
- ours: the training step of the package, with its feeding, and with one batch that is on the
  device already; the difference is what a step waits for data.

Medians over windows of several steps, after a warm-up. The reference comes first, so that no
switch that ours may set can serve it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

import fcfg
from fcfg.datasets.examples import Examples
from fcfg.files import write_atomically
from fcfg.networks import PAPER, UNetConfig
from fcfg.training.config import Run
from fcfg.training.feed import Batch, Feed
from fcfg.training.log import Quiet, RunLog
from fcfg.training.loop import Course, Loop
from fcfg.training.objectives import DenoisingObjective
from fcfg.training.run import accelerator_for, denoising_optimiser
from fcfg.training.state import Checkpoints
from fcfg.training.stopping import StopRequest

TakeStep: TypeAlias = Callable[[], object]
TINY = UNetConfig(size=16, base=8, multipliers=(1, 2), attention=(), dropout=0.1)


@dataclass(frozen=True, eq=False)
class Work:
    """What every contestant trains: a network's shape, and one batch of random images."""

    config: UNetConfig
    space: fcfg.AttributeSpace
    images: Tensor  #: (batch, channel, height, width) in [-1, 1], on the device
    values: Tensor  #: (batch, attributes), zeros and ones, on the device

    @property
    def device(self) -> torch.device:
        """Where it is trained."""
        return self.images.device

    @property
    def precision(self) -> torch.dtype:
        """Of matrix products and convolutions."""
        return torch.bfloat16 if self.device.type == "cuda" else torch.float32

    def denoiser(self, *, channels_last: bool = False) -> fcfg.Denoiser:
        """A new network, the same each time."""
        torch.manual_seed(0)
        embedder = fcfg.AttributeEmbedder(self.space)
        network = fcfg.UNet(self.config, channels_last=channels_last)
        return fcfg.Denoiser(network, embedder, fcfg.NoiseSchedule()).to(self.device)


def ours(work: Work, folder: Path) -> dict[str, TakeStep]:
    """The training step of the package as ``fcfg train`` takes it, fed in three ways.

    The loop is the one of a run, with its compilation, optimiser and moving average; only what
    happens between steps (logs, checkpoints) is not asked for. A data set of the size of the
    paper's lies on the device, or in a memory-mapped file from which a thread gathers batches; or
    every step gets the same batch, which is there already.
    """
    config = work.config
    torch.backends.cudnn.benchmark = True  # as a run does
    run = Run(device="auto" if work.device.type == "cuda" else "cpu")
    accelerator = accelerator_for(run)
    denoiser = work.denoiser(channels_last=work.device.type == "cuda")
    objective = DenoisingObjective(denoiser, p_null=0.5, p_group=0.0)
    if work.device.type == "cuda":
        objective.fuse(cuda_graphs=True)
    batch, count = len(work.images), 24_000 if work.device.type == "cuda" else 64
    pixels = np.lib.format.open_memmap(
        folder / "images.npy", "w+", np.uint8, (count, config.channels, config.size, config.size)
    )
    pixels[:] = np.random.default_rng(0).integers(0, 256, pixels.shape, dtype=np.uint8)
    column = np.arange(count) % 2
    examples = Examples(
        pixels, dict.fromkeys(work.space.names, column), tuple(map(str, range(count)))
    )

    def feed(resident: bool) -> Feed:
        options = {"seed": 0, "batch": batch, "share": slice(None), "resident": resident}
        return Feed(examples, work.space, {}, device=work.device, **options)

    loop = Loop(
        Course("diffusion", seed=0, steps=10**9, batch=batch, learning_rate=1e-4, ema=0.9999),
        objective,
        denoising_optimiser(denoiser, 1e-4, 1e-4),
        feed(resident=True),
        [],
        accelerator=accelerator,
        checkpoints=Checkpoints(folder, keep=1),
        log=RunLog(folder / "log.jsonl"),
        run=run,
        reporter=Quiet(),
        stop=StopRequest(),
    )

    class One:
        """The same batch at every step."""

        batch = loop.feed.at(0)

        def at(self, step: int) -> Batch:
            return self.batch

    def fed_by(source: Any) -> TakeStep:
        def step() -> None:
            loop.feed = source
            loop.take_step()

        return step

    return {
        "ours, one batch": fed_by(One()),
        "ours, images on device": fed_by(loop.feed),
        "ours, images streamed": fed_by(feed(resident=False)),
    }


def reference(work: Work) -> TakeStep:
    """The plain loop: what anybody would write first."""
    denoiser = work.denoiser().train()
    optimiser = torch.optim.Adam(denoiser.parameters(), lr=1e-4, weight_decay=1e-4)
    generator = torch.Generator(device=work.device).manual_seed(0)

    def step() -> None:
        corruption = denoiser.draw(tuple(work.images.shape), generator)
        enabled = work.precision == torch.bfloat16
        with torch.autocast(work.device.type, torch.bfloat16, enabled=enabled):
            loss = denoiser.loss(work.images, work.values, corruption)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    return step


def flops(step: TakeStep) -> int:
    """Floating-point operations of matrix products and convolutions in an eager step."""
    with FlopCounterMode(display=False) as counter:
        step()
    return counter.get_total_flops()


def product(size: int, device: torch.device, precision: torch.dtype) -> TakeStep:
    """A large matrix product: 2 size³ operations."""
    a, b = (torch.randn(size, size, device=device, dtype=precision) for _ in range(2))
    out = torch.empty_like(a)
    return lambda: torch.mm(a, b, out=out)


def rate(step: TakeStep, device: torch.device, args: argparse.Namespace) -> dict[str, float]:
    """Calls a second: the median over windows, the slowest and the fastest."""

    def wait() -> None:
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    for _ in range(args.warmup):
        step()
    rates: list[float] = []
    for _ in range(args.windows):
        wait()
        start = time.perf_counter()
        for _ in range(args.length):
            step()
        wait()
        rates.append(args.length / (time.perf_counter() - start))
    return {"median": statistics.median(rates), "low": min(rates), "high": max(rates)}


def table(result: dict[str, Any]) -> str:
    """The result for people."""
    lines = [
        f"{result['device']}, torch {result['torch']}, {result['precision']}; "
        f"{result['parameters'] / 1e6:.1f} M parameters, batch {result['batch']}, "
        f"{result['flops'] / 1e12:.3f} TFLOP a step",
        f"large matrix product {result['chip_tflops']:.2f} TFLOP/s",
        f"{'':22}{'it/s':>9}{'low':>9}{'high':>9}{'img/s':>9}{'TFLOP/s':>9}"
        f"{'of chip':>9}{'ratio':>8}",
    ]
    for name, row in result["rows"].items():
        its = "".join(f"{row['steps_per_second'][key]:9.2f}" for key in ("median", "low", "high"))
        lines.append(
            f"{name:22}{its}{row['images_per_second']:9.0f}{row['tflops']:9.2f}"
            f"{row['share_of_chip']:9.1%}{row['ratio']:7.2f}x"
        )
    waits = (f"{share:.1%} {name}" for name, share in result["data_wait"].items())
    lines.append(f"waiting for data, against one batch: {', '.join(waits)}")
    return "\n".join(lines)


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--preset", choices=sorted(PAPER), default="celeba-hq")
    add("--tiny", action="store_true", help="a network, a batch and windows for a smoke test")
    add("--batch", type=int, default=128, help="images in a step")
    add("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    add("--warmup", type=int, default=30, help="steps that are not counted")
    add("--windows", type=int, default=7, help="whose median is taken")
    add("--length", type=int, default=30, help="steps in a window")
    add("--out", type=Path, help="write the result to this JSON file")
    args = parser.parse_args()
    if args.tiny:
        args.preset, args.batch, args.warmup, args.windows, args.length = "tiny", 8, 2, 3, 2
    return args


def main() -> None:
    """Measure and print."""
    args = arguments()
    device = torch.device(args.device)
    config = TINY if args.tiny else PAPER[args.preset]
    count = config.condition // 32
    generator = torch.Generator(device=device).manual_seed(0)
    shape = (args.batch, config.channels, config.size, config.size)
    work = Work(
        config,
        fcfg.AttributeSpace([fcfg.Binary(f"attribute{number}") for number in range(count)]),
        torch.rand(shape, generator=generator, device=device) * 2 - 1,
        torch.randint(0, 2, (args.batch, count), generator=generator, device=device).float(),
    )
    size = 8192 if device.type == "cuda" else 512
    chip = rate(product(size, device, work.precision), device, args)["median"] * 2 * size**3
    plain = reference(work)
    operations = flops(plain)
    rates = {"reference, eager": rate(plain, device, args)}
    with tempfile.TemporaryDirectory() as folder:
        rates |= {
            name: rate(step, device, args) for name, step in ours(work, Path(folder)).items()
        }
    base = rates["reference, eager"]["median"]
    medians = {name: found["median"] for name, found in rates.items()}
    result = {
        "fcfg": fcfg.__version__,
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU",
        "precision": str(work.precision).removeprefix("torch."),
        "preset": args.preset,
        "parameters": sum(p.numel() for p in work.denoiser().parameters()),
        "batch": args.batch,
        "warmup": args.warmup,
        "windows": args.windows,
        "length": args.length,
        "flops": operations,
        "chip_tflops": chip / 1e12,
        "rows": {
            name: {
                "steps_per_second": rates[name],
                "images_per_second": median * args.batch,
                "tflops": median * operations / 1e12,
                "share_of_chip": median * operations / chip,
                "ratio": median / base,
            }
            for name, median in medians.items()
        },
        "data_wait": {
            name: 1 - medians[f"ours, images {name}"] / medians["ours, one batch"]
            for name in ("on device", "streamed")
        },
    }
    if args.out is not None:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(args.out, json.dumps(result, indent=2).encode() + b"\n")
    print(table(result))


if __name__ == "__main__":
    main()
