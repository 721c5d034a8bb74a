"""CelebA in mosaics: 64 by 64 crops, a thousand in a file.

::

    celeba64/
      labels.csv        file,split,identity,in_celebahq,5_o_Clock_Shadow,...,Young
      mosaic_00.jpg     cells of 64 by 64, 40 in a row, row by row
      mosaic_01.jpg     ...

Row i of ``labels.csv`` is cell i mod 1000 of mosaic i div 1000. The format is this project's own
(verified on its files: 24,183 training, 2,993 validation and 2,824 test images, CelebA's official
partition, in which no identity lies in two splits). Say "CelebA, 64×64 crop" of results, not
CelebA-HQ.

Attributes are CelebA's forty, in lower case: ``smiling``, ``male``, ``young``, ``eyeglasses``, …

References:
    Deep learning face attributes in the wild (Liu et al., ICCV 2015).
    Data: https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html (non-commercial research only).
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from fcfg.causal.attributes import AttributeSpace
from fcfg.datasets.celeba import named_attributes
from fcfg.datasets.listing import Listing, Source
from fcfg.datasets.pixels import Pixels
from fcfg.datasets.tables import found, read_columns

_SOURCE = (
    "https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html, and pack it as fcfg.datasets.mosaic says"
)
_CELL, _ACROSS, _CELLS = 64, 40, 1000


class MosaicData(BaseModel):
    """Options of CelebA in mosaics."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal["celeba-mosaic"] = "celeba-mosaic"
    path: Path | None = None  #: the folder with labels.csv and the mosaics
    size: int = Field(default=64, ge=8, le=2048)  #: height and width of the images
    channels: Literal[1, 3] = 3  #: grey or RGB
    cache: Path | None = None  #: where decoded images are kept, see :mod:`fcfg.datasets.cache`

    @property
    def pixels(self) -> Pixels:
        """The shape of the images."""
        return Pixels(self.size, self.channels)


def listing(config: MosaicData, space: AttributeSpace) -> Listing:
    """Read ``labels.csv``, open no image."""
    labels = found(config.path, ["labels.csv"], _SOURCE)
    root = labels.parent
    table = read_columns(labels)
    count = len(table["file"]) if "file" in table else 0
    mosaics = [
        found(root, [f"mosaic_{number:02d}.jpg"], _SOURCE) for number in range(-(-count // _CELLS))
    ]
    kept = ("file", "split", "identity")
    columns = named_attributes(str(labels), table, space, kept)
    return Listing(
        root,
        tuple(_cell(mosaics, row) for row in range(count)),
        tuple(table["file"]),
        columns,
        tuple(table["split"]),
        tuple(table["identity"]),
    )


def _cell(mosaics: list[Path], row: int) -> Source:
    mosaic, cell = divmod(row, _CELLS)
    upper, left = (place * _CELL for place in divmod(cell, _ACROSS))
    return Source(mosaics[mosaic], box=(left, upper, left + _CELL, upper + _CELL))
