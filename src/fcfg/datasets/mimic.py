"""MIMIC-CXR: chest X-rays with race, sex, age and pleural effusion.

::

    mimic-cxr-jpg/
      mimic-cxr-2.0.0-metadata.csv.gz    dicom_id, subject_id, study_id, ViewPosition, StudyDate
      mimic-cxr-2.0.0-chexpert.csv.gz    subject_id, study_id, 'No Finding', 'Pleural Effusion'
      patients.csv.gz                    of MIMIC-IV: subject_id, gender, anchor_age, anchor_year
      admissions.csv.gz                  of MIMIC-IV: subject_id, race (ethnicity before 2.0)
      files/p10/p10000032/s50414267/DICOM_ID.jpg

(each table may also be uncompressed, and those of MIMIC-IV may lie in ``hosp``). The protocol is
that of Glocker et al. (2023), which de Sousa Ribeiro et al. (2023) and the paper follow:

- frontal views, AP and PA, only;
- race of the patient as first recorded, only WHITE, ASIAN and BLACK/AFRICAN AMERICAN;
- age in the year of the study: ``anchor_age`` and the years since ``anchor_year``;
- 60 % of patients for training, 10 % for validation, 30 % for test, drawn from a seed;
- then only studies labelled 'Pleural Effusion' (finding 1, whatever else) or 'No Finding' (0).

Which patients their draw had cannot be drawn again here. Whoever has their tables
``mimic.sample.train.csv``, ``mimic.sample.val.csv`` and ``mimic.sample.test.csv`` (made by the
notebook cited below) points ``samples`` to their folder: columns ``path``, ``subject_id``,
``race``, ``sex``, ``age``, ``disease``; then these decide the rows and the split (the paper:
62,336, 9,968 and 30,535 images).

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
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from fcfg.causal.attributes import AttributeSpace, Binary, Categorical, Continuous
from fcfg.causal.graph import CausalGraph
from fcfg.datasets.columns import missing_column, number
from fcfg.datasets.listing import Listing, Source
from fcfg.datasets.pixels import Fit, Pixels
from fcfg.datasets.splitting import drawn_splits
from fcfg.datasets.tables import folder_of, found, matched, read_columns

_SOURCE = "https://physionet.org/content/mimic-cxr-jpg/"
_HOSPITAL = "https://physionet.org/content/mimiciv/ (folder hosp)"
_SAMPLES = "notebooks/mimic.sample.ipynb of https://github.com/biomedia-mira/chexploration"
_RACE = {"WHITE": "White", "ASIAN": "Asian", "BLACK/AFRICAN AMERICAN": "Black"}
_SEX: dict[str, str] = {"M": "0", "F": "1", "Male": "0", "Female": "1"}
_NAMES = ("race", "sex", "age", "finding")


class MimicData(BaseModel):
    """Options of MIMIC-CXR."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal["mimic-cxr"] = "mimic-cxr"
    path: Path | None = None  #: the folder with the tables and 'files'
    size: int = Field(default=192, ge=8, le=2048)  #: height and width of the images
    channels: Literal[1, 3] = 1  #: grey or RGB
    fit: Fit = "stretch"  #: as Glocker et al. resized them
    samples: Path | None = None  #: the folder with mimic.sample.train.csv and its siblings
    fractions: tuple[float, float, float] = (0.6, 0.1, 0.3)  #: of patients, without samples
    split_seed: int = 0  #: which split is drawn
    cache: Path | None = None  #: where decoded images are kept, see :mod:`fcfg.datasets.cache`

    @property
    def pixels(self) -> Pixels:
        """The shape of the images."""
        return Pixels(self.size, self.channels, fit=self.fit)


def listing(config: MimicData, space: AttributeSpace) -> Listing:
    """Read the tables, open no image."""
    for name in space.names:
        if name not in _NAMES:
            raise missing_column("MIMIC-CXR", name, dict.fromkeys(_NAMES))
    root = folder_of(config.path)
    found(root, ["files"], _SOURCE)
    rows = _Rows()
    if config.samples is None:
        _from_tables(config, root, rows)
    else:
        _from_samples(config.samples, rows)
    return Listing(
        root,
        tuple(Source(root / "files" / name) for name in rows.names),
        tuple(rows.names),
        {name: rows.columns[name] for name in space.names},
        tuple(rows.splits),
        tuple(rows.patients),
        dict(rows.excluded),
    )


