"""How long something takes: medians over repetitions, after a warm-up, with the device at rest."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Timing:
    """Seconds of one call, as often as it was measured.

    >>> timing = Timing((3.0, 1.0, 2.0))
    >>> timing.median, timing.low, timing.high
    (2.0, 1.0, 3.0)
    """

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle one, which a single disturbance does not move."""
        return statistics.median(self.seconds)

    @property
    def low(self) -> float:
        """The fastest."""
        return min(self.seconds)

    @property
    def high(self) -> float:
        """The slowest."""
        return max(self.seconds)


def measure(
    call: Callable[[], object],
    device: torch.device,
    *,
    warmup: int = 0,
    repetitions: int = 3,
    length: int = 1,
    patience: float = math.inf,
) -> Timing:
    """Time a call.

    Args:
        call: What to do.
        device: Whose work is waited for.
        warmup: Calls that are not counted.
        repetitions: Times it is measured.
        length: Calls in each; the time is that of one.
        patience: Seconds after which no further repetition begins.
    """
    for _ in range(warmup):
        call()
    seconds: list[float] = []
    while len(seconds) < repetitions and length * sum(seconds) <= patience:
        wait(device)
        start = time.perf_counter()
        for _ in range(length):
            call()
        wait(device)
        seconds.append((time.perf_counter() - start) / length)
    return Timing(tuple(seconds))


def wait(device: torch.device) -> None:
    """Until the device has done all it was asked for."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def forget_peak(device: torch.device) -> None:
    """Count the peak of the memory from here on."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


def peak_bytes(device: torch.device) -> int | None:
    """The most memory that tensors took since then; a CPU does not count it."""
    return torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None


@contextmanager
def switches(*, tf32: bool) -> Generator[None]:
    """Set what makes torch faster, and put back all that is set meanwhile.

    Args:
        tf32: Whether float32 products may be computed in TF32, where the device has it.
    """
    matmul: Any = torch.backends.cuda.matmul
    cudnn: Any = torch.backends.cudnn
    before = matmul.allow_tf32, cudnn.allow_tf32, cudnn.benchmark
    matmul.allow_tf32, cudnn.allow_tf32, cudnn.benchmark = tf32, tf32, False
    try:
        yield
    finally:
        matmul.allow_tf32, cudnn.allow_tf32, cudnn.benchmark = before
