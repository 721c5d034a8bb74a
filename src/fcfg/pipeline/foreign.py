"""Pipelines around networks of diffusers and MONAI: how they are stored and built again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self, TypeAlias

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import nn

from fcfg.causal.attributes import AttributeSpace
from fcfg.diffusion.codec import AbstractCodec, Autoencoder
from fcfg.diffusion.conditioners import conditioner_of
from fcfg.diffusion.denoiser import Denoiser
from fcfg.diffusion.foreign import ForeignNetwork, foreign_denoiser
from fcfg.diffusion.libraries import build_network, class_name, config_of, read_network
from fcfg.diffusion.schedule import Kind, NoiseSchedule
from fcfg.diffusion.table import Table
from fcfg.pipeline.counterfactual import CounterfactualPipeline, DenoiserConfig
from fcfg.storage import register_kind
from fcfg.support.errors import check_is
from fcfg.support.hashing import digest_of_values

Precision: TypeAlias = Literal["float64", "float32", "float16", "bfloat16"]


class Module(BaseModel):
    """A module of another library: its class, its arguments, and maybe a place of its weights."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str  #: library and class
    config: dict[str, Any]  #: arguments of the class
    dtype: Precision = "float32"
    source: str | None = None  #: folder or hub repository that holds the weights
    revision: str | None = None
    subfolder: str = ""

    @classmethod
    def of(
        cls, module: nn.Module, config: Mapping[str, Any], source: Mapping[str, str] | None
    ) -> Self:
        """Describe a module."""
        dtype = str(next(module.parameters()).dtype).removeprefix("torch.")
        own = {"name": class_name(module), "config": config_of(module, config), "dtype": dtype}
        return cls.model_validate(own | dict(source or {}))

    @property
    def place(self) -> dict[str, str] | None:
        """Where the weights are, if they are not stored."""
        if self.source is None:
            return None
        named = {"source": self.source, "revision": self.revision, "subfolder": self.subfolder}
        return {name: value for name, value in named.items() if value}

    def build(self) -> nn.Module:
        """Return the module; with its weights, if they are in a place of their own."""
        if self.source is None:
            module = build_network(self.name, self.config)
        else:
            module = read_network(self.name, self.source, self.revision, self.subfolder)
        return module if self.dtype == "float32" else module.to(getattr(torch, self.dtype))


class CodecConfig(BaseModel):
    """An :class:`~fcfg.diffusion.codec.Autoencoder`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    module: Module
    scale: float
    shift: float
    low: float

    @classmethod
    def of(cls, codec: AbstractCodec) -> Self:
        """Describe a codec; refuse one of another class."""
        do = "save a model of your own kind, see fcfg.storage.register_kind"
        check_is("codec", codec, Autoencoder, "an Autoencoder, which can be built again", do=do)
        assert isinstance(codec, Autoencoder)
        module = Module.of(codec.network, codec.config, codec.source)
        return cls(module=module, scale=codec.scale, shift=codec.shift, low=codec.low)

    def build(self) -> Autoencoder:
        """Return the codec."""
        scaling = {"scale": self.scale, "shift": self.shift, "low": self.low}
        module = self.module
        return Autoencoder(module.build(), module.config, source=module.place, **scaling)


class ForeignPipelineConfig(DenoiserConfig[Denoiser]):
    """A pipeline around a network of another library."""

    kind: str = "foreign"
    schedule: Kind | Table  # pyright: ignore[reportIncompatibleVariableOverride] # or a table
    network: Module
    conditioner: dict[str, Any] = Field(default_factory=dict)
    codec: CodecConfig | None = None
    newer: ClassVar = frozenset({"codec"})

    @classmethod
    def describe(cls, image_model: Denoiser) -> dict[str, Any]:
        """Return what the denoiser is made of."""
        network, schedule, codec = (
            _network_of(image_model),
            image_model.schedule,
            image_model.codec,
        )
        return {
            "parameterisation": image_model.parameterisation,
            "schedule": schedule.kind,
            "steps": schedule.steps,
            "shift": schedule.shift,
            "network": Module.of(network.network, network.config, network.source),
            "conditioner": network.conditioner.to_config(),
            "codec": None if codec is None else CodecConfig.of(codec),
        }

    @classmethod
    def networks(cls, image_model: Denoiser) -> dict[str, nn.Module]:
        """Return the modules whose weights are in no other place."""
        network, codec = _network_of(image_model), image_model.codec
        parts: dict[str, nn.Module] = {"conditioner": network.conditioner}
        if network.source is None:
            parts["network"] = network.network
        if isinstance(codec, Autoencoder) and codec.source is None:
            parts["codec"] = codec.network
        return {name: part for name, part in parts.items() if part.state_dict()}

    def build(self, space: AttributeSpace, network: nn.Module | None) -> Denoiser:
        """Return the denoiser; weights that were stored are read later."""
        module = self.network
        conditioner = conditioner_of(space, self.conditioner)
        foreign = ForeignNetwork(module.build(), conditioner, module.config, module.place)
        schedule = NoiseSchedule(self.schedule, self.steps, self.shift)
        codec = None if self.codec is None else self.codec.build()
        return foreign_denoiser(foreign, schedule, codec)


@register_kind(ForeignPipelineConfig)
class ForeignPipeline(CounterfactualPipeline):
    """A pipeline around a network of diffusers or MONAI, see :mod:`fcfg.integrations.wrapping`."""

    kind = "foreign"

    @property
    def _fingerprint(self) -> str:
        """Digest of what the network is and of its first numbers, which are read quickly."""
        network = _network_of(self.denoiser)
        first = next(network.network.parameters()).detach().flatten()[:1000]
        return digest_of_values({"network": network.stored, "first": first.double().tolist()})


def _network_of(denoiser: Denoiser) -> ForeignNetwork:
    """Return the network of a denoiser; refuse one of another class."""
    network = denoiser.network
    check_is("denoiser, network", network, ForeignNetwork, "a ForeignNetwork", do="call wrap")
    assert isinstance(network, ForeignNetwork)
    return network
