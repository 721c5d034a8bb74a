"""NIH ChestX-ray14, frontal chest X-rays (Wang et al., 2017), reduced to one archive.

``docs/data.md`` has its layout and attributes. Column names are those of this reduced copy
(verified on it: 4,999 images of 1,335 patients), not of the official table. The split is by
patient, drawn at random from a seed: the official test list is for all 112,120 images, and these
are a part.

References:
    ChestX-ray8 (Wang et al., CVPR 2017). Data: https://nihcc.app.box.com/v/ChestXray-NIHCC;
    please acknowledge the NIH Clinical Center.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from fcfg.causal.attributes import AttributeSpace
from fcfg.datasets.base import Case, Channels
from fcfg.datasets.columns import LabelTable, find_file
from fcfg.datasets.loading import AbstractDrawnData
from fcfg.datasets.pixels import Source

_SOURCE = "https://nihcc.app.box.com/v/ChestXray-NIHCC (reduced to 128 by 128 pixels)"
_LABELS = LabelTable(("labels.csv",), _SOURCE, ("image", "patient_id"))
_CODES = {"sex": {"F": "0", "M": "1"}, "view": {"PA": "0", "AP": "1"}}


class NIHData(AbstractDrawnData, frozen=True):
    """Options of NIH ChestX-ray14; ``path`` has labels.csv and nih_128_jpg.zip."""

    format: Literal["nih-cxr14"] = "nih-cxr14"
    channels: Channels = 1  #: 1 for grey, 3 for RGB

    def cases(self, root: Path, space: AttributeSpace) -> Iterator[Case]:
        archive = find_file(root, ["nih_128_jpg.zip"], _SOURCE)
        for row in _LABELS.rows(root, space.names):
            name = str(Path(row["image"]).with_suffix(".jpg"))
            values = {key: _CODES.get(key, {}).get(row[key], row[key]) for key in space.names}
            yield Case(Source(archive, member=name), name, values, row["patient_id"])
