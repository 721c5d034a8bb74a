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

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from fcfg.causal.attributes import AttributeSpace
from fcfg.causal.graph import CausalGraph
from fcfg.datasets.base import find_file
from fcfg.datasets.celeba import celeba_attributes, celeba_values
from fcfg.datasets.pixels import Source
from fcfg.datasets.tables import AbstractTableData, Case, LabelTable

_SOURCE = (
    "https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html, and pack it as fcfg.datasets.mosaic says"
)
_LABELS = LabelTable(("labels.csv",), _SOURCE, ("file", "split", "identity"), others=True)
_CELL, _ACROSS, _CELLS = 64, 40, 1000


class MosaicData(AbstractTableData, frozen=True):
    """Options of CelebA in mosaics; ``path`` has labels.csv and the mosaics."""

    format: Literal["celeba-mosaic"] = "celeba-mosaic"

    def attributes(self) -> tuple[AttributeSpace, CausalGraph]:
        """Smiling, male, young, as for CelebA-HQ."""
        return celeba_attributes()

    def cases(self, root: Path, space: AttributeSpace) -> Iterator[Case]:
        """Read ``labels.csv`` without opening an image."""
        mosaics: list[Path] = []
        for number, row in enumerate(_LABELS.rows(root)):
            mosaic, cell = divmod(number, _CELLS)
            if mosaic == len(mosaics):
                mosaics.append(find_file(root, [f"mosaic_{mosaic:02d}.jpg"], _SOURCE))
            upper, left = (index * _CELL for index in divmod(cell, _ACROSS))
            source = Source(mosaics[mosaic], box=(left, upper, left + _CELL, upper + _CELL))
            values = celeba_values("labels.csv", row, space)
            yield Case(source, row["file"], values, row["identity"], row["split"])
