"""EMBED, the Emory breast imaging data set: mammograms with density and skin markers.

::

    EMBED/
      tables/EMBED_OpenData_metadata.csv     one row an image (or ..._metadata_reduced.csv)
      tables/EMBED_OpenData_clinical.csv     one row a finding (or ..._clinical_reduced.csv)
      tables/predicted_all_embed.csv         markers found by Schueppert et al.
      images/cohort_1/PATIENT/STUDY/NAME.dcm
      images/png/1024x768/PATIENT/NAME.png   (instead of DICOM: the layout of mammo-net)

Of the metadata ``empi_anon``, ``acc_anon``, ``anon_dicom_path``, ``FinalImageType``,
``ViewPosition`` and ``spot_mag`` are read, of the clinical table ``acc_anon`` and ``tissueden``,
of the predictions ``image_path`` and ``circle marker``. Attributes, as in the paper's appendix:

``density``
    0 for BI-RADS A and B (``tissueden`` 1, 2), 1 for C and D (3, 4).
``circle``
    1 where a circular skin marker was predicted.
``view``
    0 for MLO, 1 for CC.

Left out and counted: images other than 2D, views other than CC and MLO, spot compression and
magnification, exams without density, images without a prediction, doubled rows. The split is by
patient, drawn from a seed; its fractions are those of the paper's 151,948, 7,156 and 43,669 images
(which patients it had is not published: unverified).

References:
    EMBED (Jeong et al., 2023), tables and columns as in the README of
    https://github.com/Emory-HITI/EMBED_Open_Data (verified). Radio-opaque artefacts in digital
    mammography (Schueppert et al., 2024), https://github.com/biomedia-mira/mammo-artifacts: name
    and columns of predicted_all_embed.csv verified on the code that writes and reads it. The PNG
    layout and the filters are those of https://github.com/biomedia-mira/counterfactual-contrastive
    (verified on its generate_embed_csv.ipynb); it also leaves out male patients by a column that
    the reduced table may lack, which a density of 5 does here. The beginning of
    ``anon_dicom_path``, /mnt/NAS2/mammo/anon_dicom/, is verified on public readers.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path, PurePosixPath
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from fcfg.causal.attributes import AttributeSpace, Binary
from fcfg.causal.graph import CausalGraph
from fcfg.datasets.columns import is_missing, missing_column, number
from fcfg.datasets.listing import Listing, Source
from fcfg.datasets.pixels import Fit, Intensity, Pixels
from fcfg.datasets.splitting import drawn_splits
from fcfg.datasets.tables import found, matched, read_columns

_SOURCE = "https://github.com/Emory-HITI/EMBED_Open_Data"
_MARKERS = "https://github.com/biomedia-mira/mammo-artifacts"
_DENSITY = {1.0: "0", 2.0: "0", 3.0: "1", 4.0: "1"}
_PNG = "images/png/1024x768"


class EmbedData(BaseModel):
    """Options of EMBED."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal["embed"] = "embed"
    path: Path | None = None  #: the folder with tables and images
    size: int = Field(default=192, ge=8, le=2048)  #: height and width of the images
    channels: Literal[1, 3] = 1  #: grey or RGB
    intensity: Intensity = "full"  #: of 16-bit PNG, see :mod:`fcfg.datasets.pixels`
    fit: Fit = "pad"  #: a breast fills its tall picture: to crop would cut it
    fractions: tuple[float, float, float] = (0.75, 0.035, 0.215)  #: of patients
    split_seed: int = 0  #: which split is drawn
    cache: Path | None = None  #: where decoded images are kept, see :mod:`fcfg.datasets.cache`

    @property
    def pixels(self) -> Pixels:
        """The shape of the images."""
        return Pixels(self.size, self.channels, self.intensity, self.fit)


