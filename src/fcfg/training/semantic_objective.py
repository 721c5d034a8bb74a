"""The loss of the denoiser of SA-DCG, for the training loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from fcfg.diffusion.denoiser import Corruption
from fcfg.diffusion.semantic import SemanticDenoiser
from fcfg.training.feed import Batch
from fcfg.training.objectives import AbstractObjective, Draws


class SemanticObjective(AbstractObjective):
    """Prediction of the noise in an image, given its semantics and attributes or the null vector.

    Args:
        denoiser: Denoiser to train, with its encoder.
        p_null: Probability of dropping the whole condition.
        kl_weight: Weight of the divergence of semantics from a standard normal distribution.
    """

    def __init__(self, denoiser: SemanticDenoiser, *, p_null: float, kl_weight: float) -> None:
        super().__init__()
        self.denoiser = denoiser
        self._p_null, self._kl_weight = p_null, kl_weight
        self._loss: Callable[..., Tensor] = self.loss_of

    @property
    def subject(self) -> SemanticDenoiser:
        """The denoiser."""
        return self.denoiser

    def draw(self, shape: tuple[int, int, int, int], generator: torch.Generator) -> Draws:
        """Draw times, noise, the conditions to keep, and the noise of the semantics."""
        drawn = self.denoiser.draw(shape, generator, p_null=self._p_null)
        assert drawn.latent is not None, "SA-DCG draws it"
        return drawn.t, drawn.noise, drawn.keep, drawn.latent

    def forward(self, batch: Batch, draws: Draws) -> Float[Tensor, ""]:
        """Return the squared error of the prediction, and the weighted divergence."""
        return self._loss(batch.images, batch.values, *draws)

    def variants(self, draws: Draws) -> dict[str, Draws]:
        """Return the draws as in training, with the whole condition, and without it."""
        t, noise, keep, latent = draws
        return {
            "validation_loss": draws,
            "validation_with_condition": (t, noise, torch.ones_like(keep), latent),
            "validation_without_condition": (t, noise, torch.zeros_like(keep), latent),
        }

    def advice(self, losses: Mapping[str, float]) -> str | None:
        """Warn if semantics and attributes do not lower the loss."""
        conditional = losses["validation_with_condition"]
        unconditional = losses["validation_without_condition"]
        if conditional < unconditional:
            return None
        return (
            "held-out images are denoised no better with their semantics and attributes "
            f"(loss {conditional:.6g}) than without ({unconditional:.6g}), so guidance will have "
            "no effect: train longer, or lower the weight of the divergence"
        )

    def over(self, subject: nn.Module) -> SemanticObjective:
        """Return the objective of another denoiser."""
        denoiser = cast(SemanticDenoiser, subject)
        return SemanticObjective(denoiser, p_null=self._p_null, kl_weight=self._kl_weight)

    def fuse(self, *, cuda_graphs: bool) -> None:
        """Compile encoder, noising, network and error as one function."""
        schedule = self.denoiser.schedule  # filling its cache now avoids a second compilation
        schedule.signal(torch.ones(1, dtype=torch.int64, device=self.denoiser.device))
        mode = "reduce-overhead" if cuda_graphs else "default"
        self._loss = torch.compile(self.loss_of, mode=mode)

    def loss_of(
        self,
        images: Tensor,
        values: Tensor,
        t: Tensor,
        noise: Tensor,
        keep: Tensor,
        latent: Tensor,
    ) -> Float[Tensor, ""]:
        """Return the loss as a function of tensors only, which can be compiled."""
        drawn = Corruption(t, noise, keep, latent)
        return self.denoiser.loss(images, values, drawn, kl_weight=self._kl_weight)
