"""How fast a pipeline computes: precision, memory layout, compilation."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from fcfg.counterfactual import CounterfactualPipeline
from fcfg.errors import check_among
from fcfg.networks import UNet

Precision: TypeAlias = Literal["float32", "tf32", "bf16"]
PRECISIONS: tuple[str, ...] = get_args(Precision)


def prepare_network(
    pipeline: CounterfactualPipeline, precision: str, *, compiled_rows: int | None = None
) -> None:
    """Make the network of a pipeline compute otherwise, in place; the sampler stays in float32.

    Args:
        pipeline: On its device.
        precision: 'float32'; 'tf32', which is float32 where the device has no TF32; or 'bf16'.
        compiled_rows: Compile the network for this many rows at once, which is done only once
            whatever the number of images and groups.
    """
    check_among("precision", precision, PRECISIONS)
    network, on_gpu = pipeline.denoiser.network, pipeline.denoiser.device.type == "cuda"
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
    layout = torch.channels_last if on_gpu else torch.contiguous_format
    network.to(memory_format=layout)  # pyright: ignore[reportCallIssue] # torch's overloads omit it
    if isinstance(network, UNet):
        network.memory_format = layout
    if precision == "bf16":
        network.to(torch.bfloat16)
    if compiled_rows is not None:
        pipeline.denoiser.network = _FixedRows(network, compiled_rows)


class _FixedRows(nn.Module):
    """A compiled network that is always asked for one number of rows; the rest is filled up."""

    def __init__(self, network: nn.Module, rows: int) -> None:
        super().__init__()
        self.network, self.rows = network, rows
        self._compiled: Any = torch.compile(network, dynamic=False)

    def forward(
        self,
        x: Float[Tensor, "batch channel height width"],
        t: Int[Tensor, "batch"],
        condition: Float[Tensor, "batch feature"],
    ) -> Float[Tensor, "batch channel height width"]:
        """The network's answer."""
        count = len(x)
        missing = -count % self.rows
        padded = [functional.pad(y, [0, 0] * (y.ndim - 1) + [0, missing]) for y in (x, condition)]
        times = functional.pad(t, [0, missing], value=1)
        pieces = zip(*(y.split(self.rows) for y in (padded[0], times, padded[1])), strict=True)
        return torch.cat([self._compiled(*piece) for piece in pieces])[:count]
