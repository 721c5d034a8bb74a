"""Measure time, memory and floating-point operations."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode


def measure(
    call: Callable[[], object],
    device: torch.device,
    *,
    warmup: int = 0,
    repetitions: int = 3,
    length: int = 1,
    patience: float = math.inf,
) -> tuple[float, ...]:
    """Return the seconds of one call, once for each repetition.

    Args:
        call: Function to time.
        device: Device to synchronise before and after each repetition.
        warmup: Number of calls before the first repetition.
        repetitions: Largest number of repetitions.
        length: Calls per repetition, whose mean is taken.
        patience: Seconds after which no further repetition begins.
    """
    for _ in range(warmup):
        call()
    seconds: list[float] = []
    while len(seconds) < repetitions and length * sum(seconds) <= patience:
        synchronise(device)
        start = time.perf_counter()
        for _ in range(length):
            call()
        synchronise(device)
        seconds.append((time.perf_counter() - start) / length)
    return tuple(seconds)


def synchronise(device: torch.device) -> None:
    """Wait until a GPU has finished its work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def reset_peak(device: torch.device) -> None:
    """Free cached memory, and measure the peak from now on."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


def peak_bytes(device: torch.device) -> int | None:
    """Return the peak memory of tensors since :func:`reset_peak`; None on a CPU."""
    return torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None


@contextmanager
def isolated(device: torch.device, *, tf32: bool = True) -> Generator[None]:
    """Reset torch's switches and the memory peak, and restore the switches afterwards.

    Args:
        device: Device to measure on.
        tf32: Whether to compute float32 products in TF32, on a GPU that has it.
    """
    matmul: Any = torch.backends.cuda.matmul
    cudnn: Any = torch.backends.cudnn
    before = matmul.allow_tf32, cudnn.allow_tf32, cudnn.benchmark
    matmul.allow_tf32, cudnn.allow_tf32, cudnn.benchmark = tf32, tf32, False
    reset_peak(device)
    try:
        yield
    finally:
        matmul.allow_tf32, cudnn.allow_tf32, cudnn.benchmark = before


def fast_precision(device: torch.device) -> torch.dtype:
    """Return the precision of the matrix product: bf16 on a GPU, float32 on a CPU."""
    return torch.bfloat16 if device.type == "cuda" else torch.float32


def matrix_rate(device: torch.device, *, size: int | None = None) -> float:
    """Return the operations per second of a large matrix product, an upper bound for networks.

    Args:
        device: Device to measure on.
        size: Rows and columns of the matrices; large enough for the device by default.
    """
    on_gpu = device.type == "cuda"
    side, length = size or (8192 if on_gpu else 1024), 20 if on_gpu else 2
    shape, precision = (side, side), fast_precision(device)
    a, b = (torch.randn(shape, device=device, dtype=precision) for _ in range(2))
    out = torch.empty_like(a)

    def multiply() -> None:
        torch.mm(a, b, out=out)

    seconds = measure(multiply, device, warmup=length, repetitions=5, length=length)
    return 2 * side**3 / statistics.median(seconds)


def count_flops(call: Callable[[], object]) -> int:
    """Count the operations of matrix products and convolutions in an eager call."""
    with FlopCounterMode(display=False) as counter:
        call()
    return counter.get_total_flops()
