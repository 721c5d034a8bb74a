"""How many network rows fill the memory of a device."""

from __future__ import annotations

import torch

from fcfg.diffusion.denoiser import Denoiser

_TRIED = 16  # rows that are measured
_SHARE = 0.8  # of what is free: fragments, and what the sampler holds, take the rest
_MOST = 4096  # beyond which no GPU gains
_CPU = 256


def fitting_rows(denoiser: Denoiser, size: tuple[int, int]) -> int:
    """Network rows at once that fill most of the memory of a GPU; 256 on a CPU.

    A network that is compiled takes no more than it did before, so measure it first.

    Args:
        denoiser: On its device, in its precision.
        size: Height and width of the images.
    """
    on_gpu = denoiser.device.type == "cuda"
    return rows_within(*_measured(denoiser, size)) if on_gpu else _CPU


def rows_within(free: int, each: float) -> int:
    """The largest power of two that fits, 1 to 4096.

    >>> rows_within(free=80_000_000_000, each=30_000_000)
    2048
    """
    most = max(1, int(_SHARE * free / max(each, 1.0)))
    return min(_MOST, 1 << (most.bit_length() - 1))


@torch.no_grad()
def _measured(denoiser: Denoiser, size: tuple[int, int]) -> tuple[int, float]:
    """Bytes that are free on the GPU, and those that a row takes."""
    device, dtype = denoiser.device, denoiser.state_dtype
    x = torch.zeros(_TRIED, denoiser.channels, *size, device=device, dtype=dtype)
    c = torch.zeros(_TRIED, denoiser.embedder.condition_width, device=device, dtype=dtype)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    denoiser(x, torch.ones(_TRIED, device=device, dtype=torch.long), c)
    taken = torch.cuda.max_memory_allocated(device) - before
    kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return torch.cuda.mem_get_info(device)[0] + kept, taken / _TRIED
