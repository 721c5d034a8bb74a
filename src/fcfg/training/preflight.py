"""Checks of a configuration on this machine, before anything is written or computed."""

from __future__ import annotations

from datetime import timedelta
from functools import lru_cache

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState, is_initialized
from accelerate.utils import InitProcessGroupKwargs

from fcfg.diffusion.networks import (
    Judge,
    JudgeConfig,
    SemanticConfig,
    SemanticEncoder,
    UNet,
    UNetConfig,
)
from fcfg.hvae import HVAE, HVAEConfig
from fcfg.pipeline.runtime import own_gpu
from fcfg.support.errors import InputError
from fcfg.training.config import Run, TrainingConfig


def accelerator_for(run: Run) -> Accelerator:
    """Return an accelerator: placement, data parallelism and autocast."""
    own_gpu()  # raises where there are more processes than GPUs
    on_gpu = torch.cuda.is_available() and run.device == "auto"
    bf16 = run.precision == "bf16" or (run.precision == "auto" and on_gpu)
    autocast, device = "bf16" if bf16 else "no", "cuda" if on_gpu else "cpu"
    if is_initialized():  # Accelerate cannot change these in one process
        state = AcceleratorState()
        before, now = (
            f"{'float32' if precision == 'no' else precision} on {kind}"
            for precision, kind in (
                (state.mixed_precision, state.device.type),
                (autocast, device),
            )
        )
        if before != now:
            raise InputError(
                "run.precision and run.device",
                expected=f"{before}, as in an earlier run of this process",
                got=now,
                do="train in another process, for example with `fcfg train`",
            )
    # Under autocast, TF32 serves for the products that stay in float32, and torch does not warn.
    torch.backends.cuda.matmul.allow_tf32 = bf16
    patience = InitProcessGroupKwargs(timeout=timedelta(hours=2))  # one process reads all images
    return Accelerator(mixed_precision=autocast, cpu=not on_gpu, kwargs_handlers=[patience])


def check_batches(config: TrainingConfig, processes: int = 1) -> None:
    """Refuse batches that cannot be split among processes, or that a network cannot process.

    Args:
        config: Configuration of the run.
        processes: Number of processes that share a batch.
    """
    size, settings = config.data.size, config.hvae or config.diffusion
    batches = {
        f"{config.parts[2]}.batch": (
            config.vae or config.unet,
            settings.batch,
            processes * settings.accumulate,
        ),
        "judge.batch": (config.judge_network, config.judge.batch, processes),
    }
    for key, (shape, batch, divisor) in batches.items():
        if batch % divisor:
            raise InputError(
                key,
                expected=f"a multiple of {divisor}, for {processes} processes",
                got=batch,
                do=f"--set {key}={max(divisor, batch // divisor * divisor)}",
            )
        try:
            _forward(shape, batch // divisor, size)  # pyright: ignore[reportArgumentType] # frozen
        except (RuntimeError, ValueError) as error:
            raise InputError(
                key,
                expected=f"a network that accepts images of {size} × {size} pixels",
                got=error,
                do="change the batch, the size of the images or the network",
            ) from error


@lru_cache(maxsize=64)
def _forward(shape: UNetConfig | JudgeConfig | HVAEConfig, rows: int, size: int) -> None:
    """Call a network once on meta tensors, which have a shape and no memory."""
    with torch.device("meta"):
        images = torch.empty((rows, shape.channels, size, size))
        if isinstance(shape, HVAEConfig):
            HVAE(shape).infer(images, torch.empty((rows, shape.parents)))
        elif isinstance(shape, SemanticConfig):
            SemanticEncoder(shape)(images)
        elif isinstance(shape, UNetConfig):
            times = torch.empty(rows, dtype=torch.int64)
            UNet(shape)(images, times, torch.empty((rows, shape.condition)))
        else:
            Judge(shape)(images)
