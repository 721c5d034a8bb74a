"""Pipelines around networks of diffusers and MONAI: how they are stored and built again."""

from __future__ import annotations

from typing import Any

import torch
from pydantic import Field
from torch import nn

from fcfg.causal.attributes import AttributeSpace
from fcfg.diffusion.conditioners import conditioner_of, described
from fcfg.diffusion.denoiser import Denoiser
from fcfg.diffusion.foreign import ForeignNetwork
from fcfg.pipeline.counterfactual import CounterfactualPipeline, DenoiserConfig
from fcfg.pipeline.modules import CodecConfig, Module, stored_codec
from fcfg.storage import register_kind
from fcfg.support.errors import check_is
from fcfg.support.hashing import digest_of_values


class ForeignPipelineConfig(DenoiserConfig[Denoiser]):
    """A pipeline around a network of another library."""

    kind: str = "foreign"
    network: Module
    conditioner: dict[str, Any] = Field(default_factory=dict)
    codec: CodecConfig | None = None

    @classmethod
    def describe(cls, image_model: Denoiser) -> dict[str, Any]:
        network, codec = _network_of(image_model), image_model.codec
        return super().describe(image_model) | {
            "network": Module.of(network.network, network.config, network.source),
            "conditioner": described(network.conditioner),
            "codec": None if codec is None else CodecConfig.of(codec),
        }

    @classmethod
    def networks(cls, image_model: Denoiser) -> dict[str, nn.Module]:
        network = _network_of(image_model)
        own = {"network": network.network} if network.source is None else {}
        parts = {"conditioner": network.conditioner, **own, **stored_codec(image_model.codec)}
        return {name: part for name, part in parts.items() if part.state_dict()}

    def build(self, space: AttributeSpace, network: nn.Module | None) -> Denoiser:
        module = self.network
        conditioner = conditioner_of(space, self.conditioner)
        foreign = ForeignNetwork(module.build(), conditioner, module.config, module.place)
        codec = None if self.codec is None else self.codec.build()
        made, predicted = (foreign, foreign.attributes, self.noising), self.parameterisation
        return Denoiser(*made, parameterisation=predicted, codec=codec)


@register_kind(ForeignPipelineConfig)
class ForeignPipeline(CounterfactualPipeline):
    """A pipeline around a network of diffusers or MONAI, see :mod:`fcfg.integrations.wrapping`."""

    kind = "foreign"

    @property
    def _fingerprint(self) -> str:
        """Digest of what the network is and of the first number of each of its tensors."""
        network = _network_of(self.denoiser)
        first = [each.detach().flatten()[0].double() for each in network.network.parameters()]
        return digest_of_values({"network": network.stored, "first": torch.stack(first).tolist()})


def _network_of(denoiser: Denoiser) -> ForeignNetwork:
    """Return the network of a denoiser; refuse one of another class."""
    network = denoiser.network
    check_is("denoiser, network", network, ForeignNetwork, "a ForeignNetwork", do="call wrap")
    assert isinstance(network, ForeignNetwork)
    return network
