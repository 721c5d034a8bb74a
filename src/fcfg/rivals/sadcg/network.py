r"""The two networks of SA-DCG: a semantic encoder, and a U-Net with its code in the condition.

The condition c holds the semantics z of an image, then its attributes as numbers. In every
residual block, the time t gives scale and shift, and the condition a second scale:

.. math:: h \leftarrow (a_t\, h + b_t)\, s_c

As in the published code, the upward path has attention at mirrored sizes (32 where the downward
path has it at 16): the 72.6 million parameters that the paper reports depend on it. Two things
differ, without a change of this number:

- All residual blocks of the encoder use both of their convolutions; the published ones hold a
  second one and never use it.
- The last layer of every residual and attention block starts at zero, as in :class:`UNet`.

References:
    Diffusion counterfactual generation with semantic abduction (Rasal et al., 2025).
"""

from __future__ import annotations

from functools import partial
from typing import Self

import torch
from jaxtyping import Float
from pydantic import Field, PositiveInt, model_validator
from torch import Tensor, nn

from fcfg.diffusion.networks.unet import Level, Multiplier, UNet, UNetConfig, down_path, norm

_DOWN_KERNEL = 4


class SemanticConfig(UNetConfig):
    """Shape of a :class:`SemanticUNet` and its :class:`SemanticEncoder`."""

    condition: int = Field(default=35, ge=2, le=2**20)  #: width of semantics and attributes
    latent: PositiveInt = 32  #: width of the semantics
    encoder_multipliers: tuple[Multiplier, ...] = (1, 2, 4, 8, 8)  #: factors in the encoder
    dropout: float = Field(default=0.1, ge=0, lt=1)
    head_channels: PositiveInt = 2**20  #: attention has one head
    patch: int = Field(default=1, ge=1, le=1)

    @model_validator(mode="after")
    def _can_be_encoded(self) -> Self:
        self._check_levels(self.encoder_multipliers)
        widest = self.base * max(*self.multipliers, *self.encoder_multipliers)
        if self.head_channels < widest:
            raise ValueError(f"head_channels must be at least {widest}: attention has one head")
        if self.latent >= self.condition:
            raise ValueError(
                f"condition {self.condition} has no room for attributes beside {self.latent} "
                "numbers of semantics"
            )
        return self

    @property
    def stride(self) -> int:
        return 2 ** (max(len(self.multipliers), len(self.encoder_multipliers)) - 1)

    @property
    def time_width(self) -> int:
        return self.condition

    @property
    def up_multipliers(self) -> tuple[int, ...]:
        """Factors of the base in the upward path: each level has the width of the next one."""
        return (1, *self.multipliers[:-1])

    def attends_upward(self, depth: int) -> bool:
        """Return whether a level of the upward path has attention: sizes are mirrored."""
        return self.attends(len(self.multipliers) - 1 - depth)


class SemanticUNet(UNet):
    """Predicts noise from a noisy image, its time, and its semantics and attributes."""

    down_kernel = _DOWN_KERNEL

    def _modulation(self, out: int) -> nn.Module:
        return _Modulation(self.config.condition, out)


class _Modulation(nn.Module):
    """Turns the embeddings of time and condition into scale - 1 and shift of a block."""

    def __init__(self, width: int, out: int) -> None:
        super().__init__()
        self.time = nn.Linear(width, 2 * out)
        self.condition = nn.Linear(width, out)

    def forward(self, embedding: Tensor) -> Tensor:
        time, condition = embedding.chunk(2, dim=1)
        scale, shift = self.time(time).chunk(2, dim=1)
        gain = self.condition(condition)
        gain = gain.to(torch.promote_types(gain.dtype, torch.float32))  # the norm adds 1 again
        return torch.cat([scale * gain - 1, shift * gain], dim=1)


class SemanticEncoder(nn.Module):
    """Infers the semantics of images: a Gaussian with independent components for each.

    >>> config = SemanticConfig(size=8, base=8, multipliers=(1, 2), encoder_multipliers=(1, 2),
    ...                         attention=(), condition=7, latent=4)
    >>> mean, log_variance = SemanticEncoder(config)(torch.zeros(2, 3, 8, 8))
    >>> mean.shape, log_variance.shape
    (torch.Size([2, 4]), torch.Size([2, 4]))
    """

    def __init__(self, config: SemanticConfig) -> None:
        super().__init__()
        self.config = config
        level = partial(Level, config)
        self.stem = nn.Conv2d(config.channels, config.base, 3, padding=1)
        self.down, widths = down_path(level, config, config.encoder_multipliers, _DOWN_KERNEL)
        width = widths[-1]
        self.middle = nn.Sequential(
            level(width, width, attends=True), level(width, width, attends=False)
        )
        self.mean, self.log_variance = (
            nn.Sequential(
                norm(width),
                nn.SiLU(),
                nn.AdaptiveAvgPool2d(1),
                nn.Conv2d(width, config.latent, 1),
                nn.Flatten(),
            )
            for _ in range(2)
        )

    def forward(
        self, images: Float[Tensor, "batch channel height width"]
    ) -> tuple[Float[Tensor, "batch latent"], Float[Tensor, "batch latent"]]:
        """Return mean and logarithm of the variance."""
        h = self.stem(images)
        for module in self.down:
            h = module(h)
        h = self.middle(h)
        return self.mean(h), self.log_variance(h)
