"""The training of SA-DCG."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field, PositiveInt

from fcfg.support.config_errors import validate
from fcfg.training.diffusion import DenoisingNetwork, DenoisingTraining
from fcfg.training.kinds import Inputs, register_training

if TYPE_CHECKING:
    from fcfg.causal.scm import StructuralCausalModel
    from fcfg.diffusion.denoiser import Denoiser
    from fcfg.judge import AttributeJudge
    from fcfg.rivals.sadcg import SemanticConfig, SemanticDenoiser, SemanticPipeline
    from fcfg.training.objectives import DenoisingObjective


@register_training("semantic")
class SemanticTraining(DenoisingTraining):
    """Training of a diffusion model with a semantic encoder; attributes are masked together."""

    kind: Literal["semantic"]
    network: DenoisingNetwork = DenoisingNetwork()
    latent: PositiveInt = 32  #: width of the semantics
    encoder_multipliers: tuple[PositiveInt, ...] = (1, 2, 4, 8, 8)  #: factors of network.base
    kl_weight: float = Field(default=1e-3, ge=0)  #: weight of the divergence of the semantics

    def check(self, inputs: Inputs) -> None:
        """Refuse settings that do not fit together."""
        self.schedule.build()
        self.shape(inputs)

    def shape(self, inputs: Inputs) -> SemanticConfig:
        """Return the shape of the U-Net and of its encoder."""
        from fcfg.rivals.sadcg import SemanticConfig

        own = self.model_dump(include={"latent", "encoder_multipliers"})
        condition = self.latent + sum(inputs.space.widths)
        shape = self.network.shape(inputs) | own | {"condition": condition}
        return validate(SemanticConfig, shape, "model")

    def build(self, inputs: Inputs) -> SemanticDenoiser:
        """Return a new denoiser."""
        from fcfg.rivals.sadcg import (
            SemanticDenoiser,
            SemanticEmbedder,
            SemanticEncoder,
            SemanticUNet,
        )

        shape = self.shape(inputs)
        with inputs.seeded():
            return SemanticDenoiser(
                SemanticUNet(
                    shape,
                    gradient_checkpointing=self.network.gradient_checkpointing,
                    channels_last=inputs.channels_last,
                ),
                SemanticEmbedder(inputs.space, self.latent),
                self.schedule.build(),
                SemanticEncoder(shape),
                parameterisation=self.schedule.parameterisation,
            )

    def model(
        self, network: Denoiser, scm: StructuralCausalModel, judge: AttributeJudge | None
    ) -> SemanticPipeline:
        """Assemble the model."""
        from fcfg.rivals.sadcg import SemanticPipeline

        return SemanticPipeline(network, scm, judge=judge)

    def objective(self, network: Denoiser) -> DenoisingObjective:
        """Return the loss of a denoiser."""
        from fcfg.training.objectives import DenoisingObjective

        return DenoisingObjective(network, p_null=self.p_null, kl_weight=self.kl_weight)
