"""The training of a network of diffusers or MONAI, from its configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, PositiveInt

from fcfg.training.diffusion import LatentTraining
from fcfg.training.kinds import Inputs, register_training
from fcfg.training.sections import Section

if TYPE_CHECKING:
    from torch import nn

    from fcfg.diffusion.denoiser import Denoiser
    from fcfg.diffusion.foreign import ForeignNetwork


class LibraryNetwork(Section):
    """A network by its class, with new weights."""

    name: str  #: library and class, such as 'monai.DiffusionModelUNet'
    config: dict[str, Any] = Field(default_factory=dict)  #: arguments of the class


class Tokens(Section):
    """A learned token for each attribute, which the network attends to."""

    kind: Literal["tokens"] = "tokens"
    width: PositiveInt = 64  #: of a token
    tokens: str = "encoder_hidden_states"  #: argument of the network; 'context' for MONAI
    pooled: str | None = None  #: argument that takes their mean, if the network has one


@register_training("foreign")
class ForeignTraining(LatentTraining):
    """Training of a network of diffusers or MONAI."""

    terms: ClassVar = {"p_null", "p_group"}

    kind: Literal["foreign"]
    network: LibraryNetwork
    conditioner: Tokens = Tokens()
    p_group: float = Field(default=0.0, ge=0, le=1)  #: probability of dropping each attribute

    def shape(self, inputs: Inputs) -> LibraryNetwork:
        import torch

        self.schedule.build()
        self.seen(inputs)
        with torch.device("meta"):
            self._network(inputs)
        return self.network

    def build(self, inputs: Inputs) -> Denoiser:
        from fcfg.diffusion.denoiser import Denoiser

        schedule, predicted = self.schedule.build(), self.schedule.parameterisation
        with inputs.seeded():
            network = self._network(inputs)
        return Denoiser(network, network.attributes, schedule, parameterisation=predicted)

    def beside(self, network: Denoiser) -> Mapping[str, nn.Module]:
        return {"conditioner": network.network.get_submodule("conditioner")}

    def _network(self, inputs: Inputs) -> ForeignNetwork:
        from fcfg.diffusion.conditioners import conditioner_of
        from fcfg.diffusion.foreign import ForeignNetwork
        from fcfg.diffusion.libraries import build_network

        module = build_network(self.network.name, self.network.config)
        conditioner = conditioner_of(inputs.space, self.conditioner.model_dump())
        return ForeignNetwork(module, conditioner, self.network.config)
