"""EMBED, the Emory breast imaging data set: mammograms with density and skin markers.

::

    EMBED/
      tables/EMBED_OpenData_metadata.csv     one row per image (or ..._metadata_reduced.csv)
      tables/EMBED_OpenData_clinical.csv     one row per finding (or ..._clinical_reduced.csv)
      tables/predicted_all_embed.csv         markers predicted by Schueppert et al.
      images/cohort_1/PATIENT/STUDY/NAME.dcm
      images/png/1024x768/PATIENT/NAME.png   (instead of DICOM: the layout of mammo-net)

The columns read are ``empi_anon``, ``acc_anon``, ``anon_dicom_path``, ``FinalImageType``,
``ViewPosition`` and ``spot_mag`` of the metadata, ``acc_anon`` and ``tissueden`` of the clinical
table, ``image_path`` and ``circle marker`` of the predictions. Attributes, as in the paper's
appendix:

``density``
    0 for BI-RADS A and B (``tissueden`` 1, 2), 1 for C and D (3, 4).
``circle``
    1 if a circular skin marker was predicted.
``view``
    0 for MLO, 1 for CC.

Excluded and counted: images other than 2D, views other than CC and MLO, spot compression and
magnification, exams without density, images without a prediction, duplicate rows. The split is by
patient, at random, with the fractions of the paper's 151,948, 7,156 and 43,669 images (which
patients it had is not published: unverified).

References:
    EMBED (Jeong et al., 2023), tables and columns as in the README of
    https://github.com/Emory-HITI/EMBED_Open_Data (verified). Radio-opaque artefacts in digital
    mammography (Schueppert et al., 2024), https://github.com/biomedia-mira/mammo-artifacts: name
    and columns of predicted_all_embed.csv verified on the code that writes and reads it. The PNG
    layout and the filters are those of https://github.com/biomedia-mira/counterfactual-contrastive
    (verified on its generate_embed_csv.ipynb); it also excludes male patients by a column that the
    reduced table may lack; here their density of 5 excludes them. The beginning of
    ``anon_dicom_path``, /mnt/NAS2/mammo/anon_dicom/, is verified on public readers.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path, PurePosixPath
from typing import Literal

from fcfg.causal.attributes import AttributeSpace, Binary
from fcfg.causal.codes import number
from fcfg.causal.graph import CausalGraph
from fcfg.datasets.base import (
    AbstractDiskData,
    Channels,
    Fractions,
    Listing,
    Size,
    find_file,
    first_values,
    split_by_group,
)
from fcfg.datasets.columns import is_missing
from fcfg.datasets.pixels import Source
from fcfg.support.csv_files import check_columns, read_columns
from fcfg.support.pictures import Fit, Intensity

_SOURCE = "https://github.com/Emory-HITI/EMBED_Open_Data"
_MARKERS = "https://github.com/biomedia-mira/mammo-artifacts"
_DENSITY = {1.0: "0", 2.0: "0", 3.0: "1", 4.0: "1"}
_COLUMNS = (
    *("empi_anon", "acc_anon", "anon_dicom_path"),
    *("FinalImageType", "ViewPosition", "spot_mag"),
)
_PNG = "images/png/1024x768"


class EmbedData(AbstractDiskData, frozen=True):
    """Options of EMBED; ``path`` has the tables and the images."""

    format: Literal["embed"] = "embed"
    size: Size = 192  #: height and width of the images
    channels: Channels = 1  #: 1 for grey, 3 for RGB
    intensity: Intensity = "full"  #: of 16-bit PNG, see :mod:`fcfg.support.pictures`
    fit: Fit = "pad"  #: cropping would cut a breast that fills its tall picture
    fractions: Fractions = (0.75, 0.035, 0.215)  #: of patients
    split_seed: int = 0  #: seed for the split

    def attributes(self) -> tuple[AttributeSpace, CausalGraph]:
        """Density and circle: two attributes without arrows, as in the paper."""
        space = AttributeSpace([Binary("density"), Binary("circle")])
        return space, CausalGraph({"density": [], "circle": []})

    def listing(self, space: AttributeSpace) -> Listing:
        """Read the tables without opening an image."""
        check_columns("EMBED", space.names, ("density", "circle", "view"))
        metadata = find_file(self.path, _tables("metadata"), _SOURCE)
        images = read_columns(metadata, _COLUMNS)
        densities = _densities(find_file(self.path, _tables("clinical"), _SOURCE))
        circles = _circles(self.path) if "circle" in space.names else None
        root = metadata.parent.parent if metadata.parent.name == "tables" else metadata.parent
        as_png = (root / _PNG).is_dir()
        excluded: Counter[str] = Counter()
        rows: list[tuple[Path, str, dict[str, str]]] = []
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
            else:
                file = Path(_PNG, patient, f"{stem}.png") if as_png else _local(path)
                rows.append((file, patient, values))
        patients = [patient for _, patient, _ in rows]
        return Listing(
            root,
            tuple(Source(root / file) for file, _, _ in rows),
            tuple(file.as_posix() for file, _, _ in rows),
            {name: [values[name] for _, _, values in rows] for name in space.names},
            tuple(split_by_group(patients, self.fractions, self.split_seed)),
            tuple(patients),
            dict(excluded),
        )


def _reason(kind: str, view: str, spot: str, values: dict[str, str]) -> str:
    """Reason why the protocol excludes an image; empty if it does not."""
    reasons = {
        "not 2D": kind != "2D",
        "view other than CC and MLO": view not in ("CC", "MLO"),
        "spot compression or magnification": not is_missing(spot) and number(spot) != 0,
        "no density A to D": not values["density"],
        "no prediction of markers": not values["circle"],
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def _tables(kind: str) -> list[str]:
    names = [f"EMBED_OpenData_{kind}.csv", f"EMBED_OpenData_{kind}_reduced.csv"]
    return [f"{folder}{name}" for folder in ("tables/", "") for name in names]


def _densities(path: Path) -> dict[str, str]:
    """First valid density of every exam; the table has a row for each finding."""
    table = read_columns(path, ["acc_anon", "tissueden"])
    halves = [_DENSITY.get(number(text) or 0.0, "") for text in table["tissueden"]]
    known = [(exam, half) for exam, half in zip(table["acc_anon"], halves, strict=True) if half]
    return first_values([exam for exam, _ in known], [half for _, half in known])


def _circles(root: Path | None) -> dict[str, str]:
    name = "predicted_all_embed.csv"
    path = find_file(root, [f"tables/{name}", name], _MARKERS)
    table = read_columns(path, ["image_path", "circle marker"])
    stems = [PurePosixPath(path).stem for path in table["image_path"]]
    return first_values(stems, table["circle marker"])


def _local(path: str) -> Path:
    """Path of a file relative to the data set: the part that starts at its cohort."""
    parts = PurePosixPath(path.lstrip("/")).parts
    start = next((i for i, part in enumerate(parts) if part.startswith("cohort_")), 0)
    return Path("images", *parts[start:])
