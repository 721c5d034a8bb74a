r"""The denoiser of SA-DCG: its condition holds what an image shows beside its attributes.

An encoder infers the semantics z of an image. The condition is c = [z, y], y the attributes as
numbers. In training, c as a whole is replaced by a *learned* null vector at random.

References:
    Diffusion counterfactual generation with semantic abduction (Rasal et al., 2025).
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from fcfg.causal.attributes import AttributeSpace
from fcfg.diffusion.denoiser import Corruption, Denoiser, check_pixels
from fcfg.diffusion.embedder import AbstractEmbedder, Keep
from fcfg.diffusion.prediction import Condition, Images
from fcfg.diffusion.schedule import NoiseSchedule
from fcfg.diffusion.table import Parameterisation
from fcfg.rivals.sadcg.network import SemanticEncoder, SemanticUNet
from fcfg.support.errors import InputError


class SemanticEmbedder(AbstractEmbedder):
    """Attributes as they are, and the learned null vector of the whole condition.

    The semantics, whose size is ``width``, come first in the condition.
    """

    def __init__(self, space: AttributeSpace, width: int = 32) -> None:
        super().__init__()
        self.space = space
        self.width = width
        self.null = nn.Parameter(torch.randn(self.condition_width))

    @property
    def condition_width(self) -> int:
        return self.width + sum(self.space.widths)

    def forward(self, values: Float[Tensor, "batch values"]) -> Float[Tensor, "batch values"]:
        return values

    def null_for(self, condition: Condition) -> Condition:
        return self.null.to(condition).expand_as(condition)

    def shown(self, keep: Keep) -> Bool[Tensor, "#batch 1"]:
        """Keep conditions as a whole."""
        whole = keep.all(dim=1)
        if not torch.equal(whole, keep.any(dim=1)):
            self.check_separate("mask")
        return whole[:, None]

    def check_separate(self, subject: str) -> None:
        raise InputError(
            subject,
            expected="one group of attributes, since SA-DCG masks all attributes together",
            got="masks of single attributes",
            do="guide all attributes together, as in cfg:2",
        )


class SemanticDenoiser(Denoiser):
    """A denoiser with an encoder, which infers semantics and has the config of the network."""

    embedder: SemanticEmbedder

    def __init__(
        self,
        network: SemanticUNet,
        embedder: SemanticEmbedder,
        schedule: NoiseSchedule,
        encoder: SemanticEncoder,
        *,
        parameterisation: Parameterisation | None = None,
    ) -> None:
        super().__init__(network, embedder, schedule, parameterisation=parameterisation)
        if network.config != encoder.config or embedder.width != encoder.config.latent:
            raise InputError(
                "denoiser of SA-DCG",
                expected="networks of one config, and an embedder with its width of semantics",
                got=f"{network.config!r}, {encoder.config!r} and width {embedder.width}",
                do="build all of them from one SemanticConfig",
            )
        self.encoder = encoder
        self.semantic_width = embedder.width

    def semantics(self, images: Images) -> Float[Tensor, "batch latent"]:
        weight = next(self.encoder.parameters())
        return self.encoder(images.to(weight.dtype))[0].to(self.state_dtype)

    def loss(
        self,
        images: Images,
        values: Float[Tensor, "batch values"],
        corruption: Corruption,
        *,
        kl_weight: float = 1e-3,
    ) -> Float[Tensor, ""]:
        r"""Compute the training loss, averaged over the batch and summed over the pixels.

        .. math:: \lVert \epsilon - \epsilon_\theta(x_t, t, [z, y]) \rVert^2
            + w\, \mathrm{KL}(q(z \mid x) \,\Vert\, \mathcal N(0, I)), \qquad z \sim q(z \mid x)
        """
        check_pixels(images)
        assert corruption.latent is not None, "draw gives the noise of the semantics"
        mean, log_variance = self.encoder(images)
        z = mean + (log_variance / 2).exp() * corruption.latent
        c = torch.cat([z, self._embedded(values)], dim=1)
        c = torch.where(corruption.keep.all(dim=1)[:, None], c, self.embedder.null_for(c))
        output, target = self._output_and_target(images, c, corruption)
        error = functional.mse_loss(output, target, reduction="sum") / len(images)
        divergence = (mean.square() + log_variance.exp() - 1 - log_variance).sum(dim=1).mean() / 2
        return error + kl_weight * divergence
