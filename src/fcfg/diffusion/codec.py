r"""Codecs: between pixels and the latents that a model guides.

.. math:: \tilde x = x + D(\tilde z) - D(z), \qquad z = E(x)

The answer adds what changes in decoded latents to the image itself. What a codec cannot draw
again is therefore kept, and an image whose attributes stay as they are returns exactly.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

from torch import Tensor, nn

from fcfg.support.errors import InputError


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
        self.network: Any = network
        self.config, self.source = dict(config), source
        self.scale, self.shift, self.low = scale, shift, low
        self.channels, self.latent_channels, self.factor = CodecShape.of(config)

    def encode(self, images: Tensor) -> Tensor:
        """Return the mean of the latents."""
        weight = next(self.network.parameters())
        span = (1 - self.low) / 2
        pixels = (images.to(weight.dtype) + 1) * span + self.low
        return (_mean(self.network.encode(pixels)) - self.shift).to(images.dtype) * self.scale

    def decode(self, latents: Tensor) -> Tensor:
        """Return the images of latents."""
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
        channels = int(config.get("in_channels", 3))
        widths = config.get("block_out_channels") or config.get("channels")
        factor = 2 ** (len(widths) - 1) if widths else 1
        return cls(channels, int(config.get("latent_channels", channels)), factor)


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
