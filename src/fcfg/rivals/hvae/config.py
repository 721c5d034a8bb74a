"""The shape of a hierarchical VAE, and those of the published models.

A text gives the stages of the encoder, from the image down to one pixel, and another those of the
decoder, back up: ``32b3d2`` is three blocks at 32 by 32 pixels and one that halves them, ``16b4``
is four blocks at 16 by 16.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import BaseModel, Field, model_validator

Width = Annotated[int, Field(ge=4, le=2**14)]
_STAGE = re.compile(r"(\d{1,4})b([1-9]\d?)(?:d(\d{1,4}))?", re.ASCII)


class Stage(NamedTuple):
    """Blocks at one image size."""

    size: int  #: height and width
    width: int  #: channels
    blocks: int
    pool: int  #: factor by which the encoder shrinks the image after these blocks; 1 at the end


class HVAEConfig(BaseModel, frozen=True, extra="forbid"):
    """Shape of a :class:`~fcfg.rivals.hvae.network.HVAE`."""

    size: int = Field(default=32, ge=2, le=4096)  #: height and width of the images
    channels: int = Field(default=3, ge=1, le=2**10)  #: channels of the image
    parents: int = Field(default=3, ge=1, le=2**10)  #: numbers that encode the attributes
    encoder: str = "32b3d2,16b3d2,8b3d2,4b3d4,1b4"
    decoder: str = "1b4,4b4,8b4,16b4,32b4"
    widths: tuple[Width, ...] = (16, 32, 64, 128, 256)  #: channels of each stage of the encoder
    latent: int = Field(default=16, ge=1, le=2**10)  #: channels of a latent
    largest_latent: int | None = Field(default=None, ge=1)
    """Largest size with latents; by default there are latents at all sizes."""
    prior: Literal["conditional", "exogenous"] = "conditional"
    """Whether the prior of the latents knows the attributes."""
    dropped: tuple[int, ...] = ()
    """Positions of encoded numbers that training hides from the prior or from the decoder."""

    @model_validator(mode="after")
    def _can_be_computed(self) -> Self:
        stages = self.stages("encoder")
        sizes = [stage.size for stage in stages]
        shrunk = [stage.size / stage.pool for stage in stages]
        if sizes[0] != self.size or shrunk != [*sizes[1:], 1]:
            raise ValueError(
                f"encoder '{self.encoder}' must lead from {self.size} to 1 pixel, each stage from "
                "its size to that of the next"
            )
        upward = self.stages("decoder")
        if [stage.size for stage in upward] != sizes[::-1] or any(s.pool > 1 for s in upward):
            raise ValueError(
                f"decoder '{self.decoder}' must have the sizes of the encoder, reversed: {sizes}"
            )
        if not set(self.dropped) <= set(range(self.parents)):
            raise ValueError(f"dropped {self.dropped} must be among the {self.parents} parents")
        if self.dropped and self.prior == "exogenous":
            raise ValueError("dropped must be empty, since an exogenous prior has no attributes")
        return self

    def stages(self, part: Literal["encoder", "decoder"]) -> list[Stage]:
        """Return the stages of the encoder or the decoder, in the order of its text."""
        text: str = getattr(self, part)
        widths = self.widths if part == "encoder" else self.widths[::-1]
        found = [_STAGE.fullmatch(piece) for piece in text.split(",")]
        if len(found) != len(widths) or None in found:
            raise ValueError(
                f"{part} '{text}' must have {len(widths)} stages, one for each width, such as "
                "32b3d2 or 1b4, with commas between them"
            )
        numbers = [match.groups(default="1") for match in found if match is not None]
        return [
            Stage(int(size), width, int(blocks), int(pool))
            for (size, blocks, pool), width in zip(numbers, widths, strict=True)
        ]


CONFIGS = {
    "mimic-192": HVAEConfig(  # 7.98 M parameters
        size=192,
        channels=1,
        parents=6,
        encoder="192b1d2,96b3d2,48b7d2,24b11d2,12b7d2,6b3d6,1b2",
        decoder="1b2,6b4,12b8,24b12,48b8,96b4,192b2",
        widths=(32, 64, 96, 128, 160, 192, 512),
        largest_latent=96,
        prior="exogenous",
    ),
    "celeba-64": HVAEConfig(  # 30.7 M
        size=64,
        parents=2,
        encoder="64b3d2,32b3d2,16b3d2,8b3d2,4b3d4,1b4",
        decoder="1b4,4b4,8b4,16b4,32b4,64b4",
        widths=(32, 64, 128, 256, 512, 1024),
    ),
    "morphomnist-32": HVAEConfig(  # 2.05 M; only the ten numbers of the digit are dropped
        channels=1, parents=12, dropped=tuple(range(2, 12))
    ),
}
