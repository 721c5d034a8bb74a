r"""The hierarchical VAE of Ribeiro et al. (2023), a baseline of the paper.

Latents :math:`z_1, \dots, z_L` at growing sizes are inferred from the top down. The prior of a
latent depends on those above it, and on the attributes if it is conditional. An *exogenous* prior
does not know the attributes; neither does anything that it is given.

References:
    High fidelity image counterfactuals with probabilistic causal models (Ribeiro et al., 2023).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from fcfg.rivals.hvae.blocks import DecoderBlock, Encoder, Gaussian
from fcfg.rivals.hvae.config import HVAEConfig
from fcfg.rivals.hvae.likelihood import Images, PixelDistribution, PixelHead

Parents = Float[Tensor, "batch parents"]
Latents = Sequence[Tensor]  # (batch, latent, size, size) each, from the top down
Choose = Callable[[DecoderBlock, Tensor, Tensor, Gaussian], Tensor]

_LARGEST_BIAS = 64  # size up to which every pixel has a learned bias


@dataclass(frozen=True, eq=False)
class Inference:
    """The latents inferred from images, and the distribution they are decoded to."""

    latents: tuple[Tensor, ...]
    kl: Float[Tensor, "batch"]  #: of posterior from prior, in nats per image dimension
    pixels: PixelDistribution  #: under the attributes that the latents were inferred with


class HVAE(nn.Module):
    """A hierarchical VAE of images given their attributes.

    Nothing is random: a caller draws standard normal noise in the shapes of :meth:`noise_shapes`.

    >>> config = HVAEConfig(
    ...     size=4, encoder="4b1d4,1b1", decoder="1b1,4b1", widths=(4, 8), latent=2
    ... )
    >>> network = HVAE(config)
    >>> latents = network.infer(torch.zeros(2, 3, 4, 4), torch.zeros(2, 3)).latents
    >>> network.decode(latents, torch.ones(2, 3)).image.shape
    torch.Size([2, 3, 4, 4])
    """

    def __init__(self, config: HVAEConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = Encoder(config)
        stages = config.stages("decoder")
        shapes = [(stage.size, stage.width) for stage in stages for _ in range(stage.blocks)]
        following = [*(width for _, width in shapes[1:]), None]
        share = math.sqrt(1 / len(shapes))
        self.blocks = nn.ModuleList(
            DecoderBlock(config, size, width, out, share)
            for (size, width), out in zip(shapes, following, strict=True)
        )
        self.biases = nn.ParameterDict(
            {
                str(stage.size): nn.Parameter(torch.zeros(1, stage.width, stage.size, stage.size))
                for stage in stages
                if stage.size <= _LARGEST_BIAS
            }
        )
        self.head = PixelHead(stages[-1].width, config.channels)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.zeros_(cast(Tensor, module.bias))

    def noise_shapes(self, batch: int) -> list[tuple[int, int, int, int]]:
        """Return the shapes of the latents of a batch, from the top down."""
        blocks = cast(Sequence[DecoderBlock], self.blocks)
        latent = self.config.latent
        return [(batch, latent, b.size, b.size) for b in blocks if b.posterior is not None]

    def infer(
        self,
        images: Images,
        parents: Parents,
        noise: Latents | None = None,
        dropped: Int[Tensor, "batch"] | None = None,
    ) -> Inference:
        """Infer the latents of images.

        Args:
            images: Images in [-1, 1].
            parents: Encoded attributes.
            noise: Standard normal noise of each latent, times a temperature; by default the
                latents are the posterior means.
            dropped: Path from which the attributes in ``config.dropped`` are hidden: 0 for the
                prior, 1 for the decoder, 2 for neither, which is the default.
        """
        features = self.encoder(images)
        noises = iter(noise or [None] * len(self.noise_shapes(0)))
        latents: list[Tensor] = []
        divergences: list[Tensor] = []

        def choose(block: DecoderBlock, h: Tensor, pa: Tensor, prior: Gaussian) -> Tensor:
            posterior = block.posterior_of(h, pa, features[block.size])
            divergences.append(posterior.divergence(prior))
            latents.append(posterior.sample(next(noises)))
            return latents[-1]

        pixels = self._descend(parents, choose, dropped)
        kl = torch.stack(divergences).sum(dim=0) / images[0].numel()
        return Inference(tuple(latents), kl, pixels)

    def decode(self, latents: Latents, parents: Parents) -> PixelDistribution:
        """Return the distribution of images with given latents and attributes."""
        given = iter(latents)

        def choose(*_: object) -> Tensor:
            return next(given)

        return self._descend(parents, choose)

    def free_energy(
        self,
        images: Images,
        parents: Parents,
        noise: Latents,
        dropped: Int[Tensor, "batch"] | None = None,
    ) -> tuple[Float[Tensor, "batch"], Float[Tensor, "batch"]]:
        """Return negative log-likelihood and divergence from the prior, in nats per dimension."""
        inference = self.infer(images, parents, noise, dropped)
        return inference.pixels.nll(images), inference.kl

    def _descend(
        self, parents: Parents, choose: Choose, dropped: Tensor | None = None
    ) -> PixelDistribution:
        """Follow the decoder from the top down, with latents that ``choose`` returns."""
        known_to_prior, known_to_decoder = self._hidden(parents, dropped)
        h = carried = self.biases["1"].expand(len(parents), -1, -1, -1)
        for module in self.blocks:
            block = cast(DecoderBlock, module)
            if h.shape[-1] < block.size:
                h, carried = self._enlarged(h, block.size), self._enlarged(carried, block.size)
            maps = [
                values[:, :, None, None].expand(-1, -1, block.size, block.size)
                for values in (parents, known_to_prior, known_to_decoder)
            ]
            prior, features = block.prior_of(carried, maps[1])
            z = prior.loc if block.posterior is None else choose(block, h, maps[0], prior)
            h, carried = block(h, z, maps[2], features)
        return self.head(h)

    def _enlarged(self, h: Tensor, size: int) -> Tensor:
        h = functional.interpolate(h, size=(size, size), mode="nearest")
        return h + self.biases[str(size)] if str(size) in self.biases else h

    def _hidden(self, parents: Parents, dropped: Tensor | None) -> tuple[Parents, Parents]:
        """Return what the prior and the decoder know of the attributes."""
        if dropped is None:
            return parents, parents
        columns = torch.zeros(parents.shape[1], dtype=torch.bool, device=parents.device)
        columns[list(self.config.dropped)] = True
        prior, decoder = (
            parents.masked_fill((dropped == path)[:, None] & columns, 0) for path in (0, 1)
        )
        return prior, decoder
