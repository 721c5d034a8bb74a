"""Devices: the GPU of a process, and the number of network rows that fit its memory."""

from __future__ import annotations

import os
from math import prod

import torch

from fcfg.diffusion.denoiser import Denoiser
from fcfg.support.errors import InputError

_TRIED = 16  # rows that are measured; of volumes, which are large, one
_SHARE = 0.8  # of the free memory; fragments and the sampler's state take the rest
_MOST = 4096  # rows beyond which no GPU gets faster
_CPU = 256


def own_gpu() -> int:
    """Return the number of this process on its machine, and of its GPU, if there are any.

    ``torchrun`` and ``accelerate launch`` count the processes; more than GPUs are refused.
    """
    number, gpus = int(os.environ.get("LOCAL_RANK", "0")), torch.cuda.device_count()
    processes = int(os.environ.get("LOCAL_WORLD_SIZE", number + 1))
    if processes > gpus > 0:
        raise InputError(
            "processes on this machine",
            expected=f"at most {gpus}, one for each GPU",
            got=processes,
            do="start fewer, or hide the GPUs by CUDA_VISIBLE_DEVICES=",
        )
    return number


def fitting_rows(denoiser: Denoiser, size: tuple[int, ...]) -> int:
    """Return the number of network rows that fill most of a GPU's memory; 256 on a CPU.

    There, volumes are as many as have the pixels of 256 images of 64 by 64. Measure before
    compilation: a compiled network needs no more.
    """
    if denoiser.device.type == "cuda":
        return rows_within(*_measured(denoiser, size))
    return _CPU if len(size) < 3 else max(1, min(_CPU, _CPU * 64**2 // prod(size)))


def rows_within(free: int, each: float) -> int:
    """Return the largest power of two that fits, 1 to 4096.

    >>> rows_within(free=80_000_000_000, each=30_000_000)
    2048
    """
    most = max(1, int(_SHARE * free / max(each, 1.0)))
    return min(_MOST, 1 << (most.bit_length() - 1))


@torch.no_grad()
def _measured(denoiser: Denoiser, size: tuple[int, ...]) -> tuple[int, float]:
    """Return the free bytes of the GPU, and the bytes that a row takes."""
    device, dtype = denoiser.device, denoiser.state_dtype
    tried = _TRIED if len(size) < 3 else 1
    x = torch.zeros(tried, *denoiser.state_shape(size), device=device, dtype=dtype)
    c = torch.zeros(tried, denoiser.embedder.condition_width, device=device, dtype=dtype)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    denoiser(x, torch.ones(tried, device=device, dtype=torch.long), c)
    taken = torch.cuda.max_memory_allocated(device) - before
    cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return torch.cuda.mem_get_info(device)[0] + cached, taken / tried
