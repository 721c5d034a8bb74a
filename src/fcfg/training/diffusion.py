"""The training of a diffusion model."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, cast

from pydantic import Field, PositiveInt

from fcfg.support.config_errors import validate
from fcfg.training.kinds import ModelTraining, Part, register_training
from fcfg.training.sections import Section

if TYPE_CHECKING:
    from torch import Tensor, nn

    from fcfg.causal.scm import StructuralCausalModel
    from fcfg.diffusion.denoiser import Denoiser
    from fcfg.diffusion.networks import UNetConfig
    from fcfg.diffusion.schedule import NoiseSchedule
    from fcfg.judge import AttributeJudge
    from fcfg.pipeline.counterfactual import CounterfactualPipeline
    from fcfg.training.config import TrainingConfig
    from fcfg.training.objectives import AbstractObjective, DenoisingObjective


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

    def shape(self, config: TrainingConfig) -> dict[str, Any]:
        """Return what the U-Net is made of, but for its condition."""
        shape = self.model_dump(exclude={"embedding", "gradient_checkpointing"})
        return shape | {"channels": config.data.channels, "size": config.data.size}


class Network(DenoisingNetwork):
    """The U-Net."""

    head_channels: PositiveInt = 64  #: channels of an attention head
    embedding: PositiveInt = 32  #: condition width per attribute


class DenoisingTraining(ModelTraining):
    """Training of a denoiser."""

    ema: float | None = Field(default=0.9999, ge=0, lt=1)
    p_null: float = Field(default=0.5, ge=0, le=1)  #: probability of dropping the whole condition
    schedule: Schedule = Schedule()

    @abstractmethod
    def denoiser(self, config: TrainingConfig, *, channels_last: bool = False) -> Denoiser:
        """Return a new denoiser, whose weights follow from the seed."""

    @abstractmethod
    def denoising(self, denoiser: Denoiser) -> DenoisingObjective:
        """Return the loss of a denoiser."""

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts of the training, in order."""
        return (Part("diffusion", "model", self),)

    def objective(
        self, config: TrainingConfig, *, channels_last: bool = False
    ) -> DenoisingObjective:
        """Return a new image model, and the loss of its first part."""
        return self.denoising(self.denoiser(config, channels_last=channels_last))

    def beside(self, objective: AbstractObjective) -> Mapping[str, nn.Module]:
        """Return the embedder."""
        return {"embedder": cast("Denoiser", objective.subject).embedder}

    def model(
        self,
        config: TrainingConfig,
        scm: StructuralCausalModel,
        judge: AttributeJudge | None,
        weights: Callable[[str], dict[str, Tensor] | None],
    ) -> CounterfactualPipeline:
        """Assemble the model."""
        from fcfg.pipeline.counterfactual import CounterfactualPipeline

        denoiser, trained = self.denoiser(config), weights("diffusion")
        if trained is not None:
            denoiser.load_state_dict(trained)
        return CounterfactualPipeline(denoiser, scm, judge=judge)


@register_training("diffusion")
class DiffusionTraining(DenoisingTraining):
    """Training of a diffusion model; defaults are the paper's (App. D) where it has one."""

    kind: Literal["diffusion"] = "diffusion"
    network: Network = Network()
    p_group: float = Field(default=0.0, ge=0, le=1)  #: and each attribute; not in the paper
    independence: float = Field(default=0.0, ge=0)  #: weight of groups adding up; from CoInD

    def check(self, config: TrainingConfig) -> None:
        """Refuse settings that do not fit together."""
        self.schedule.build()
        self.unet(config)
        if self.independence and len(config.attributes) == 1:
            raise ValueError("model.independence must be 0 for a single attribute")

    def unet(self, config: TrainingConfig) -> UNetConfig:
        """Return the shape of the U-Net."""
        from fcfg.diffusion.networks import UNetConfig

        width = len(config.attributes) * self.network.embedding
        shape = self.network.shape(config) | {"condition": width}
        return validate(UNetConfig, shape, "model.network")

    def denoiser(self, config: TrainingConfig, *, channels_last: bool = False) -> Denoiser:
        """Return a new denoiser."""
        from fcfg.diffusion.denoiser import Denoiser
        from fcfg.diffusion.embedder import AttributeEmbedder
        from fcfg.diffusion.networks import UNet
        from fcfg.training.models import seeded

        network = self.network
        with seeded(config):
            return Denoiser(
                UNet(
                    self.unet(config),
                    gradient_checkpointing=network.gradient_checkpointing,
                    channels_last=channels_last,
                ),
                AttributeEmbedder(config.space, network.embedding),
                self.schedule.build(),
                parameterisation=self.schedule.parameterisation,
            )

    def denoising(self, denoiser: Denoiser) -> DenoisingObjective:
        """Return the loss of a denoiser."""
        from fcfg.training.objectives import DenoisingObjective

        return DenoisingObjective(
            denoiser,
            p_null=self.p_null,
            p_group=self.p_group,
            independence=self.independence,
        )
