"""What the folder of a diffusion pipeline holds."""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

import torch
from pydantic import Field
from torch import nn

from fcfg.causal.attributes import AttributeSpace
from fcfg.diffusion.denoiser import Denoiser
from fcfg.diffusion.embedder import AttributeEmbedder
from fcfg.diffusion.networks import UNet, UNetConfig
from fcfg.diffusion.schedule import Kind, NoiseSchedule, Parameterisation
from fcfg.model.thresholds import Thresholds
from fcfg.pipeline.calibration import Calibration
from fcfg.storage import ModelConfig
from fcfg.support.errors import check_is

DenoiserT = TypeVar("DenoiserT", bound=Denoiser)


class DenoiserConfig(ModelConfig[DenoiserT]):
    """What folders of all pipelines hold: how images are noised, and two records."""

    records: ClassVar = {"calibration": Calibration, "thresholds": Thresholds}

    parameterisation: Parameterisation
    schedule: Kind
    steps: int  #: number T of times

    @classmethod
    def describe(cls, image_model: DenoiserT) -> dict[str, Any]:
        """Return how images of a denoiser are noised."""
        return {
            "parameterisation": image_model.parameterisation,
            "schedule": image_model.schedule.kind,
            "steps": image_model.schedule.steps,
        }


class DiffusionConfig(DenoiserConfig[Denoiser]):
    """A diffusion pipeline."""

    version: ClassVar[int] = 1  #: read by older releases, which know no kinds

    kind: str = Field(default="diffusion", exclude=True)  #: not in the file
    network: UNetConfig | str  #: or the name of a user-defined class
    channels: int = Field(ge=1)
    stride: int = Field(ge=1)
    embedding: int = Field(ge=1)  #: width of an attribute's block

    @classmethod
    def describe(cls, image_model: Denoiser) -> dict[str, Any]:
        """Return what the denoiser is made of; refuse an embedder that cannot be built again."""
        network, embedder = image_model.network, image_model.embedder
        do = "save a model of your own kind, see fcfg.storage.register_kind"
        check_is("denoiser, embedder", embedder, AttributeEmbedder, "an AttributeEmbedder", do=do)
        is_known = type(network) is UNet
        return super().describe(image_model) | {
            "network": network.config if is_known else type(network).__qualname__,
            "channels": image_model.channels,
            "stride": image_model.stride,
            "embedding": embedder.width,
        }

    @classmethod
    def networks(cls, image_model: Denoiser) -> dict[str, nn.Module]:
        """Return the network and the embedder."""
        return {"network": image_model.network, "embedder": image_model.embedder}

    def build(self, space: AttributeSpace, network: nn.Module | None) -> Denoiser:
        """Return the denoiser, without weights."""
        with torch.device("meta"):
            embedder = AttributeEmbedder(space, self.embedding)
            if isinstance(self.network, UNetConfig):
                network = UNet(self.network)
        assert network is not None, "load asks for the network of a user-defined class"
        return Denoiser(
            network,
            embedder,
            NoiseSchedule(self.schedule, self.steps),
            channels=self.channels,
            stride=self.stride,
            parameterisation=self.parameterisation,
        )
