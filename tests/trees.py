"""Tiny trees of known data sets with the real layout."""

from __future__ import annotations

import csv
import gzip
import zipfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from fcfg import AttributeSpace, CausalGraph
from fcfg.datasets.celeba import CelebAData, MosaicData
from fcfg.datasets.embed import EmbedData
from fcfg.datasets.mimic import MimicData
from fcfg.datasets.morphomnist import MorphoMNISTData
from fcfg.datasets.nih import NIHData
from fcfg.datasets.registry import DiskData
from fcfg.training import read_config

META = ["empi_anon", "acc_anon", "anon_dicom_path", "FinalImageType", "ViewPosition", "spot_mag"]


def grey(level: int, size: int = 24) -> Image.Image:
    return Image.new("L", (size, size), level)


def write(path: Path, rows: list[list[object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "wt", newline="") as file:
        csv.writer(file).writerows(rows)


PRESETS = {"celeba-mosaic": "celeba-64", "morphomnist": "digits", "nih-cxr14": "radiographs"}


def usual(format: str) -> tuple[AttributeSpace, CausalGraph]:
    """What the configuration of the package for a data set says."""
    config = read_config(PRESETS.get(format, format))
    return config.space, CausalGraph(config.graph)


def space_of(config: DiskData) -> AttributeSpace:
    return usual(config.format)[0]


def loaded(config: DiskData) -> dict[str, dict[str, object]]:
    """By the name of each image: its split, its first pixel, its attributes."""
    return {
        name: {"split": split, "pixel": int(examples.images[row, 0, 0, 0])}
        | {key: column[row].item() for key, column in examples.attributes.items()}
        for split, examples in config.load(space_of(config)).items()
        for row, name in enumerate(examples.names)
    }


def celeba(root: Path) -> CelebAData:
    originals = ["119614", "162771", "182638"]  # one of each part of CelebA
    (root / "CelebA-HQ-img").mkdir()
    for number in range(3):
        grey(50 * number, 32).convert("RGB").save(root / "CelebA-HQ-img" / f"{number}.jpg")
    (root / "CelebAMask-HQ-attribute-anno.txt").write_text(
        "3\nMale Smiling Young \n0.jpg  -1  1  1\n1.jpg   1 -1  1\n2.jpg  -1 -1 -1\n"
    )
    (root / "CelebA-HQ-to-CelebA-mapping.txt").write_text(
        "idx         orig_idx    orig_file\n"
        + "".join(f"{i}   {int(o) - 1}   {o}.jpg\n" for i, o in enumerate(originals))
    )
    return CelebAData(path=root, size=16)


def mosaic(root: Path, count: int = 1042) -> MosaicData:
    for number in range(-(-count // 1000)):
        cells = min(1000, count - 1000 * number)
        page = Image.new("RGB", (40 * 64, -(-cells // 40) * 64))
        for cell in range(cells):
            left, upper = cell % 40 * 64, cell // 40 * 64
            level = (1000 * number + cell) % 200
            page.paste((level,) * 3, (left, upper, left + 64, upper + 64))
        page.save(root / f"mosaic_{number:02d}.jpg", quality=95)
    parts = ["train", "val", "test"]
    rows = [[f"{n:06d}.jpg", parts[n % 3], n % 300, 0, n % 2, 1, 0] for n in range(count)]
    head = ["file", "split", "identity", "in_celebahq", "Smiling", "Male", "Young"]
    write(root / "labels.csv", [head, *rows])
    return MosaicData(path=root)


def nih(root: Path) -> NIHData:
    kinds = [("F", "PA"), ("M", "AP")]
    rows = [[f"{n:08d}_000.png", n // 2, 30 + n, *kinds[n % 2], 0] for n in range(20)]
    head = ["image", "patient_id", "age", "sex", "view", "effusion"]
    write(root / "labels.csv", [head, *rows])
    with zipfile.ZipFile(root / "nih_128_jpg.zip", "w") as archive:
        for n in range(20):
            grey(10 * n).save(root / "one.jpg")
            archive.write(root / "one.jpg", f"{n:08d}_000.jpg")
    return NIHData(path=root, size=16)


def embed(root: Path, suffix: str = "") -> EmbedData:
    def image(patient: int, exam: int, kind="2D", view="CC", spot: object = "") -> list[object]:
        path = f"/mnt/NAS2/mammo/anon_dicom/cohort_1/{patient}/{exam}/{patient}.{exam}.{view}.dcm"
        return [patient, exam, path, kind, view, spot]

    taken = [image(p, p) for p in range(1, 9)]
    others = [taken[0], image(1, 1, "cview", "MLO"), image(1, 1, view="ML")]
    others += [image(2, 2, view="MLO", spot=1.0), image(10, 10), image(11, 11)]
    write(root / f"tables/EMBED_OpenData_metadata{suffix}.csv", [META, *taken, *others])
    # the last two have no density of a woman, and one has no prediction
    exams: list[list[object]] = [["acc_anon", "tissueden"], [1, ""]]  # one without, before others
    exams += [[p, (p - 1) % 4 + 1.0] for p in range(1, 9)] + [[1, 4.0], [10, 5.0], [11, 3.0]]
    write(root / f"tables/EMBED_OpenData_clinical{suffix}.csv", exams)
    markers = [[f"/data/x/{p}/{p}.{p}.CC.png", p % 2, 0] for p in range(1, 9)]
    head = ["image_path", "circle marker", "compression"]
    write(root / "tables/predicted_all_embed.csv", [head, *markers])
    return EmbedData(path=root, size=16)


def mimic(root: Path, race: str = "race") -> MimicData:
    """Ten patients with one study each, then what the protocol leaves out."""
    # View, race, no finding, effusion.
    others = [("PA", "BLACK/AFRICAN AMERICAN", "", "1.0"), ("PA", "WHITE", "1.0", "1.0")]
    others += [("LATERAL", "WHITE", "1.0", ""), ("PA", "OTHER", "1.0", "")]
    others += [("PA", "WHITE", "", "-1.0"), ("PA", "WHITE", None, None), ("PA", None, "1.0", "")]
    first = [(["PA", "AP"][n % 2], ["WHITE", "ASIAN"][n % 2], "1.0", "") for n in range(8)]
    cases = [(10_000_000 + n, *case) for n, case in enumerate(first + others)]
    studies = {patient: patient + 40_000_000 for patient, *_ in cases}
    head = ["dicom_id", "subject_id", "study_id", "ViewPosition", "StudyDate"]
    images = [[f"d-{p}", p, studies[p], view, 21800506] for p, view, *_ in cases]
    write(root / "mimic-cxr-2.0.0-metadata.csv.gz", [head, *images])
    labels = [[p, studies[p], well, ill] for p, _, _, well, ill in cases if well is not None]
    head = ["subject_id", "study_id", "No Finding", "Pleural Effusion"]
    write(root / "mimic-cxr-2.0.0-chexpert.csv.gz", [head, *labels])
    people = [[p, "FM"[p % 2], 50, 2175] for p, _, r, *_ in cases if r is not None]
    head = ["subject_id", "gender", "anchor_age", "anchor_year"]
    write(root / "patients.csv.gz", [head, *people])
    stays = [[p, r] for p, _, r, *_ in cases if r is not None]
    write(root / "hosp/admissions.csv", [["subject_id", race], *stays, [10_000_000, "OTHER"]])
    for p, study in studies.items():
        path = root / f"files/p10/p{p}/s{study}/d-{p}.jpg"
        path.parent.mkdir(parents=True)
        grey(p % 100 * 10).save(path)
    return MimicData(path=root, size=16)


def ring(thickness: float, intensity: float, radius: float = 8.0) -> NDArray[np.uint8]:
    """A circle with soft edges, 28 by 28."""
    y, x = np.mgrid[:28, :28] - 13.5
    inside = thickness / 2 + 0.5 - abs(np.hypot(x, y) - radius)
    return np.round(intensity * inside.clip(0, 1)).astype(np.uint8)


def morphomnist(root: Path, train: int = 10, test: int = 6, **changes: object) -> MorphoMNISTData:
    """Rings of different thickness and intensity, with any arrays replaced."""
    rng, arrays = np.random.default_rng(0), {}
    for split, count in (("train", train), ("test", test)):
        thickness = rng.uniform(2.5, 5, count).astype(np.float32)
        intensity = rng.uniform(100, 250, count).astype(np.float32)
        rings = [ring(*values) for values in zip(thickness, intensity, strict=True)]
        arrays |= {f"x_{split}": np.stack(rings), f"thickness_{split}": thickness}
        digits = np.arange(count, dtype=np.uint8) % 10
        arrays |= {f"intensity_{split}": intensity, f"y_{split}": digits}
    arrays = {name: array for name, array in (arrays | changes).items() if array is not None}
    np.savez(root / "morphomnist.npz", **arrays)
    return MorphoMNISTData(path=root)
