"""What the folder of a diffusion pipeline holds, of either kind."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import nn

from fcfg.causal.attributes import AttributeSpace
from fcfg.diffusion.denoiser import Denoiser
from fcfg.diffusion.embedder import AttributeEmbedder
from fcfg.diffusion.networks import (
    SemanticConfig,
    SemanticEncoder,
    SemanticUNet,
    UNet,
    UNetConfig,
)
from fcfg.diffusion.schedule import Kind, NoiseSchedule, Parameterisation
from fcfg.diffusion.semantic import SemanticDenoiser, SemanticEmbedder
from fcfg.model.thresholds import Thresholds
from fcfg.pipeline.calibration import Calibration
from fcfg.storage import ModelConfig

_RECORDS = {"calibration": Calibration, "thresholds": Thresholds}


class DiffusionConfig(ModelConfig[Denoiser]):
    """A diffusion pipeline."""

    version: ClassVar[int] = 1  #: read by older releases, which know no kinds
    records = _RECORDS

    kind: str = Field(default="diffusion", exclude=True)  #: not in the file
    network: UNetConfig | str  #: or the name of a user-defined class
    channels: int = Field(ge=1)
    stride: int = Field(ge=1)
    parameterisation: Parameterisation
    schedule: Kind
    steps: int  #: number T of times
    embedding: int = Field(ge=1)  #: width of an attribute's block

    @classmethod
    def describe(cls, image_model: Denoiser) -> dict[str, Any]:
        """Return what the denoiser is made of."""
        network = image_model.network
        is_known = type(network) is UNet
        return _noise_of(image_model) | {
            "network": network.config if is_known else type(network).__qualname__,
            "channels": image_model.channels,
            "stride": image_model.stride,
            "embedding": image_model.embedder.width,
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


class SemanticPipelineConfig(ModelConfig[SemanticDenoiser]):
    """A diffusion pipeline with semantic abduction (SA-DCG)."""

    records = _RECORDS

    network: SemanticConfig
    parameterisation: Parameterisation
    schedule: Kind
    steps: int  #: number T of times

    @classmethod
    def describe(cls, image_model: SemanticDenoiser) -> dict[str, Any]:
        """Return what the denoiser is made of."""
        return _noise_of(image_model) | {"network": image_model.encoder.config}

    @classmethod
    def networks(cls, image_model: SemanticDenoiser) -> dict[str, nn.Module]:
        """Return the network, the embedder and the encoder."""
        known = {"network": image_model.network, "embedder": image_model.embedder}
        return known | {"encoder": image_model.encoder}

    def build(self, space: AttributeSpace, network: nn.Module | None) -> SemanticDenoiser:
        """Return the denoiser, without weights."""
        schedule = NoiseSchedule(self.schedule, self.steps)
        with torch.device("meta"):
            return SemanticDenoiser(
                SemanticUNet(self.network),
                SemanticEmbedder(space, self.network.latent),
                schedule,
                SemanticEncoder(self.network),
                parameterisation=self.parameterisation,
            )


def _noise_of(denoiser: Denoiser) -> dict[str, Any]:
    """Return how images of a denoiser are noised."""
    return {
        "parameterisation": denoiser.parameterisation,
        "schedule": denoiser.schedule.kind,
        "steps": denoiser.schedule.steps,
    }
