"""A transformer over squares of pixels, modulated by time and condition.

References:
    Scalable diffusion models with transformers (Peebles and Xie, 2023), adaLN-Zero.
"""

from __future__ import annotations

from typing import Literal, Self, cast

import torch
from jaxtyping import Float, Num
from pydantic import BaseModel, Field, model_validator
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from fcfg.diffusion.networks.unet import Channels, repeat_for_conditions, time_embedding, zeroed

_TIME = 256  # numbers that embed the time
_WIDER = 4  # factor of the width inside a block


class DiTConfig(BaseModel, frozen=True, extra="forbid"):
    """Shape of a :class:`DiT`."""

    kind: Literal["dit"] = "dit"
    channels: Channels = 3  #: channels of the image
    size: int = Field(default=32, ge=1, le=4096)  #: height and width of training images
    condition: int = Field(default=96, ge=1, le=2**20)  #: width of the condition, K·32
    patch: int = Field(default=2, ge=1, le=64)  #: side of the squares of pixels
    width: Channels = 256  #: numbers for each square
    depth: int = Field(default=8, ge=1, le=256)  #: blocks
    head_channels: int = Field(default=64, ge=1)  #: numbers of an attention head

    @model_validator(mode="after")
    def _can_be_computed(self) -> Self:
        if self.size % self.patch:
            raise ValueError(f"size {self.size} is not divisible by the patch {self.patch}")
        if self.width % self.head_channels or self.width % 4:
            raise ValueError(
                f"width {self.width} is not divisible by 4 and head_channels {self.head_channels}"
            )
        return self

    @property
    def stride(self) -> int:
        """Number that must divide the height and width of an image."""
        return self.patch


class DiT(nn.Module):
    """Predicts noise (or another quantity) from a noisy image, its time and its condition.

    >>> network = DiT(DiTConfig(size=8, width=64, depth=2, condition=64))
    >>> network(torch.zeros(2, 3, 8, 8), torch.tensor([1, 1000]), torch.zeros(2, 64)).shape
    torch.Size([2, 3, 8, 8])

    Args:
        config: Shape of the network.
        gradient_checkpointing: Recomputation of blocks in the backward pass, which saves memory
            and costs time.
    """

    def __init__(self, config: DiTConfig, *, gradient_checkpointing: bool = False) -> None:
        super().__init__()
        self.config, self.gradient_checkpointing = config, gradient_checkpointing
        width, pixels = config.width, config.channels * config.patch**2
        self.time = nn.Sequential(nn.Linear(_TIME, width), nn.SiLU(), nn.Linear(width, width))
        self.condition = nn.Linear(config.condition, width)
        self.stem = nn.Linear(pixels, width)
        self.blocks = nn.ModuleList(
            Block(width, width // config.head_channels) for _ in range(config.depth)
        )
        self.modulation = zeroed(nn.Linear(width, 2 * width))
        self.head = zeroed(nn.Linear(width, pixels))

    def forward(
        self,
        x: Float[Tensor, "batch channel height width"],
        t: Num[Tensor, "batch"],
        c: Float[Tensor, "rows condition"],
    ) -> Float[Tensor, "rows channel height width"]:
        """Evaluate at the times ``t``, under the conditions ``c``.

        Conditions are one per image, or several sets of them, one after the other.
        """
        time = self.time(time_embedding(t, _TIME).to(x.dtype))
        embedding = functional.silu(repeat_for_conditions(time, c) + self.condition(c))
        patches = functional.pixel_unshuffle(x, self.config.patch)
        places = positions(patches.shape[2], patches.shape[3], self.config.width, x.device)
        h = self.stem(patches.flatten(2).mT) + places.to(x.dtype)
        h = repeat_for_conditions(h, c)
        for block in self.blocks:
            if self.gradient_checkpointing and torch.is_grad_enabled():
                h = cast(Tensor, checkpoint(block, h, embedding, use_reentrant=False))
            else:
                h = block(h, embedding)
        scale, shift = self.modulation(embedding)[:, None].chunk(2, dim=-1)
        h = self.head(_modulated(h, scale, shift)).mT.unflatten(2, patches.shape[-2:])
        return functional.pixel_shuffle(h, self.config.patch)


class Block(nn.Module):
    """Attention and a perceptron, each with a scale, a shift and a gate that begins closed."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.modulation = zeroed(nn.Linear(width, 6 * width))
        self.queries = nn.Linear(width, 3 * width)
        self.attended = nn.Linear(width, width)
        self.perceptron = nn.Sequential(
            nn.Linear(width, _WIDER * width), nn.GELU("tanh"), nn.Linear(_WIDER * width, width)
        )

    def forward(
        self, h: Float[Tensor, "rows place width"], embedding: Float[Tensor, "rows width"]
    ) -> Float[Tensor, "rows place width"]:
        """Return the numbers of each place after the block."""
        first, shift, gate, second, below, last = self.modulation(embedding)[:, None].chunk(6, -1)
        parts = self.queries(_modulated(h, first, shift)).unflatten(-1, (3, self.heads, -1))
        found = functional.scaled_dot_product_attention(*parts.permute(2, 0, 3, 1, 4).unbind())
        h = h + gate * self.attended(found.transpose(1, 2).flatten(2))
        return h + last * self.perceptron(_modulated(h, second, below))


def positions(
    height: int, width: int, channels: int, device: torch.device
) -> Float[Tensor, "place channels"]:
    """Embed row and column of every place, as times are, for grids of any size."""
    rows, columns = (
        time_embedding(torch.arange(count, device=device), channels // 2)
        for count in (height, width)
    )
    return torch.cat([rows.repeat_interleave(width, dim=0), columns.repeat(height, 1)], dim=1)


def _modulated(h: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    return functional.layer_norm(h, h.shape[-1:]) * (1 + scale) + shift
