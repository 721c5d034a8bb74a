"""NIH ChestX-ray14, frontal chest X-rays (Wang et al., 2017), reduced to one archive.

::

    nih_cxr14/
      labels.csv          image,patient_id,age,sex,view,effusion,...: one row per image
      nih_128_jpg.zip     00000001_000.jpg, ...: grey, 128 by 128

Column names are those of this reduced copy (verified on it: 4,999 images of 1,335 patients). The
official table, ``Data_Entry_2017_v2020.csv``, names them 'Image Index', 'Patient ID', 'Patient
Age', 'Patient Gender', 'View Position', 'Finding Labels' (unverified); it is not read.

Attributes: ``sex`` (1: male), ``view`` (1: AP, lying; 0: PA, standing), ``age`` in years, and the
findings under their names in the table, such as ``effusion``. The split is by patient, drawn at
random from a seed: the official test list is for all 112,120 images, and these are a part.

References:
    ChestX-ray8 (Wang et al., CVPR 2017). Data: https://nihcc.app.box.com/v/ChestXray-NIHCC;
    please acknowledge the NIH Clinical Center.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from fcfg.causal.attributes import AttributeSpace, Binary, Continuous
from fcfg.causal.graph import CausalGraph
from fcfg.datasets.base import (
    AbstractDiskData,
    Channels,
    Fractions,
    Listing,
    find_file,
    split_by_group,
)
from fcfg.datasets.pixels import Source
from fcfg.support.csv_files import check_columns, read_columns

_SOURCE = "https://nihcc.app.box.com/v/ChestXray-NIHCC (reduced to 128 by 128 pixels)"
_CODES = {"sex": {"F": "0", "M": "1"}, "view": {"PA": "0", "AP": "1"}}


class NIHData(AbstractDiskData, frozen=True):
    """Options of NIH ChestX-ray14; ``path`` has labels.csv and nih_128_jpg.zip."""

    format: Literal["nih-cxr14"] = "nih-cxr14"
    channels: Channels = 1  #: 1 for grey, 3 for RGB
    fractions: Fractions = (0.8, 0.1, 0.1)  #: of patients
    split_seed: int = 0  #: seed for the split

    def attributes(self) -> tuple[AttributeSpace, CausalGraph]:
        """Sex, age, effusion and view.

        The graph is a working assumption: age makes effusion more likely, and patients with an
        effusion are more often X-rayed lying down.
        """
        space = AttributeSpace(
            [Binary("sex"), Continuous("age", 0, 100), Binary("effusion"), Binary("view")]
        )
        graph = {"sex": [], "age": [], "effusion": ["age"], "view": ["effusion"]}
        return space, CausalGraph(graph)

    def listing(self, space: AttributeSpace) -> Listing:
        """Read ``labels.csv`` without opening an image."""
        labels = find_file(self.path, ["labels.csv"], _SOURCE)
        archive = find_file(self.path, ["nih_128_jpg.zip"], _SOURCE)
        table = read_columns(labels)
        check_columns(str(labels), ("image", "patient_id", *space.names), table)
        columns = {
            name: [_CODES.get(name, {}).get(text, text) for text in table[name]]
            for name in space.names
        }
        names = tuple(str(Path(image).with_suffix(".jpg")) for image in table["image"])
        patients = table["patient_id"]
        return Listing(
            labels.parent,
            tuple(Source(archive, member=name) for name in names),
            names,
            columns,
            tuple(split_by_group(patients, self.fractions, self.split_seed)),
            tuple(patients),
        )
