"""The training of a diffusion model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, PositiveFloat, PositiveInt, field_validator, model_validator

from fcfg.pipeline.modules import CodecConfig
from fcfg.support.config_files import validate
from fcfg.training.kinds import Inputs, ModelTraining, Part, register_training
from fcfg.training.sections import Section

if TYPE_CHECKING:
    import torch
    from torch import nn

    from fcfg.datasets.base import AbstractData, OnProgress, Splits
    from fcfg.diffusion.denoiser import Denoiser
    from fcfg.diffusion.networks import OwnConfig
    from fcfg.diffusion.schedule import NoiseSchedule
    from fcfg.training.objectives import DenoisingObjective


class Schedule(Section):
    """The noise schedule, and what the network predicts."""

    kind: Literal["linear", "cosine", "scaled-linear", "flow"] = "linear"
    steps: PositiveInt = 1000  #: T
    parameterisation: Literal["noise", "image", "velocity", "flow", "reversed-flow"] = "noise"
    """By default 'flow' for a flow, and 'noise' otherwise."""
    shift: PositiveFloat = 1.0  #: of the times of a flow

    @model_validator(mode="before")
    @classmethod
    def _flows_predict_flows(cls, values: object) -> object:
        if isinstance(values, Mapping) and values.get("kind") == "flow":
            return {"parameterisation": "flow", **values}
        return values

    def build(self) -> NoiseSchedule:
        """Return the noise schedule."""
        from fcfg.diffusion.schedule import NoiseSchedule
        from fcfg.diffusion.table import check_parameterisation

        check_parameterisation(self.parameterisation, is_flow=self.kind == "flow")
        return NoiseSchedule(self.kind, self.steps, self.shift)


class Times(Section):
    """How often each time is seen."""

    spread: Literal["uniform", "logit-normal"] = "uniform"
    shift: PositiveFloat = 1.0  #: above 1, noisy times are seen more often


class DenoisingNetwork(Section):
    """What all U-Nets have; image size, channels and condition width follow from the data."""

    base: PositiveInt = 32  #: channels of the first level
    multipliers: tuple[PositiveInt, ...] = (1, 2, 4)  #: factors of the base, one per level
    attention: tuple[int, ...] = ()  #: image sizes with attention; the middle always has it
    blocks: PositiveInt = 2  #: residual blocks per level
    dropout: float = Field(default=0.0, ge=0, lt=1)  #: inside residual blocks
    gradient_checkpointing: bool = False  #: saves memory, costs about a third more time

    def shape(self, inputs: Inputs, condition: int) -> dict[str, Any]:
        """Return what the U-Net is made of."""
        own = self.model_dump(exclude={"kind", "embedding", "gradient_checkpointing"})
        return own | inputs.pixels | {"condition": condition}

    def layout(self, inputs: Inputs) -> dict[str, bool]:
        """Return how the U-Net computes."""
        saves = self.gradient_checkpointing
        return {"gradient_checkpointing": saves, "channels_last": inputs.channels_last}


class Network(DenoisingNetwork):
    """The U-Net."""

    kind: Literal["unet"] = "unet"
    head_channels: PositiveInt = 64  #: channels of an attention head
    embedding: PositiveInt = 32  #: condition width per attribute
    patch: PositiveInt = 1  #: side of the squares of pixels that the first level takes as one

    def config(self, inputs: Inputs, condition: int) -> OwnConfig:
        """Return the shape of the network."""
        from fcfg.diffusion.networks import UNetConfig

        return validate(UNetConfig, self.shape(inputs, condition), "model.network")


class Transformer(Section):
    """The transformer over squares of pixels."""

    kind: Literal["dit"]
    patch: PositiveInt = 2  #: side of the squares
    width: PositiveInt = 256  #: numbers for each square
    depth: PositiveInt = 8  #: blocks
    head_channels: PositiveInt = 64  #: numbers of an attention head
    embedding: PositiveInt = 32  #: condition width per attribute
    gradient_checkpointing: bool = False  #: saves memory, costs about a third more time

    def config(self, inputs: Inputs, condition: int) -> OwnConfig:
        """Return the shape of the network."""
        from fcfg.diffusion.networks import DiTConfig

        own = self.model_dump(exclude={"embedding", "gradient_checkpointing"})
        own |= inputs.pixels | {"condition": condition}
        return validate(DiTConfig, own, "model.network")

    def layout(self, inputs: Inputs) -> dict[str, bool]:
        """Return how the network computes."""
        return {"gradient_checkpointing": self.gradient_checkpointing}


class DenoisingTraining(ModelTraining):
    """Training of a denoiser."""

    terms: ClassVar[set[str]]  #: fields that are options of the loss

    ema: float | None = Field(default=0.9999, ge=0, lt=1)
    p_null: float = Field(default=0.5, ge=0, le=1)  #: probability of dropping the whole condition
    schedule: Schedule = Schedule()
    times: Times = Times()

    @property
    def parts(self) -> tuple[Part, ...]:
        return (Part("diffusion", "model", self, self),)

    def beside(self, network: Denoiser) -> Mapping[str, nn.Module]:
        return {"embedder": network.embedder}

    def objective(self, network: Denoiser) -> DenoisingObjective:
        from fcfg.diffusion.times import TrainingTimes
        from fcfg.training.objectives import DenoisingObjective

        times, terms = TrainingTimes(**vars(self.times)), self.model_dump(include=self.terms)
        return DenoisingObjective(network, times=times, **terms)


class LatentTraining(DenoisingTraining):
    """Training of a denoiser in pixels, or in the latents of a given autoencoder."""

    codec: CodecConfig | None = None  #: autoencoder; its weights are in a place of their own

    def seen(self, inputs: Inputs) -> Inputs:
        from fcfg.training.latents import latent_inputs

        return inputs if self.codec is None else latent_inputs(inputs, self.codec)

    def encoded(
        self, splits: Splits, data: AbstractData, device: torch.device, on_progress: OnProgress
    ) -> Splits:
        from fcfg.training.latents import encoded

        if self.codec is None:
            return splits
        return encoded(splits, self.codec, data, device, on_progress)

    def finished(self, network: Denoiser) -> Denoiser:
        from fcfg.training.latents import codec_to_publish

        return network if self.codec is None else network.over(codec_to_publish(self.codec))


@register_training("diffusion")
class DiffusionTraining(LatentTraining):
    """Training of a diffusion model; defaults are the paper's (App. D) where it has one."""

    terms: ClassVar = {"p_null", "p_group", "independence"}

    kind: Literal["diffusion"] = "diffusion"
    network: Network | Transformer = Field(default=Network(), discriminator="kind")
    p_group: float = Field(default=0.0, ge=0, le=1)  #: and each attribute; not in the paper
    independence: float = Field(default=0.0, ge=0)  #: weight of groups adding up; from CoInD

    @field_validator("network", mode="before")
    @classmethod
    def _is_a_unet_by_default(cls, network: object) -> object:
        return {"kind": "unet", **network} if isinstance(network, Mapping) else network

    def shape(self, inputs: Inputs) -> OwnConfig:
        if self.independence and len(inputs.space) == 1:
            raise ValueError("model.independence must be 0 for a single attribute")
        self.schedule.build()
        inputs = self.seen(inputs)
        return self.network.config(inputs, len(inputs.space) * self.network.embedding)

    def build(self, inputs: Inputs) -> Denoiser:
        from fcfg.diffusion.denoiser import Denoiser
        from fcfg.diffusion.embedder import AttributeEmbedder
        from fcfg.diffusion.networks import build_network

        with inputs.seeded():
            return Denoiser(
                build_network(self.shape(inputs), **self.network.layout(inputs)),
                AttributeEmbedder(inputs.space, self.network.embedding),
                self.schedule.build(),
                parameterisation=self.schedule.parameterisation,
            )
