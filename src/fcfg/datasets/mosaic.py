"""CelebA in mosaics: 64 by 64 crops, a thousand in a file.

::

    celeba64/
      labels.csv        file,split,identity,in_celebahq,5_o_Clock_Shadow,...,Young
      mosaic_00.jpg     cells of 64 by 64, 40 in a row, row by row
      mosaic_01.jpg     ...

Row i of ``labels.csv`` is cell i mod 1000 of mosaic i div 1000. The format is this project's own
(verified on its files: 24,183 training, 2,993 validation and 2,824 test images, CelebA's official
partition, in which no identity is in two splits). Call the data "CelebA, 64×64 crop" in results,
not CelebA-HQ.

Attributes are CelebA's forty, in lower case: ``smiling``, ``male``, ``young``, ``eyeglasses``, …

References:
    Deep learning face attributes in the wild (Liu et al., ICCV 2015).
    Data: https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html (non-commercial research only).
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from fcfg.causal.attributes import AttributeSpace
from fcfg.causal.graph import CausalGraph
from fcfg.datasets.base import AbstractDiskData, Listing, find_file
from fcfg.datasets.celeba import celeba_attributes, celeba_columns
from fcfg.datasets.pixels import Source
from fcfg.support.csv_files import read_columns

_SOURCE = (
    "https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html, and pack it as fcfg.datasets.mosaic says"
)
_CELL, _ACROSS, _CELLS = 64, 40, 1000


class MosaicData(AbstractDiskData, frozen=True):
    """Options of CelebA in mosaics; ``path`` has labels.csv and the mosaics."""

    format: Literal["celeba-mosaic"] = "celeba-mosaic"

    def attributes(self) -> tuple[AttributeSpace, CausalGraph]:
        """Smiling, male, young, as for CelebA-HQ."""
        return celeba_attributes()

    def listing(self, space: AttributeSpace) -> Listing:
        """Read ``labels.csv`` without opening an image."""
        labels = find_file(self.path, ["labels.csv"], _SOURCE)
        table = read_columns(labels)
        count = len(table["file"]) if "file" in table else 0
        mosaics = [
            find_file(self.path, [f"mosaic_{number:02d}.jpg"], _SOURCE)
            for number in range(-(-count // _CELLS))
        ]
        columns = celeba_columns(str(labels), table, space, ("file", "split", "identity"))
        return Listing(
            labels.parent,
            tuple(_cell(mosaics, row) for row in range(count)),
            tuple(table["file"]),
            columns,
            tuple(table["split"]),
            tuple(table["identity"]),
        )


def _cell(mosaics: list[Path], row: int) -> Source:
    mosaic, cell = divmod(row, _CELLS)
    upper, left = (index * _CELL for index in divmod(cell, _ACROSS))
    return Source(mosaics[mosaic], box=(left, upper, left + _CELL, upper + _CELL))
