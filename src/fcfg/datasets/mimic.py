"""MIMIC-CXR: chest X-rays with race, sex, age and pleural effusion.

::

    mimic-cxr-jpg/
      mimic-cxr-2.0.0-metadata.csv.gz    dicom_id, subject_id, study_id, ViewPosition, StudyDate
      mimic-cxr-2.0.0-chexpert.csv.gz    subject_id, study_id, 'No Finding', 'Pleural Effusion'
      patients.csv.gz                    from MIMIC-IV: subject_id, gender, anchor_age, anchor_year
      admissions.csv.gz                  from MIMIC-IV: subject_id, race (ethnicity before 2.0)
      files/p10/p10000032/s50414267/DICOM_ID.jpg

Tables may also be uncompressed, and those of MIMIC-IV may be in ``hosp``. The protocol is that of
Glocker et al. (2023), which de Sousa Ribeiro et al. (2023) and the paper follow:

- only frontal views, AP and PA;
- only patients first recorded as WHITE, ASIAN or BLACK/AFRICAN AMERICAN;
- age in the year of the study: ``anchor_age`` plus the years since ``anchor_year``;
- 60 % of patients for training, 10 % for validation, 30 % for test, at random;
- then only studies labelled 'Pleural Effusion' (finding 1) or else 'No Finding' (0).

Their random split cannot be reproduced. To use it, set ``samples`` to the folder of their tables
``mimic.sample.train.csv``, ``mimic.sample.val.csv`` and ``mimic.sample.test.csv``, which the
notebook cited below writes, with columns ``path``, ``subject_id``, ``race``, ``sex``, ``age`` and
``disease``. They then determine the rows and the split (the paper: 62,336, 9,968 and 30,535
images).

Attributes: ``race`` (White, Asian, Black), ``sex`` (1: female, as in those tables), ``age``,
``finding``.

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

from collections import Counter
from pathlib import Path
from typing import Literal, NamedTuple

from fcfg.causal.attributes import AttributeSpace, Binary, Categorical, Continuous
from fcfg.causal.codes import number
from fcfg.causal.graph import CausalGraph
from fcfg.datasets.base import (
    SPLITS,
    AbstractDiskData,
    Channels,
    Fractions,
    Listing,
    Size,
    existing_folder,
    find_file,
    first_values,
    split_by_group,
)
from fcfg.datasets.pixels import Source
from fcfg.support.csv_files import check_columns, read_columns
from fcfg.support.pictures import Fit

_SOURCE = "https://physionet.org/content/mimic-cxr-jpg/"
_HOSPITAL = "https://physionet.org/content/mimiciv/ (folder hosp)"
_SAMPLES = "notebooks/mimic.sample.ipynb of https://github.com/biomedia-mira/chexploration"
_RACE = {"WHITE": "White", "ASIAN": "Asian", "BLACK/AFRICAN AMERICAN": "Black"}
_SEX = {"M": "0", "F": "1", "Male": "0", "Female": "1"}
_NEITHER = "neither effusion nor without finding"


class _Row(NamedTuple):
    name: str
    patient: str
    split: str
    race: str
    sex: str
    age: str
    finding: str


class MimicData(AbstractDiskData, frozen=True):
    """Options of MIMIC-CXR; ``path`` has the tables and the folder 'files'."""

    format: Literal["mimic-cxr"] = "mimic-cxr"
    size: Size = 192  #: height and width of the images
    channels: Channels = 1  #: 1 for grey, 3 for RGB
    fit: Fit = "stretch"  #: as Glocker et al. resized the images
    samples: Path | None = None  #: folder with mimic.sample.train.csv, val and test
    fractions: Fractions = (0.6, 0.1, 0.3)  #: of patients, without samples
    split_seed: int = 0  #: seed for the split

    def attributes(self) -> tuple[AttributeSpace, CausalGraph]:
        """Race, sex, age and finding; age causes finding, as in de Sousa Ribeiro et al."""
        space = AttributeSpace(
            [
                Categorical("race", tuple(_RACE.values())),
                Binary("sex"),
                Continuous("age", 0, 110),  # 91 stands for all above 89, and years are added
                Binary("finding"),
            ]
        )
        return space, CausalGraph({"race": [], "sex": [], "age": [], "finding": ["age"]})

    def listing(self, space: AttributeSpace) -> Listing:
        """Read the tables without opening an image."""
        check_columns("MIMIC-CXR", space.names, ("race", "sex", "age", "finding"))
        root = existing_folder(self.path)
        files = find_file(root, ["files"], _SOURCE)
        excluded: Counter[str] = Counter()
        if self.samples is None:
            rows = self._rows_of_tables(root, excluded)
        else:
            rows = _rows_of_samples(self.samples, excluded)
        return Listing(
            root,
            tuple(Source(files / row.name) for row in rows),
            tuple(row.name for row in rows),
            {name: [getattr(row, name) for row in rows] for name in space.names},
            tuple(row.split for row in rows),
            tuple(row.patient for row in rows),
            dict(excluded),
        )

    def _rows_of_tables(self, root: Path, excluded: Counter[str]) -> list[_Row]:
        columns = ["dicom_id", "subject_id", "study_id", "ViewPosition", "StudyDate"]
        images = read_columns(_find(root, "mimic-cxr-2.0.0-metadata", _SOURCE), columns)
        columns = ["study_id", "No Finding", "Pleural Effusion"]
        labels = read_columns(_find(root, "mimic-cxr-2.0.0-chexpert", _SOURCE), columns)
        well = first_values(labels["study_id"], labels["No Finding"])
        effusion = first_values(labels["study_id"], labels["Pleural Effusion"])
        columns = ["subject_id", "gender", "anchor_age", "anchor_year"]
        people = read_columns(_find(root, "patients", _HOSPITAL), columns)
        person = {row[0]: row[1:] for row in zip(*people.values(), strict=True)}
        races = _races(root)
        kept: list[tuple[str, str, str, str]] = []
        for image, patient, study, view, date in zip(*images.values(), strict=True):
            if view not in ("AP", "PA"):
                excluded["view other than AP and PA"] += 1
            elif study not in well:
                excluded["study without labels"] += 1
            elif patient not in person:
                excluded["patient not in MIMIC-IV"] += 1
            elif races.get(patient) not in _RACE:
                excluded["race not among the three"] += 1
            else:
                kept.append((image, patient, study, date))
        patients = [patient for _, patient, _, _ in kept]
        splits = split_by_group(patients, self.fractions, self.split_seed) if kept else []
        rows: list[_Row] = []
        for (image, patient, study, date), split in zip(kept, splits, strict=True):
            ill = number(effusion[study]) == 1
            if not ill and number(well[study]) != 1:
                excluded[_NEITHER] += 1
                continue
            name = f"p{patient[:2]}/p{patient}/s{study}/{image}.jpg"
            sex, age, year = person[patient]
            values = _RACE[races[patient]], _sex(sex), _age(age, year, date), "01"[ill]
            rows.append(_Row(name, patient, split, *values))
        return rows


def _rows_of_samples(folder: Path, excluded: Counter[str]) -> list[_Row]:
    columns = ["path", "subject_id", "race", "sex", "age", "disease"]
    rows: list[_Row] = []
    for split in SPLITS:
        table = read_columns(find_file(folder, [f"mimic.sample.{split}.csv"], _SAMPLES), columns)
        for name, patient, race, sex, age, disease in zip(*table.values(), strict=True):
            if disease in ("No Finding", "Pleural Effusion"):
                finding = "01"[disease == "Pleural Effusion"]
                rows.append(_Row(name, patient, split, race, _sex(sex), age, finding))
            else:
                excluded[_NEITHER] += 1
    return rows


def _find(root: Path, name: str, source: str) -> Path:
    candidates = [f"{f}{name}{end}" for f in ("", "hosp/") for end in (".csv.gz", ".csv")]
    return find_file(root, candidates, source)


def _races(root: Path) -> dict[str, str]:
    path = _find(root, "admissions", _HOSPITAL)
    table = read_columns(path)
    column = "ethnicity" if "ethnicity" in table and "race" not in table else "race"
    check_columns(str(path), (column, "subject_id"), table)
    return first_values(table["subject_id"], table[column])


def _sex(text: str) -> str:
    return _SEX.get(text, text)  # unknown values are refused later


def _age(age: str, year: str, date: str) -> str:
    """Age in the year of a study; empty if unknown, which is refused later."""
    then, anchor, years = number(date[:4]), number(year), number(age)
    if then is None or anchor is None or years is None:
        return ""
    return f"{years + then - anchor:g}"
