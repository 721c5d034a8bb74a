"""The training of a diffusion model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, PositiveInt

from fcfg.support.config_errors import validate
from fcfg.training.kinds import (
    Inputs,
    ModelTraining,
    Part,
    register_presets,
    register_training,
)
from fcfg.training.sections import Section

if TYPE_CHECKING:
    from torch import nn

    from fcfg.causal.scm import StructuralCausalModel
    from fcfg.diffusion.denoiser import Denoiser
    from fcfg.diffusion.networks import UNetConfig
    from fcfg.diffusion.schedule import NoiseSchedule
    from fcfg.judge import AttributeJudge
    from fcfg.pipeline.counterfactual import CounterfactualPipeline
    from fcfg.training.objectives import DenoisingObjective

register_presets("fcfg.training")


class Schedule(Section):
    """The noise schedule, and what the network predicts."""

    kind: Literal["linear", "cosine"] = "linear"
    steps: PositiveInt = 1000  #: T
    parameterisation: Literal["noise", "image", "velocity"] = "noise"

    def build(self) -> NoiseSchedule:
        """Return the noise schedule."""
        from fcfg.diffusion.schedule import NoiseSchedule

        return NoiseSchedule(self.kind, self.steps)


class DenoisingNetwork(Section):
    """What all U-Nets have; image size, channels and condition width follow from the data."""

    base: PositiveInt = 32  #: channels of the first level
    multipliers: tuple[PositiveInt, ...] = (1, 2, 4)  #: factors of the base, one per level
    attention: tuple[int, ...] = ()  #: image sizes with attention; the middle always has it
    blocks: PositiveInt = 2  #: residual blocks per level
    dropout: float = Field(default=0.0, ge=0, lt=1)  #: inside residual blocks
    gradient_checkpointing: bool = False  #: saves memory, costs about a third more time

    def shape(self, inputs: Inputs) -> dict[str, Any]:
        """Return what the U-Net is made of, but for its condition."""
        return self.model_dump(exclude={"embedding", "gradient_checkpointing"}) | inputs.pixels


class Network(DenoisingNetwork):
    """The U-Net."""

    head_channels: PositiveInt = 64  #: channels of an attention head
    embedding: PositiveInt = 32  #: condition width per attribute


class DenoisingTraining(ModelTraining):
    """Training of a denoiser."""

    ema: float | None = Field(default=0.9999, ge=0, lt=1)
    p_null: float = Field(default=0.5, ge=0, le=1)  #: probability of dropping the whole condition
    schedule: Schedule = Schedule()

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts of the training, in order."""
        return (Part("diffusion", "model", self, self),)

    def beside(self, network: Denoiser) -> Mapping[str, nn.Module]:
        """Return the embedder."""
        return {"embedder": network.embedder}

    def model(
        self, network: Denoiser, scm: StructuralCausalModel, judge: AttributeJudge | None
    ) -> CounterfactualPipeline:
        """Assemble the model."""
        from fcfg.pipeline.counterfactual import CounterfactualPipeline

        return CounterfactualPipeline(network, scm, judge=judge)


@register_training("diffusion")
class DiffusionTraining(DenoisingTraining):
    """Training of a diffusion model; defaults are the paper's (App. D) where it has one."""

    kind: Literal["diffusion"] = "diffusion"
    network: Network = Network()
    p_group: float = Field(default=0.0, ge=0, le=1)  #: and each attribute; not in the paper
    independence: float = Field(default=0.0, ge=0)  #: weight of groups adding up; from CoInD

    def check(self, inputs: Inputs) -> None:
        """Refuse settings that do not fit together."""
        self.schedule.build()
        self.unet(inputs)
        if self.independence and len(inputs.space) == 1:
            raise ValueError("model.independence must be 0 for a single attribute")

    def unet(self, inputs: Inputs) -> UNetConfig:
        """Return the shape of the U-Net."""
        from fcfg.diffusion.networks import UNetConfig

        width = len(inputs.space) * self.network.embedding
        shape = self.network.shape(inputs) | {"condition": width}
        return validate(UNetConfig, shape, "model.network")

    def build(self, inputs: Inputs) -> Denoiser:
        """Return a new denoiser."""
        from fcfg.diffusion.denoiser import Denoiser
        from fcfg.diffusion.embedder import AttributeEmbedder
        from fcfg.diffusion.networks import UNet

        network = self.network
        with inputs.seeded():
            return Denoiser(
                UNet(
                    self.unet(inputs),
                    gradient_checkpointing=network.gradient_checkpointing,
                    channels_last=inputs.channels_last,
                ),
                AttributeEmbedder(inputs.space, network.embedding),
                self.schedule.build(),
                parameterisation=self.schedule.parameterisation,
            )

    def objective(self, network: Denoiser) -> DenoisingObjective:
        """Return the loss of a denoiser."""
        from fcfg.training.objectives import DenoisingObjective

        return DenoisingObjective(
            network,
            p_null=self.p_null,
            p_group=self.p_group,
            independence=self.independence,
        )