def listing(config: EmbedData, space: AttributeSpace) -> Listing:
    """Read the tables, open no image."""
    for name in space.names:
        if name not in ("density", "circle", "view"):
            raise missing_column("EMBED", name, dict.fromkeys(("density", "circle", "view")))
    metadata = found(config.path, _tables("metadata"), _SOURCE)
    images = read_columns(
        metadata,
        ["empi_anon", "acc_anon", "anon_dicom_path", "FinalImageType", "ViewPosition", "spot_mag"],
    )
    exams = read_columns(
        found(config.path, _tables("clinical"), _SOURCE), ["acc_anon", "tissueden"]
    )
    densities = _densities(exams["acc_anon"], exams["tissueden"])
    circles = _circles(config.path) if "circle" in space.names else None
    root = metadata.parent.parent if metadata.parent.name == "tables" else metadata.parent
    as_png = (root / _PNG).is_dir()
    excluded: Counter[str] = Counter()
    rows: list[tuple[Source, str, str, dict[str, str]]] = []
    seen: set[str] = set()
    for patient, exam, path, kind, view, spot in zip(*images.values(), strict=True):
        stem = PurePosixPath(path).stem
        values = {
            "density": densities.get(exam, ""),
            "circle": "0" if circles is None else circles.get(stem, ""),
            "view": "01"[view == "CC"],
        }
        reason = "listed twice" if path in seen else _reason(kind, view, spot, values)
        seen.add(path)
        if reason:
            excluded[reason] += 1
            continue
        source = root / _PNG / patient / f"{stem}.png" if as_png else root / _local(path)
        rows.append((Source(source), source.relative_to(root).as_posix(), patient, values))
    patients = [patient for _, _, patient, _ in rows]
    return Listing(
        root,
        tuple(source for source, _, _, _ in rows),
        tuple(name for _, name, _, _ in rows),
        {name: [values[name] for _, _, _, values in rows] for name in space.names},
        tuple(drawn_splits(patients, config.fractions, config.split_seed)),
        tuple(patients),
        dict(excluded),
    )


def attributes() -> tuple[AttributeSpace, CausalGraph]:
    """Density and circle: two attributes without arrows, as in the paper."""
    names = ("density", "circle")
    return AttributeSpace([Binary(name) for name in names]), CausalGraph({n: [] for n in names})


def _reason(kind: str, view: str, spot: str, values: dict[str, str]) -> str:
    """Why the protocol leaves an image out; empty where it does not."""
    reasons = {
        "not 2D": kind != "2D",
        "view other than CC and MLO": view not in ("CC", "MLO"),
        "spot compression or magnification": not is_missing(spot) and number(spot) != 0,
        "no density A to D": not values["density"],
        "no prediction of markers": not values["circle"],
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def _tables(what: str) -> list[str]:
    names = [f"EMBED_OpenData_{what}.csv", f"EMBED_OpenData_{what}_reduced.csv"]
    return [f"{folder}{name}" for folder in ("tables/", "") for name in names]


def _densities(exams: list[str], texts: list[str]) -> dict[str, str]:
    """The first density that is one, of every exam: a row for each finding repeats it."""
    halves = [_DENSITY.get(number(text) or 0.0, "") for text in texts]
    known = [(exam, half) for exam, half in zip(exams, halves, strict=True) if half]
    return matched([exam for exam, _ in known], [half for _, half in known])


def _circles(root: Path | None) -> dict[str, str]:
    name = "predicted_all_embed.csv"
    table = read_columns(
        found(root, [f"tables/{name}", name], _MARKERS), ["image_path", "circle marker"]
    )
    stems = [PurePosixPath(path).stem for path in table["image_path"]]
    return matched(stems, table["circle marker"])


def _local(path: str) -> Path:
    """The place of a file below the root: what follows its cohort."""
    parts = PurePosixPath(path).parts
    start = next((i for i, part in enumerate(parts) if part.startswith("cohort_")), 0)
    return Path("images", *parts[start:])
