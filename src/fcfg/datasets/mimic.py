"""MIMIC-CXR: chest X-rays with race, sex, age and finding, in the layout of ``docs/data.md``.

The protocol is that of Glocker et al. (2023), which de Sousa Ribeiro et al. (2023) and the paper
follow:

- only frontal views, AP and PA;
- only patients first recorded as WHITE, ASIAN or BLACK/AFRICAN AMERICAN;
- age in the year of the study: ``anchor_age`` plus the years since ``anchor_year``;
- 60 % of patients for training, 10 % for validation, 30 % for test, at random;
- then only studies labelled 'Pleural Effusion' (finding 1) or else 'No Finding' (0).

Their random split cannot be reproduced. The tables ``mimic.sample.train.csv``, val and test, which
the notebook cited below writes, determine rows and split instead, if ``samples`` is their folder
(the paper: 62,336, 9,968 and 30,535 images).

References:
    MIMIC-CXR-JPG (Johnson et al., 2019), https://physionet.org/content/mimic-cxr-jpg/; MIMIC-IV,
    https://physionet.org/content/mimiciv/ (patients: verified on mimic.mit.edu). Algorithmic
    encoding of protected characteristics (Glocker et al., 2023), protocol, tables and columns
    verified on https://github.com/biomedia-mira/chexploration, notebooks/mimic.sample.ipynb.
    High fidelity image counterfactuals (de Sousa Ribeiro et al., 2023), verified on
    https://github.com/biomedia-mira/causal-gen, src/chest_xray/mimic.py. That later versions of
    MIMIC-IV name the column 'race' is unverified.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, Literal

from fcfg.causal.attributes import AttributeSpace
from fcfg.causal.codes import number
from fcfg.datasets.base import SPLITS, Case, Channels, Fractions, Size
from fcfg.datasets.columns import LabelTable, Row, find_file
from fcfg.datasets.loading import AbstractDrawnData
from fcfg.datasets.pixels import Source
from fcfg.support.pictures import Fit
from fcfg.support.tables import check_columns

_SOURCE = "https://physionet.org/content/mimic-cxr-jpg/"
_HOSPITAL = "https://physionet.org/content/mimiciv/ (folder hosp)"
_SAMPLES = "notebooks/mimic.sample.ipynb of https://github.com/biomedia-mira/chexploration"


def _table(name: str, origin: str, columns: str, others: bool = False) -> LabelTable:
    files = tuple(f"{f}{name}{end}" for f in ("", "hosp/") for end in (".csv.gz", ".csv"))
    return LabelTable(files, origin, tuple(columns.split(",")), others)


_COLUMNS = "dicom_id,subject_id,study_id,ViewPosition,StudyDate"
_IMAGES = _table("mimic-cxr-2.0.0-metadata", _SOURCE, _COLUMNS)
_LABELS = _table("mimic-cxr-2.0.0-chexpert", _SOURCE, "study_id,No Finding,Pleural Effusion")
_PEOPLE = _table("patients", _HOSPITAL, "subject_id,gender,anchor_age,anchor_year")
_STAYS = _table("admissions", _HOSPITAL, "subject_id", others=True)
_RACE = {"WHITE": "White", "ASIAN": "Asian", "BLACK/AFRICAN AMERICAN": "Black"}
_SEX = {"M": "0", "F": "1", "Male": "0", "Female": "1"}
_FINDING = {"No Finding": "0", "Pleural Effusion": "1"}
_NEITHER = "neither effusion nor without finding"


class MimicData(AbstractDrawnData, frozen=True):
    """Options of MIMIC-CXR; ``path`` has the tables and the folder 'files'."""

    after_split: ClassVar[frozenset[str]] = frozenset({_NEITHER})

    format: Literal["mimic-cxr"] = "mimic-cxr"
    size: Size = 192  #: height and width of the images
    channels: Channels = 1  #: 1 for grey, 3 for RGB
    fit: Fit = "stretch"  #: as Glocker et al. resized the images
    samples: Path | None = None  #: folder with mimic.sample.train.csv, val and test
    fractions: Fractions = (0.6, 0.1, 0.3)  #: of patients, without samples

    def cases(self, root: Path, space: AttributeSpace) -> Iterator[Case]:
        check_columns("MIMIC-CXR", space.names, ("race", "sex", "age", "finding"))
        files = find_file(root, ["files"], _SOURCE)
        return _sampled(self.samples, files) if self.samples else _followed(root, files)


def _followed(root: Path, files: Path) -> Iterator[Case]:
    """Follow the protocol, with the tables of MIMIC."""
    images = _IMAGES.rows(root)
    labels = _LABELS.first_by("study_id", root)
    people, stays = (table.first_by("subject_id", root) for table in (_PEOPLE, _STAYS))
    head = next(iter(stays.values()), {"race": ""})
    column = "ethnicity" if "ethnicity" in head and "race" not in head else "race"
    check_columns("admissions.csv", (column,), head)
    for row in images:
        patient, study = row["subject_id"], row["study_id"]
        label, person = labels.get(study), people.get(patient)
        race = _RACE.get(stays[patient][column]) if patient in stays else None
        ill = label is not None and number(label["Pleural Effusion"]) == 1
        well = label is not None and number(label["No Finding"]) == 1
        reasons = {
            "view other than AP and PA": row["ViewPosition"] not in ("AP", "PA"),
            "study without labels": label is None,
            "patient not in MIMIC-IV": person is None,
            "race not among the three": race is None,
            _NEITHER: not ill and not well,
        }
        name = f"p{patient[:2]}/p{patient}/s{study}/{row['dicom_id']}.jpg"
        values = {} if person is None else _values(row, person, race or "", ill)
        yield Case(Source(files / name), name, values, patient, reasons=reasons)


def _sampled(folder: Path, files: Path) -> Iterator[Case]:
    """Take images, labels and splits from the tables of Glocker et al."""
    columns = ("path", "subject_id", "race", "sex", "age", "disease")
    for split in SPLITS:
        for row in LabelTable((f"mimic.sample.{split}.csv",), _SAMPLES, columns).rows(folder):
            finding = _FINDING.get(row["disease"], "")
            values = {"race": row["race"], "sex": _SEX.get(row["sex"], row["sex"])}
            values |= {"age": row["age"], "finding": finding}
            source, reasons = Source(files / row["path"]), {_NEITHER: not finding}
            yield Case(source, row["path"], values, row["subject_id"], split, reasons)


def _values(row: Row, person: Row, race: str, ill: bool) -> dict[str, str]:
    """Labels of an image; a sex or an age that is not known is refused later."""
    texts = person["anchor_age"], row["StudyDate"][:4], person["anchor_year"]
    years = [value for text in texts if (value := number(text)) is not None]
    age = f"{years[0] + years[1] - years[2]:g}" if len(years) == 3 else ""
    sex = _SEX.get(person["gender"], person["gender"])
    return {"race": race, "sex": sex, "age": age, "finding": "01"[ill]}
