"""The blocks of a hierarchical VAE, without normalisation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from fcfg.rivals.hvae.config import HVAEConfig

Features = Float[Tensor, "batch _ _ _"]


@dataclass(frozen=True, eq=False)
class Gaussian:
    """A diagonal Gaussian over latents, in float32 or better."""

    loc: Features
    log_scale: Features

    @classmethod
    def of(cls, outputs: Features) -> Gaussian:
        """Read locations, then logarithms of scales, from the output of a network."""
        precise = torch.promote_types(outputs.dtype, torch.float32)
        return cls(*outputs.to(precise).chunk(2, dim=1))

    def sample(self, noise: Features | None) -> Features:
        """Return a sample made from standard normal noise; the mean without noise."""
        return self.loc if noise is None else self.loc + self.log_scale.exp() * noise

    def divergence(self, prior: Gaussian) -> Float[Tensor, "batch"]:
        r"""Return :math:`D_{KL}(q \Vert p)` of each image from a prior p, in nats."""
        variance = torch.exp(2 * (self.log_scale - prior.log_scale))
        distance = (self.loc - prior.loc) * torch.exp(-prior.log_scale)
        kl = prior.log_scale - self.log_scale + 0.5 * (variance + distance**2 - 1)
        return kl.flatten(1).sum(dim=1)


class Bottleneck(nn.Module):
    """Four convolutions, each after a GELU; the two in the middle have few channels."""

    def __init__(self, width: int, middle: int, out: int, kernel: int) -> None:
        super().__init__()
        sizes = [(width, middle, 1), (middle, middle, kernel)]
        sizes += [(middle, middle, kernel), (middle, out, 1)]
        self.convolutions = nn.ModuleList(
            nn.Conv2d(fan_in, fan_out, k, padding=k // 2) for fan_in, fan_out, k in sizes
        )

    def forward(self, x: Features) -> Features:
        """Return features of the output's width."""
        for convolution in self.convolutions:
            x = convolution(functional.gelu(x))
        return x

    def scale_output(self, factor: float) -> None:
        """Multiply the initial weights of the last convolution."""
        last = cast(nn.Conv2d, self.convolutions[-1])
        last.weight.data.mul_(factor)


class ResidualBlock(nn.Module):
    """A bottleneck added to its input, which is projected if the width changes; then pooling."""

    def __init__(self, width: int, out: int, kernel: int = 3, pool: int = 1) -> None:
        super().__init__()
        self.body = Bottleneck(width, width // 4, out, kernel)
        self.skip = nn.Identity() if width == out else nn.Conv2d(width, out, 1)
        self.pool = nn.Identity() if pool == 1 else nn.AvgPool2d(pool)

    def forward(self, x: Features) -> Features:
        """Return features of the output's width and size."""
        return self.pool(self.skip(x) + self.body(x))


class Encoder(nn.Module):
    """The bottom-up path: features of an image at every size."""

    def __init__(self, config: HVAEConfig) -> None:
        super().__init__()
        stages = config.stages("encoder")
        self.stem = nn.Conv2d(config.channels, stages[0].width, 7, padding=3)
        self.stages = nn.ModuleList(
            nn.Sequential(*(ResidualBlock(stage.width, stage.width) for _ in range(stage.blocks)))
            for stage in stages
        )
        self.transitions = nn.ModuleList(
            ResidualBlock(stage.width, following.width, pool=stage.pool)
            for stage, following in pairwise(stages)
        )
        blocks = [block for block in self.modules() if isinstance(block, ResidualBlock)]
        for block in blocks:
            block.body.scale_output(math.sqrt(1 / len(blocks)))

    def forward(self, images: Features) -> dict[int, Features]:
        """Return the last features at each size, by that size."""
        x = self.stem(images)
        features: dict[int, Tensor] = {}
        for stage, transition in zip(self.stages, [*self.transitions, None], strict=True):
            x = stage(x)
            features[x.shape[-1]] = x
            x = x if transition is None else transition(x)
        return features


class DecoderBlock(nn.Module):
    """The distributions of one latent, and what the latent adds to the image."""

    def __init__(
        self, config: HVAEConfig, size: int, width: int, out: int | None, share: float
    ) -> None:
        super().__init__()
        self.size, self.latent = size, config.latent
        self.conditional = config.prior == "conditional"
        kernel, parents = 3 if size > 2 else 1, config.parents
        known = width + parents if self.conditional else width
        self.prior = Bottleneck(known, width // 4, 2 * config.latent + width, kernel)
        has_latent = config.largest_latent is None or size <= config.largest_latent
        self.posterior = (
            Bottleneck(2 * width + parents, width // 4, 2 * config.latent, kernel)
            if has_latent
            else None
        )
        self.merge = nn.Conv2d(config.latent + parents, width, 1)
        self.body = ResidualBlock(width, width if out is None else out, kernel)
        self.carry = None if out is None else nn.Conv2d(config.latent + width, out, 1)
        self.prior.scale_output(0.0)
        self.body.body.scale_output(share)
        self.merge.weight.data.mul_(share)

    def prior_of(self, carried: Features, parents: Features) -> tuple[Gaussian, Features]:
        """Return the prior of the latent, and features for the image."""
        known = torch.cat([carried, parents], dim=1) if self.conditional else carried
        distribution, features = self.prior(known).tensor_split([2 * self.latent], dim=1)
        return Gaussian.of(distribution), features

    def posterior_of(self, h: Features, parents: Features, encoded: Features) -> Gaussian:
        """Return the posterior of the latent, given features of the image."""
        assert self.posterior is not None
        return Gaussian.of(self.posterior(torch.cat([h, parents, encoded], dim=1)))

    def forward(
        self, h: Features, z: Features, parents: Features, features: Features
    ) -> tuple[Features, Features]:
        """Return the features of the next block, and what its prior is given."""
        h = self.body(h + features + self.merge(torch.cat([z, parents], dim=1)))
        return h, z if self.carry is None else self.carry(torch.cat([z, features], dim=1))
