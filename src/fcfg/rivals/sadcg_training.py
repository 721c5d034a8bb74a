"""The training of SA-DCG."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field, PositiveInt

from fcfg.support.config_files import validate
from fcfg.training.diffusion import DenoisingNetwork, DenoisingTraining
from fcfg.training.kinds import Inputs, register_training

if TYPE_CHECKING:
    from fcfg.rivals.sadcg import SemanticConfig, SemanticDenoiser


@register_training("semantic")
class SemanticTraining(DenoisingTraining):
    """Training of a diffusion model with a semantic encoder; attributes are masked together."""

    terms: ClassVar = {"p_null", "kl_weight"}

    kind: Literal["semantic"]
    network: DenoisingNetwork = DenoisingNetwork()
    latent: PositiveInt = 32  #: width of the semantics
    encoder_multipliers: tuple[PositiveInt, ...] = (1, 2, 4, 8, 8)  #: factors of network.base
    kl_weight: float = Field(default=1e-3, ge=0)  #: weight of the divergence of the semantics

    def shape(self, inputs: Inputs) -> SemanticConfig:
        from fcfg.rivals.sadcg import SemanticConfig

        self.schedule.build()
        shape = self.network.shape(inputs, self.latent + sum(inputs.space.widths))
        shape |= self.model_dump(include={"latent", "encoder_multipliers"})
        return validate(SemanticConfig, shape, "model")

    def build(self, inputs: Inputs) -> SemanticDenoiser:
        from fcfg.rivals import sadcg

        shape = self.shape(inputs)
        with inputs.seeded():
            return sadcg.SemanticDenoiser(
                sadcg.SemanticUNet(shape, **self.network.layout(inputs)),
                sadcg.SemanticEmbedder(inputs.space, self.latent),
                self.schedule.build(),
                sadcg.SemanticEncoder(shape),
                parameterisation=self.schedule.parameterisation,
            )
