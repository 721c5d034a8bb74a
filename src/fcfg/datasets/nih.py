"""NIH ChestX-ray14, frontal chest X-rays (Wang et al., 2017), reduced to one archive.

::

    nih_cxr14/
      labels.csv          image,patient_id,age,sex,view,effusion,...: one row an image
      nih_128_jpg.zip     00000001_000.jpg, ...: grey, 128 by 128

Column names are those of this reduced copy (verified on it: 4,999 images of 1,335 patients). The
official table, ``Data_Entry_2017_v2020.csv``, names them 'Image Index', 'Patient ID', 'Patient
Age', 'Patient Gender', 'View Position', 'Finding Labels' (unverified); it is not read.

Attributes: ``sex`` (1: male), ``view`` (1: AP, lying; 0: PA, standing), ``age`` in years, and the
findings under their names in the table, such as ``effusion``. The split is by patient, drawn
from a seed: the official test list belongs to all 112,120 images, of which these are a part.

References:
    ChestX-ray8 (Wang et al., CVPR 2017). Data: https://nihcc.app.box.com/v/ChestXray-NIHCC;
    please acknowledge the NIH Clinical Center.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from fcfg.causal.attributes import AttributeSpace, Binary, Continuous
from fcfg.causal.graph import CausalGraph
from fcfg.datasets.columns import missing_column
from fcfg.datasets.listing import Listing, Source
from fcfg.datasets.pixels import Pixels
from fcfg.datasets.splitting import drawn_splits
from fcfg.datasets.tables import found, read_columns

_SOURCE = "https://nihcc.app.box.com/v/ChestXray-NIHCC (reduced to 128 by 128 pixels)"
_CODES = {"sex": {"F": "0", "M": "1"}, "view": {"PA": "0", "AP": "1"}}


class NIHData(BaseModel):
    """Options of NIH ChestX-ray14."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal["nih-cxr14"] = "nih-cxr14"
    path: Path | None = None  #: the folder with labels.csv and nih_128_jpg.zip
    size: int = Field(default=64, ge=8, le=2048)  #: height and width of the images
    channels: Literal[1, 3] = 1  #: grey or RGB
    fractions: tuple[float, float, float] = (0.8, 0.1, 0.1)  #: of patients: train, val, test
    split_seed: int = 0  #: which split is drawn
    cache: Path | None = None  #: where decoded images are kept, see :mod:`fcfg.datasets.cache`

    @property
    def pixels(self) -> Pixels:
        """The shape of the images."""
        return Pixels(self.size, self.channels)


def listing(config: NIHData, space: AttributeSpace) -> Listing:
    """Read ``labels.csv``, open no image."""
    labels = found(config.path, ["labels.csv"], _SOURCE)
    archive = found(config.path, ["nih_128_jpg.zip"], _SOURCE)
    table = read_columns(labels)
    for name in ("image", "patient_id", *space.names):
        if name not in table:
            raise missing_column(str(labels), name, table)
    columns = {
        name: [_CODES.get(name, {}).get(text, text) for text in table[name]]
        for name in space.names
    }
    names = tuple(str(Path(image).with_suffix(".jpg")) for image in table["image"])
    splits = drawn_splits(table["patient_id"], config.fractions, config.split_seed)
    return Listing(
        labels.parent,
        tuple(Source(archive, member=name) for name in names),
        names,
        columns,
        tuple(splits),
        tuple(table["patient_id"]),
    )


def attributes() -> tuple[AttributeSpace, CausalGraph]:
    """Sex, age, effusion, view.

    The graph is a working assumption: age makes effusion likelier, and whoever has one is more
    often X-rayed lying down.
    """
    space = AttributeSpace(
        [Binary("sex"), Continuous("age", 0, 100), Binary("effusion"), Binary("view")]
    )
    return space, CausalGraph({"sex": [], "age": [], "effusion": ["age"], "view": ["effusion"]})
