"""A folder of small pictures with a table."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from fcfg.causal.attributes import AttributeSpace, Binary, Categorical, Continuous
from fcfg.datasets.folder import FolderData

SPACE = AttributeSpace(
    [Binary("smiling"), Categorical("hair", ("dark", "fair")), Continuous("age", 0, 100)]
)


def picture(number: int, size: tuple[int, int] = (20, 16)) -> Image.Image:
    rng = np.random.default_rng(number)
    return Image.fromarray(rng.integers(0, 256, (size[1], size[0], 3), dtype=np.uint8))


def faces(folder: Path, count: int = 10, **columns: list[str]) -> FolderData:
    """Write a folder of small pictures; a column can be replaced or added."""
    names = [f"{'more/' if n % 3 == 0 else ''}{n}.png" for n in range(count)]
    table = {
        "file_name": names,
        "smiling": [str(n % 2) for n in range(count)],
        "hair": [["dark", "fair"][n % 2] for n in range(count)],
        "age": [str(20 + n) for n in range(count)],
    } | columns
    (folder / "more").mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(names):
        picture(number).save(folder / name)
    write_table(folder, table)
    return FolderData(path=folder, size=16)


def write_table(folder: Path, table: Mapping[str, Iterable[object]]) -> None:
    """Write the table of a folder."""
    with (folder / "metadata.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(table)
        writer.writerows(zip(*table.values(), strict=True))


def dicom(tmp_path: Path, pixels: np.ndarray, **elements: Any) -> Path:
    """A file as a scanner writes it."""
    from pydicom.dataset import Dataset, FileMetaDataset
    from pydicom.uid import ExplicitVRLittleEndian, SecondaryCaptureImageStorage, generate_uid

    record = Dataset()
    record.file_meta = FileMetaDataset()
    record.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    record.file_meta.MediaStorageSOPClassUID = SecondaryCaptureImageStorage
    record.file_meta.MediaStorageSOPInstanceUID = generate_uid(entropy_srcs=["fcfg"])
    record.SOPClassUID = record.file_meta.MediaStorageSOPClassUID
    record.SOPInstanceUID = record.file_meta.MediaStorageSOPInstanceUID
    record.Rows, record.Columns = pixels.shape[:2]
    record.SamplesPerPixel = 1 if pixels.ndim == 2 else 3
    record.PhotometricInterpretation = "MONOCHROME2"
    record.BitsAllocated = 8 * pixels.itemsize
    record.BitsStored = record.BitsAllocated if pixels.itemsize == 1 else 12
    record.HighBit, record.PixelRepresentation = record.BitsStored - 1, 0
    if pixels.ndim == 3:
        record.PlanarConfiguration = 0
    kinds = {"float32": "FloatPixelData", "float64": "DoubleFloatPixelData"}
    setattr(record, kinds.get(pixels.dtype.name, "PixelData"), pixels.tobytes())
    for name, value in elements.items():
        setattr(record, name, value)
    record.save_as(tmp_path / "x.dcm", enforce_file_format=True)
    return tmp_path / "x.dcm"
