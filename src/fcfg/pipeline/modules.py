"""Modules of diffusers and MONAI as configurations and folders describe them.

Nothing here needs torch before it is built, so that configurations of training can hold it, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

from pydantic import BaseModel

from fcfg.support.errors import check_is

if TYPE_CHECKING:
    from torch import nn

    from fcfg.diffusion.codec import AbstractCodec, Autoencoder

Precision: TypeAlias = Literal["float64", "float32", "float16", "bfloat16"]


class Module(BaseModel, frozen=True, extra="forbid"):
    """A module of another library: its class, its arguments, and maybe a place of its weights."""

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
        from fcfg.diffusion.libraries import check_saved_whole, class_name, config_of

        check_saved_whole(module)
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
        import torch

        from fcfg.diffusion.libraries import build_network, read_network

        if self.source is None:
            module = build_network(self.name, self.config)
        else:
            place = self.source, self.revision, self.subfolder
            module = read_network(self.name, self.config, *place)
        return module if self.dtype == "float32" else module.to(getattr(torch, self.dtype))


class CodecConfig(BaseModel, frozen=True, extra="forbid"):
    """An :class:`~fcfg.diffusion.codec.Autoencoder`."""

    module: Module
    scale: float = 1.0
    shift: float = 0.0
    low: float = -1.0

    @classmethod
    def of(cls, codec: AbstractCodec) -> Self:
        """Describe a codec; refuse one of another class."""
        from fcfg.diffusion.codec import Autoencoder

        do = "save a model of your own kind, see fcfg.storage.register_kind"
        check_is("codec", codec, Autoencoder, "an Autoencoder, which can be built again", do=do)
        assert isinstance(codec, Autoencoder)
        module = Module.of(codec.network, codec.config, codec.source)
        return cls(module=module, scale=codec.scale, shift=codec.shift, low=codec.low)

    def build(self) -> Autoencoder:
        """Return the codec."""
        from fcfg.diffusion.codec import Autoencoder

        scaling = {"scale": self.scale, "shift": self.shift, "low": self.low}
        module = self.module
        return Autoencoder(module.build(), module.config, source=module.place, **scaling)


def stored_codec(codec: AbstractCodec | None) -> dict[str, nn.Module]:
    """Return the network of a codec, by its part, if its weights are in no other place."""
    from fcfg.diffusion.codec import Autoencoder

    if not isinstance(codec, Autoencoder) or codec.source is not None:
        return {}
    return {"codec": codec.network}
