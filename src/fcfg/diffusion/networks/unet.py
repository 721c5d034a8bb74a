"""The U-Net of the paper (App. D): that of Dhariwal and Nichol, with a condition.

The sinusoidal embedding of the time passes through a two-layer network and is *concatenated*
with the condition. The result gives scale and shift after the second normalisation of every
residual block. Among our readings of the paper's table, only this one has its 60.5 million
parameters.

References:
    Diffusion models beat GANs on image synthesis (Dhariwal and Nichol, 2021).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Annotated, ClassVar, Self, TypeVar, cast

import torch
from jaxtyping import Float, Num, Shaped
from pydantic import BaseModel, ConfigDict, Field, PositiveInt, model_validator
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from fcfg.diffusion.networks.group_norm import GroupNorm

Channels = Annotated[int, Field(ge=1, le=2**14)]
Multiplier = Annotated[int, Field(ge=1, le=64)]
Layer = TypeVar("Layer", nn.Conv2d, nn.Linear)


def _heads(width: int, head_channels: int) -> int:
    return max(1, width // head_channels)


def _groups(width: int) -> int:
    """Return the number of normalised groups: 32, or fewer if they do not divide the width."""
    return math.gcd(32, width)


class UNetConfig(BaseModel):
    """Shape of a :class:`UNet`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    channels: Channels = 3  #: channels of the image
    size: int = Field(default=64, ge=1, le=4096)
    """Height and width of training images; determines the levels with attention."""
    condition: int = Field(default=96, ge=1, le=2**20)  #: width of the condition, K·32
    base: Channels = 64  #: channels of the first level
    multipliers: tuple[Multiplier, ...] = (1, 2, 4, 8)  #: factors of the base, by level
    attention: tuple[int, ...] = (16,)  #: image sizes with attention, besides the middle
    blocks: int = Field(default=2, ge=1, le=64)  #: residual blocks in each level
    dropout: float = Field(default=0.0, ge=0, lt=1)  #: dropout of residual blocks
    head_channels: PositiveInt = 64  #: channels of an attention head
    patch: int = Field(default=1, ge=1, le=64)
    """Side of the squares of pixels that the first level takes as one; sizes of attention are
    those in patches."""

    @model_validator(mode="after")
    def _can_be_computed(self) -> Self:
        if self.base % 2:
            raise ValueError(f"base must be even, and {self.base} is not")
        self._check_levels(self.multipliers)
        return self

    def _check_levels(self, multipliers: tuple[int, ...]) -> None:
        if not multipliers:
            raise ValueError("multipliers must hold at least one level")
        stride = self.patch * 2 ** (len(multipliers) - 1)
        if self.size % stride:
            raise ValueError(f"size {self.size} is not divisible by {stride}")
        sizes = [self.size // self.patch >> level for level in range(len(multipliers))]
        if not set(self.attention) <= set(sizes):
            raise ValueError(f"attention {self.attention} is not among the sizes {sizes}")
        widths = [self.base * multiplier for multiplier in multipliers]
        attending = [w for s, w in zip(sizes, widths, strict=True) if s in self.attention]
        for width in (*attending, widths[-1]):
            if width % _heads(width, self.head_channels):
                raise ValueError(
                    f"head_channels {self.head_channels} do not divide {width} channels evenly"
                )
        above, lowest = [self.base, *widths][-2:]
        if sizes[-1] == 1 and any(_groups(w) == w for w in (above, lowest, above + lowest)):
            raise ValueError(
                f"size {self.size} with {len(sizes)} levels ends in one pixel, and {lowest} "
                "channels there are too few to be normalised"
            )

    @property
    def stride(self) -> int:
        """Number that must divide the height and width of an image."""
        return self.patch * 2 ** (len(self.multipliers) - 1)

    @property
    def time_width(self) -> int:
        """Width of the embedding of the time."""
        return 4 * self.base

    @property
    def up_multipliers(self) -> tuple[int, ...]:
        """Factors of the base in the upward path, by level."""
        return self.multipliers

    def attends(self, depth: int) -> bool:
        """Return whether a level of the downward path has attention; the first has depth 0."""
        return self.size // self.patch >> depth in self.attention

    def attends_upward(self, depth: int) -> bool:
        """Return whether a level of the upward path has attention."""
        return self.attends(depth)


class UNet(nn.Module):
    """Predicts noise (or image, or velocity) from a noisy image, its time and its condition.

    >>> config = UNetConfig(size=8, base=8, multipliers=(1, 2), attention=(), condition=64)
    >>> network = UNet(config)
    >>> network(torch.zeros(2, 3, 8, 8), torch.tensor([1, 1000]), torch.zeros(2, 64)).shape
    torch.Size([2, 3, 8, 8])

    Args:
        config: Shape of the network.
        gradient_checkpointing: Recomputation of residual blocks in the backward pass. This needs
            less memory and about a third more time, and gives the same gradients.
        channels_last: Use of the channels-last memory format, which is faster on GPUs.
    """

    down_kernel: ClassVar[int] = 3  #: size of the convolutions that halve an image

    def __init__(
        self,
        config: UNetConfig,
        *,
        gradient_checkpointing: bool = False,
        channels_last: bool = False,
    ) -> None:
        super().__init__()
        self.config = config
        self.gradient_checkpointing = gradient_checkpointing
        self.memory_format = torch.channels_last if channels_last else torch.contiguous_format
        base, time = config.base, config.time_width
        self.time = nn.Sequential(nn.Linear(base, time), nn.SiLU(), nn.Linear(time, time))

        level = partial(Level, config, modulation=self._modulation)
        pixels = config.channels * config.patch**2
        self.stem = nn.Conv2d(pixels, base, 3, padding=1)
        self.down, skips = down_path(level, config, config.multipliers, self.down_kernel)
        width = skips[-1]
        self.middle = nn.ModuleList(
            [level(width, width, attends=True), level(width, width, attends=False)]
        )

        self.up = nn.ModuleList()
        for depth, multiplier in reversed(list(enumerate(config.up_multipliers))):
            for _ in range(config.blocks + 1):
                attends = config.attends_upward(depth)
                self.up.append(level(width + skips.pop(), multiplier * base, attends=attends))
                width = multiplier * base
            if depth > 0:
                self.up.append(_Upsample(width))

        self.head = nn.Sequential(
            norm(width), nn.SiLU(), zeroed(nn.Conv2d(width, pixels, 3, padding=1))
        )
        self.to(memory_format=self.memory_format)  # pyright: ignore[reportCallIssue] # torch's overloads omit it

    def _modulation(self, out: int) -> nn.Module:
        """Return the module that turns the embedding into scale - 1 and shift of a block."""
        return nn.Linear(self.config.time_width + self.config.condition, 2 * out)

    def forward(
        self,
        x: Float[Tensor, "batch channel height width"],
        t: Num[Tensor, "batch"],
        c: Float[Tensor, "rows condition"],
    ) -> Float[Tensor, "rows channel height width"]:
        """Evaluate at the times ``t``, under the conditions ``c``.

        Conditions are one per image, or several sets of them, one after the other. Layers before
        the first condition are then evaluated once.
        """
        time = self.time(time_embedding(t, self.config.base).to(x.dtype))
        embedding = functional.silu(torch.cat([repeat_for_conditions(time, c), c], dim=1))

        x = functional.pixel_unshuffle(x, self.config.patch) if self.config.patch > 1 else x
        h = self.stem(x.contiguous(memory_format=self.memory_format))
        skips = [repeat_for_conditions(h, c)]
        for module in self.down:
            h = self._apply_level(module, h, embedding)
            skips.append(h)
        for module in self.middle:
            h = self._apply_level(module, h, embedding)
        for module in self.up:
            if isinstance(module, Level):
                h = torch.cat([h, skips.pop()], dim=1)
            h = self._apply_level(module, h, embedding)
        h = self.head(h)
        return functional.pixel_shuffle(h, self.config.patch) if self.config.patch > 1 else h

    def _apply_level(self, module: nn.Module, h: Tensor, embedding: Tensor) -> Tensor:
        if not isinstance(module, Level):
            return module(h)
        if self.gradient_checkpointing and torch.is_grad_enabled():
            return cast(Tensor, checkpoint(module, h, embedding, use_reentrant=False))
        return module(h, embedding)


def repeat_for_conditions(
    x: Shaped[Tensor, "batch *image"], c: Tensor
) -> Shaped[Tensor, "rows *image"]:
    """Repeat images, times or features for every set of conditions, or conditions for images.

    >>> repeat_for_conditions(torch.tensor([1, 2]), torch.zeros(4, 64))
    tensor([1, 2, 1, 2])
    """
    return x if len(x) == len(c) else torch.cat([x] * (len(c) // len(x)))  # keeps the layout


def time_embedding(t: Num[Tensor, "batch"], width: int) -> Float[Tensor, "batch width"]:
    """Embed times in cosines, then sines (Vaswani et al., 2017)."""
    half = width // 2
    decay = torch.arange(half, device=t.device, dtype=torch.float32) / half
    angles = t[:, None] * torch.exp(-math.log(10_000) * decay)
    return torch.cat([angles.cos(), angles.sin()], dim=1)


class Level(nn.Module):
    """A residual block, followed by attention if the level has it.

    ``modulation`` makes the module from the embedding to scale - 1 and shift, for a number of
    channels; without it there is no embedding.
    """

    def __init__(
        self,
        config: UNetConfig,
        width: int,
        out: int,
        *,
        attends: bool,
        modulation: Callable[[int], nn.Module] | None = None,
    ) -> None:
        super().__init__()
        self.block = _ResidualBlock(width, out, modulation, config.dropout)
        self.attention = _Attention(out, config.head_channels) if attends else None

    def forward(self, x: Tensor, embedding: Tensor | None = None) -> Tensor:
        """Apply both."""
        h = self.block(x, embedding)
        return h if self.attention is None else self.attention(h)


def down_path(
    level: Callable[..., Level], config: UNetConfig, multipliers: tuple[int, ...], kernel: int
) -> tuple[nn.ModuleList, list[int]]:
    """Return the levels from the first to the smallest, and the widths before and after each.

    ``level`` makes one from two widths and ``attends``; ``kernel`` is the size of convolutions
    that halve an image.
    """
    modules, widths = nn.ModuleList(), [config.base]
    for depth, multiplier in enumerate(multipliers):
        if depth > 0:
            width = widths[-1]
            modules.append(nn.Conv2d(width, width, kernel, stride=2, padding=1))
            widths.append(width)
        for _ in range(config.blocks):
            out = multiplier * config.base
            modules.append(level(widths[-1], out, attends=config.attends(depth)))
            widths.append(out)
    return modules, widths


class _ResidualBlock(nn.Module):
    """Two convolutions; the embedding, if there is one, scales and shifts between them."""

    def __init__(
        self,
        width: int,
        out: int,
        modulation: Callable[[int], nn.Module] | None,
        dropout: float,
    ) -> None:
        super().__init__()
        self.first = nn.Sequential(norm(width), nn.SiLU(), nn.Conv2d(width, out, 3, padding=1))
        self.modulation = None if modulation is None else modulation(out)
        self.norm = norm(out)
        self.second = nn.Sequential(
            nn.SiLU(), nn.Dropout(dropout), zeroed(nn.Conv2d(out, out, 3, padding=1))
        )
        self.skip = nn.Identity() if width == out else nn.Conv2d(width, out, 1)

    def forward(self, x: Tensor, embedding: Tensor | None) -> Tensor:
        if self.modulation is None:
            return self.skip(x) + self.second(self.norm(self.first(x)))
        assert embedding is not None, "a modulated block has an embedding"
        scale, shift = self.modulation(embedding).chunk(2, dim=1)
        h = self.norm(repeat_for_conditions(self.first(x), embedding), (scale, shift))
        return repeat_for_conditions(self.skip(x), embedding) + self.second(h)


class _Attention(nn.Module):
    """Self-attention over the pixels."""

    def __init__(self, width: int, head_channels: int) -> None:
        super().__init__()
        self.heads = _heads(width, head_channels)
        self.norm = norm(width)
        self.qkv = nn.Conv2d(width, 3 * width, 1)
        self.out = zeroed(nn.Conv2d(width, width, 1))

    def forward(self, x: Tensor) -> Tensor:
        height, width = x.shape[-2:]
        qkv = self.qkv(self.norm(x)).flatten(2)  # (batch, 3·channel, pixel)
        q, k, v = qkv.unflatten(1, (3, self.heads, -1)).transpose(-1, -2).unbind(1)
        h = functional.scaled_dot_product_attention(q, k, v)  # (batch, head, pixel, channel)
        return x + self.out(h.transpose(-1, -2).flatten(1, 2).unflatten(-1, (height, width)))


class _Upsample(nn.Module):
    """Nearest-neighbour doubling, then a convolution."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return self.convolution(functional.interpolate(x, scale_factor=2.0, mode="nearest"))


def norm(width: int) -> GroupNorm:
    """Return the normalisation of a number of channels."""
    return GroupNorm(_groups(width), width)


def zeroed(layer: Layer) -> Layer:
    """Initialise a layer with zeros, so that a new block is the identity."""
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(cast(Tensor, layer.bias))
    return layer
