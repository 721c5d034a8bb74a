"""Compilation for a few batch sizes, which together make any number of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float, Num
from torch import Tensor, nn
from torch.nn import functional

from fcfg.diffusion.networks import repeat_for_conditions
from fcfg.pipeline.runtime.cuda_graphs import is_recording

_RATIO = 16  # between one compiled size and the next
_SIZES = 3
_GRAPH_ROWS = 128  # up to this size, launching kernels takes longer than running them


def compiled_sizes(most: int) -> tuple[int, ...]:
    """Return the batch sizes that a network is compiled for, largest first.

    >>> compiled_sizes(1024), compiled_sizes(10)
    ((1024, 64, 4), (10, 1))
    """
    sizes = {max(1, most // _RATIO**power) for power in range(_SIZES)}
    return tuple(sorted(sizes, reverse=True))


def covering(rows: int, sizes: tuple[int, ...]) -> list[int]:
    """Return compiled sizes that together hold a number of rows, each at least half full.

    >>> covering(3000, (1024, 64, 4))
    [1024, 1024, 1024]
    >>> covering(1027, (1024, 64, 4)), covering(300, (1024, 64, 4))
    ([1024, 4], [64, 64, 64, 64, 64])
    """
    size, *smaller = sizes
    whole, rest = divmod(rows, size)
    if rest and (2 * rest >= size or not smaller):
        whole, rest = whole + 1, 0
    return [size] * whole + (covering(rest, tuple(smaller)) if rest else [])


class CompiledRows:
    """A network compiled for a few batch sizes, each when it is first needed.

    Not a module, so that the network is saved, moved and counted only once.
    """

    def __init__(self, network: nn.Module, most: int, graphs: bool = False) -> None:
        self.network, self.sizes, self.graphs = network, compiled_sizes(most), graphs
        self._compiled: dict[tuple[int, bool], Callable[..., Any]] = {}

    def __call__(
        self,
        x: Float[Tensor, "batch channel *size"],
        t: Num[Tensor, "batch"],
        c: Float[Tensor, "rows condition"],
    ) -> Float[Tensor, "rows channel *size"]:
        x, t = repeat_for_conditions(x, c), repeat_for_conditions(t, c)
        # Always the same memory layout: another one would be compiled again.
        inputs = (x.contiguous(), t.contiguous(), c.contiguous())
        output, first = torch.empty_like(inputs[0]), 0
        for size in covering(len(x), self.sizes):
            piece = [_padded(tensor[first : first + size], size) for tensor in inputs]
            torch.compiler.cudagraph_mark_step_begin()
            # Copied at once: the next replay of a CUDA graph overwrites the output.
            output[first : first + size] = self._compiled_for(size)(*piece)[: len(x) - first]
            first += size
        return output

    def _compiled_for(self, size: int) -> Callable[..., Any]:
        graphs = self.graphs and size <= _GRAPH_ROWS and not is_recording()
        if (size, graphs) not in self._compiled:
            self._compiled[size, graphs] = torch.compile(
                self.network, dynamic=False, mode="reduce-overhead" if graphs else "default"
            )
        return self._compiled[size, graphs]


def _padded(tensor: Tensor, rows: int) -> Tensor:
    """Pad with rows of ones, which are valid times."""
    missing = rows - len(tensor)
    if not missing:
        return tensor
    return functional.pad(tensor, [0, 0] * (tensor.ndim - 1) + [0, missing], value=1)
