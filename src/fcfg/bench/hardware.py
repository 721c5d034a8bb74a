"""What the machine can do, and what a network asks of it: floating-point operations."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.utils.flop_counter import FlopCounterMode

from fcfg.bench.timing import measure
from fcfg.diffusion.networks import UNet, UNetConfig


def fast_precision(device: torch.device) -> torch.dtype:
    """In which matrix products are measured: bf16 on a GPU, float32 on a CPU."""
    return torch.bfloat16 if device.type == "cuda" else torch.float32


def matrix_rate(device: torch.device, *, size: int | None = None) -> float:
    """Operations a second in a large matrix product, the most a network can hope for.

    Args:
        device: Where.
        size: Of the matrices; by default large enough for the device.
    """
    on_gpu = device.type == "cuda"
    side, length = size or (8192 if on_gpu else 1024), 20 if on_gpu else 2
    shape, precision = (side, side), fast_precision(device)
    a, b = (torch.randn(shape, device=device, dtype=precision) for _ in range(2))
    out = torch.empty_like(a)

    def multiply() -> None:
        torch.mm(a, b, out=out)

    timing = measure(multiply, device, warmup=length, repetitions=5, length=length)
    return 2 * side**3 / timing.median


def flops_of(call: Callable[[], object]) -> int:
    """Operations of matrix products and convolutions in an eager call, by torch's counter."""
    with FlopCounterMode(display=False) as counter:
        call()
    return counter.get_total_flops()


def row_flops(config: UNetConfig, size: int) -> int:
    """Operations of a network for one image, counted without computing any.

    Args:
        config: Its shape.
        size: Height and width of the image.
    """
    with torch.device("meta"), torch.no_grad():
        network = UNet(config).eval()
        x, c = torch.empty(1, config.channels, size, size), torch.empty(1, config.condition)
        t = torch.empty(1, dtype=torch.int64)
        return flops_of(lambda: network(x, t, c))
