r"""Codecs: between pixels and the latents that a model guides.

.. math:: \tilde x = x + D(\tilde z) - D(z), \qquad z = E(x)

The answer adds what changes in decoded latents to the image itself. What a codec cannot draw
again is therefore kept, and an image whose attributes stay as they are returns exactly.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from numbers import Real
from typing import Any, NamedTuple, Self

from torch import Tensor, nn

from fcfg.support.errors import InputError, check_integer, check_is


class AbstractCodec(nn.Module, ABC):
    """Turns images in [-1, 1] into latents and back, without randomness."""

    channels: int  #: of the images
    latent_channels: int
    factor: int  #: pixels for one position of the latents, along each axis

    @abstractmethod
    def encode(self, images: Tensor) -> Tensor:
        """Return the latents of images."""

    @abstractmethod
    def decode(self, latents: Tensor) -> Tensor:
        """Return the images of latents."""


class Autoencoder(AbstractCodec):
    r"""An autoencoder of diffusers or MONAI: latents are (mean − shift) · scale.

    Args:
        network: Module with ``encode`` and ``decode``.
        config: Arguments it was built from.
        scale: Factor of latents; 0.18215 for Stable Diffusion.
        shift: Number that is subtracted from latents first.
        low: Smallest value of its images: -1, or 0 for many networks of MONAI.
        source: Place of its weights, as of a :class:`~fcfg.diffusion.foreign.ForeignNetwork`.
    """

    def __init__(
        self,
        network: nn.Module,
        config: Mapping[str, Any],
        *,
        scale: float = 1.0,
        shift: float = 0.0,
        low: float = -1.0,
        source: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__()
        check_is("codec, network", network, nn.Module, "an autoencoder of diffusers or MONAI")
        check_scaling(scale, shift, low)
        self.channels, self.latent_channels, self.factor = CodecShape.of(config)
        self.network: Any = network
        self.config, self.source = dict(config), source
        self.scale, self.shift, self.low = scale, shift, low

    def encode(self, images: Tensor) -> Tensor:
        weight = next(self.network.parameters())
        span = (1 - self.low) / 2
        pixels = (images.to(weight.dtype) + 1) * span + self.low
        return (_mean(self.network.encode(pixels)) - self.shift).to(images.dtype) * self.scale

    def decode(self, latents: Tensor) -> Tensor:
        weight = next(self.network.parameters())
        output = self.network.decode((latents / self.scale + self.shift).to(weight.dtype))
        output = getattr(output, "sample", output)
        return ((output - self.low) * 2 / (1 - self.low) - 1).to(latents.dtype)


class CodecShape(NamedTuple):
    """What a codec makes of the shape of an image.

    >>> CodecShape.of({"in_channels": 3, "latent_channels": 4, "block_out_channels": [8, 8]})
    CodecShape(channels=3, latent_channels=4, factor=2)
    """

    channels: int  #: of the images
    latent_channels: int
    factor: int  #: pixels for one position of the latents, along each axis

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Self:
        """Read the shape from the arguments that a codec is built from."""
        check_is("codec, config", config, Mapping, "the arguments that it was built from")
        widths = config.get("block_out_channels") or config.get("channels") or [1]
        check_is("codec, config, widths", widths, (list, tuple), "a number for each of its levels")
        do, channels = "correct its configuration", config.get("in_channels", 3)
        latent, about = config.get("latent_channels", channels), "codec, config"
        channels = check_integer(f"{about}, in_channels", channels, 1, 1000, do)
        latent = check_integer(f"{about}, latent_channels", latent, 1, 10**6, do)
        return cls(channels, latent, 2 ** (len(widths) - 1))


def check_scaling(scale: float, shift: float, low: float) -> None:
    """Refuse numbers from which no image comes back."""
    numbers = {"scale": scale, "shift": shift, "low": low}
    for name, number in numbers.items():
        check_is(f"codec, {name}", number, Real, "a number")
    if not all(map(math.isfinite, numbers.values())) or scale == 0 or low >= 1:
        raise InputError(
            "codec, scale, shift and low",
            expected="finite numbers, a scale other than 0 and a low below 1",
            got=list(numbers.values()),
            do="see the configuration of the autoencoder; 0.18215, 0 and -1 for Stable Diffusion",
        )


def _mean(encoded: Any) -> Tensor:
    """Return the mean of what an encoder returns: a distribution, latents, or mean and spread."""
    if isinstance(encoded, tuple):
        return encoded[0]
    distribution = getattr(encoded, "latent_dist", None)
    if distribution is not None:
        return distribution.mode()
    latents = getattr(encoded, "latents", encoded)
    if not isinstance(latents, Tensor):
        raise InputError(
            "codec",
            expected="an encoder that returns a distribution, latents, or mean and spread",
            got=type(encoded).__name__,
            do="pass an AutoencoderKL of diffusers or MONAI, or a codec of your own",
        )
    return latents
