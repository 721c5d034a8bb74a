"""EMBED, the Emory breast imaging data set: mammograms with density and skin markers.

``docs/data.md`` has its layout, attributes and what is excluded. The split is by patient, at
random, with the fractions of the paper's 151,948, 7,156 and 43,669 images (which patients it had
is not published: unverified).

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

from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Literal

from fcfg.causal.attributes import AttributeSpace
from fcfg.causal.codes import number
from fcfg.datasets.base import Case, Channels, Fractions, Size
from fcfg.datasets.columns import LabelTable, is_missing
from fcfg.datasets.loading import AbstractDrawnData
from fcfg.datasets.pixels import Source
from fcfg.support.pictures import Fit, Intensity
from fcfg.support.tables import check_columns


def _table(name: str, columns: str) -> LabelTable:
    names = [f"EMBED_OpenData_{name}.csv", f"EMBED_OpenData_{name}_reduced.csv"]
    files = tuple(f"{folder}{file}" for folder in ("tables/", "") for file in names)
    return LabelTable(files, "https://github.com/Emory-HITI/EMBED_Open_Data", columns.split())


_COLUMNS = "empi_anon acc_anon anon_dicom_path FinalImageType ViewPosition spot_mag"
_IMAGES = _table("metadata", _COLUMNS)
_FINDINGS = _table("clinical", "acc_anon tissueden")
_MARKERS = LabelTable(
    ("tables/predicted_all_embed.csv", "predicted_all_embed.csv"),
    "https://github.com/biomedia-mira/mammo-artifacts",
    ("image_path", "circle marker"),
)
_DENSITY = {1.0: "0", 2.0: "0", 3.0: "1", 4.0: "1"}
_PNG = "images/png/1024x768"


class EmbedData(AbstractDrawnData, frozen=True):
    """Options of EMBED; ``path`` has the tables and the images."""

    format: Literal["embed"] = "embed"
    size: Size = 192  #: height and width of the images
    channels: Channels = 1  #: 1 for grey, 3 for RGB
    intensity: Intensity = "full"  #: of 16-bit PNG, see :mod:`fcfg.support.pictures`
    fit: Fit = "pad"  #: cropping would cut a breast that fills its tall picture
    fractions: Fractions = (0.75, 0.035, 0.215)  #: of patients

    def cases(self, root: Path, space: AttributeSpace) -> Iterator[Case]:
        check_columns("EMBED", space.names, ("density", "circle", "view"))
        images = _IMAGES.rows(root)
        densities, circles = dict[str, str](), dict[str, str]()
        for row in _FINDINGS.rows(root):  # several of an exam, not all of them with a density
            if half := _DENSITY.get(number(row["tissueden"]) or 0.0):
                densities.setdefault(row["acc_anon"], half)
        for row in _MARKERS.rows(root) if "circle" in space.names else ():
            circles.setdefault(PurePosixPath(row["image_path"]).stem, row["circle marker"])
        as_png, seen = (root / _PNG).is_dir(), set[str]()
        for row in images:
            path = row["anon_dicom_path"]
            stem = PurePosixPath(path).stem
            values = {
                "density": densities.get(row["acc_anon"], ""),
                "circle": circles.get(stem, "") if "circle" in space.names else "0",
                "view": "01"[row["ViewPosition"] == "CC"],
            }
            patient = row["empi_anon"]
            local = path[max(0, path.find("/cohort_")) :].lstrip("/")
            file = Path(_PNG, patient, f"{stem}.png") if as_png else Path("images", local)
            spot = row["spot_mag"]
            reasons = {
                "listed twice": path in seen,
                "not 2D": row["FinalImageType"] != "2D",
                "view other than CC and MLO": row["ViewPosition"] not in ("CC", "MLO"),
                "spot compression or magnification": not is_missing(spot) and number(spot) != 0,
                "no density A to D": not values["density"],
                "no prediction of markers": not values["circle"],
            }
            seen.add(path)
            yield Case(Source(root / file), file.as_posix(), values, patient, reasons=reasons)