def attributes() -> tuple[AttributeSpace, CausalGraph]:
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


class _Rows:
    """Examples as they are found, and how many are not taken, by the reason."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.patients: list[str] = []
        self.splits: list[str] = []
        self.columns: dict[str, list[str]] = {name: [] for name in _NAMES}
        self.excluded: Counter[str] = Counter()

    def add(self, name: str, patient: str, split: str, values: tuple[str, str, str, str]) -> None:
        self.names.append(name)
        self.patients.append(patient)
        self.splits.append(split)
        for column, value in zip(_NAMES, values, strict=True):
            self.columns[column].append(value)


def _table(root: Path, name: str, source: str, wanted: list[str]) -> dict[str, list[str]]:
    return read_columns(found(root, _places(name), source), wanted)


def _places(name: str) -> list[str]:
    return [
        f"{folder}{name}{suffix}" for folder in ("", "hosp/") for suffix in (".csv.gz", ".csv")
    ]


def _races(root: Path) -> dict[str, str]:
    path = found(root, _places("admissions"), _HOSPITAL)
    table = read_columns(path)
    column = "ethnicity" if "race" not in table else "race"
    if column not in table or "subject_id" not in table:
        raise missing_column(str(path), "race" if column not in table else "subject_id", table)
    return matched(table["subject_id"], table[column])


def _from_tables(config: MimicData, root: Path, rows: _Rows) -> None:
    images = _table(
        root,
        "mimic-cxr-2.0.0-metadata",
        _SOURCE,
        ["dicom_id", "subject_id", "study_id", "ViewPosition", "StudyDate"],
    )
    labels = _table(
        root, "mimic-cxr-2.0.0-chexpert", _SOURCE, ["study_id", "No Finding", "Pleural Effusion"]
    )
    well = matched(labels["study_id"], labels["No Finding"])
    effusion = matched(labels["study_id"], labels["Pleural Effusion"])
    people = _table(
        root, "patients", _HOSPITAL, ["subject_id", "gender", "anchor_age", "anchor_year"]
    )
    person = {row[0]: row[1:] for row in zip(*people.values(), strict=True)}
    races = _races(root)
    taken: list[tuple[str, str, str, str]] = []
    for image, patient, study, view, date in zip(*images.values(), strict=True):
        if view not in ("AP", "PA"):
            rows.excluded["view other than AP and PA"] += 1
        elif study not in well:
            rows.excluded["study without labels"] += 1
        elif patient not in person:
            rows.excluded["patient not in MIMIC-IV"] += 1
        elif races.get(patient) not in _RACE:
            rows.excluded["race not among the three"] += 1
        else:
            taken.append((image, patient, study, date))
    patients = [patient for _, patient, _, _ in taken]
    splits = drawn_splits(patients, config.fractions, config.split_seed) if taken else []
    for (image, patient, study, date), split in zip(taken, splits, strict=True):
        ill = number(effusion[study]) == 1
        if not ill and number(well[study]) != 1:
            rows.excluded["neither effusion nor without finding"] += 1
            continue
        sex, age, year = person[patient]
        name = f"p{patient[:2]}/p{patient}/s{study}/{image}.jpg"
        values = (_RACE[races[patient]], _sex(sex), _age(age, year, date), "01"[ill])
        rows.add(name, patient, split, values)


def _sex(text: str) -> str:
    return _SEX.get(text, text)  # what is neither is refused later


def _age(age: str, year: str, date: str) -> str:
    """Age in the year of a study; empty, which is refused later, where it cannot be known."""
    then, anchor, years = number(date[:4]), number(year), number(age)
    if then is None or anchor is None or years is None:
        return ""
    return f"{years + then - anchor:g}"


def _from_samples(folder: Path, rows: _Rows) -> None:
    wanted = ["path", "subject_id", "race", "sex", "age", "disease"]
    for split in ("train", "val", "test"):
        path = found(folder, [f"mimic.sample.{split}.csv"], _SAMPLES)
        table = read_columns(path, wanted)
        for name, patient, race, sex, age, disease in zip(*table.values(), strict=True):
            if disease not in ("No Finding", "Pleural Effusion"):
                rows.excluded["neither effusion nor without finding"] += 1
                continue
            values = (race, _sex(sex), age, "01"[disease == "Pleural Effusion"])
            rows.add(name, patient, split, values)
