"""The networks of a run, tried on shapes alone before anything is computed."""

from __future__ import annotations

from functools import lru_cache

import torch

from fcfg.diffusion.networks import Judge, JudgeConfig, UNet, UNetConfig
from fcfg.support.errors import InputError
from fcfg.training.config import TrainingConfig


def try_networks(config: TrainingConfig, processes: int = 1) -> None:
    """Refuse a configuration whose networks cannot compute a step of the training.

    Args:
        config: Configuration of the run.
        processes: Number of processes that share a batch.
    """
    diffusion, size = config.diffusion, config.data.size
    shapes = {
        "diffusion.batch": (config.unet, diffusion.batch // diffusion.accumulate),
        "judge.batch": (config.judge_network(0), config.judge.batch),
    }
    for key, (shape, rows) in shapes.items():
        try:
            _try(shape, rows // processes, size)  # pyright: ignore[reportArgumentType] # frozen
        except (RuntimeError, ValueError) as error:
            raise InputError(
                key,
                expected=f"a network that can take a step on images of {size} × {size} pixels",
                got=error,
                do="change the batch, the size of the images or the network",
            ) from error


@lru_cache(maxsize=64)
def _try(shape: UNetConfig | JudgeConfig, rows: int, size: int) -> None:
    """Evaluate a network once on tensors that have a shape and no memory."""
    with torch.device("meta"):
        network = UNet(shape) if isinstance(shape, UNetConfig) else Judge(shape)
    images = torch.empty((rows, shape.channels, size, size), device="meta")
    if isinstance(shape, UNetConfig):
        condition = torch.empty((rows, shape.condition), device="meta")
        network(images, torch.empty(rows, dtype=torch.int64, device="meta"), condition)
    else:
        network(images)
