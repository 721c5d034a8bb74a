"""Compiled networks have one number of rows each; any number is made of few of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from fcfg.diffusion.networks import repeat_for_conditions
from fcfg.pipeline.runtime.cuda_graph import is_recording

_RATIO = 16  # of one compiled size to the next smaller one
_SIZES = 3
_GRAPH_ROWS = 128  # up to which launching the kernels of a GPU takes longer than running them


def compiled_sizes(most: int) -> tuple[int, ...]:
    """The numbers of rows that a network is compiled for, largest first.

    >>> compiled_sizes(1024), compiled_sizes(10)
    ((1024, 64, 4), (10, 1))
    """
    sizes = {max(1, most // _RATIO**power) for power in range(_SIZES)}
    return tuple(sorted(sizes, reverse=True))


def covering(rows: int, sizes: tuple[int, ...]) -> list[int]:
    """Compiled sizes that together hold a number of rows; each is at least half full.

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
    """A network that is compiled for a few numbers of rows, each when it is first needed.

    Not a module: the network stays where it is, and is saved, moved and counted there.

    Args:
        network: In evaluation mode.
        most: The largest number of rows.
        graphs: Whether a GPU is told of all kernels of a small call at once.
    """

    def __init__(self, network: nn.Module, most: int, graphs: bool = False) -> None:
        self.network, self.sizes, self.graphs = network, compiled_sizes(most), graphs
        self._compiled: dict[tuple[int, bool], Callable[..., Any]] = {}

    def __call__(
        self,
        x: Float[Tensor, "batch channel height width"],
        t: Int[Tensor, "batch"],
        c: Float[Tensor, "rows condition"],
    ) -> Float[Tensor, "rows channel height width"]:
        """The network's answer."""
        x, t = repeat_for_conditions(x, c), repeat_for_conditions(t, c)
        # One layout of every input, whoever made it: another one would be compiled again.
        inputs = (x.contiguous(), t.contiguous(), c.contiguous())
        output, first = torch.empty_like(inputs[0]), 0
        for size in covering(len(x), self.sizes):
            piece = [_filled_up(tensor[first : first + size], size) for tensor in inputs]
            torch.compiler.cudagraph_mark_step_begin()
            # Copied at once: the next replay of a CUDA graph overwrites what the last one gave.
            output[first : first + size] = self._of(size)(*piece)[: len(x) - first]
            first += size
        return output

    def _of(self, size: int) -> Callable[..., Any]:
        graphs = self.graphs and size <= _GRAPH_ROWS and not is_recording()
        if (size, graphs) not in self._compiled:
            self._compiled[size, graphs] = torch.compile(
                self.network, dynamic=False, mode="reduce-overhead" if graphs else "default"
            )
        return self._compiled[size, graphs]


def _filled_up(tensor: Tensor, rows: int) -> Tensor:
    """With rows of ones at the end, a time like any other, where some are missing."""
    missing = rows - len(tensor)
    if not missing:
        return tensor
    return functional.pad(tensor, [0, 0] * (tensor.ndim - 1) + [0, missing], value=1)
