"""Known data sets: tiny trees with the real layout, and the protocol of each."""

from __future__ import annotations

import csv
import gzip
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fcfg.causal.attributes import AttributeSpace, Binary
from fcfg.datasets.celeba import CelebAData
from fcfg.datasets.embed import EmbedData
from fcfg.datasets.mimic import MimicData
from fcfg.datasets.mosaic import MosaicData
from fcfg.datasets.nih import NIHData
from fcfg.datasets.registry import (
    DiskData,
    default_attributes,
    load_data,
)
from refusal import refused


def grey(level: int, size: int = 24) -> Image.Image:
    return Image.new("L", (size, size), level)


def write(path: Path, rows: list[list[object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "wt", newline="") as file:
        csv.writer(file).writerows(rows)


def space_of(config: DiskData) -> AttributeSpace:
    defaults = default_attributes(config.format)
    assert defaults is not None
    return defaults[0]


def loaded(config: DiskData) -> dict[str, dict[str, object]]:
    """By the name of each image: its split, its first pixel, its attributes."""
    return {
        name: {"split": split, "pixel": int(examples.images[row, 0, 0, 0])}
        | {key: column[row].item() for key, column in examples.attributes.items()}
        for split, examples in load_data(config, space_of(config)).items()
        for row, name in enumerate(examples.names)
    }


# CelebA-HQ


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


def test_celeba_hq_takes_the_split_of_the_originals(tmp_path: Path) -> None:
    found = loaded(celeba(tmp_path))
    assert found["0.jpg"] == {"split": "train", "pixel": 0, "smiling": 1, "male": 0, "young": 1}
    assert found["1.jpg"] == {"split": "val", "pixel": 50, "smiling": 0, "male": 1, "young": 1}
    assert found["2.jpg"] == {"split": "test", "pixel": 100, "smiling": 0, "male": 0, "young": 0}


def test_celebas_own_partition_decides_where_it_is_there(tmp_path: Path) -> None:
    config = celeba(tmp_path)
    (tmp_path / "list_eval_partition.txt").write_text("119614.jpg 1\n162771.jpg 0\n182638.jpg 2\n")
    assert loaded(config)["0.jpg"]["split"] == "val"


@pytest.mark.parametrize(
    ("file", "content", "fragments"),
    [
        ("CelebA-HQ-to-CelebA-mapping.txt", "idx orig_idx orig_file\n0 1 2.jpg\n", ["'0.jpg'"]),
        ("CelebA-HQ-to-CelebA-mapping.txt", "idx orig_idx orig_file\n", ["no row for it"]),
        ("CelebAMask-HQ-attribute-anno.txt", "1\nMale Smiling Young\n0.jpg 1\n", ["line 3"]),
        ("CelebAMask-HQ-attribute-anno.txt", "0\nMale Smiley Young\n", ["if you mean 'smiley'"]),
    ],
)
def test_celebas_broken_texts_are_refused(tmp_path, file, content, fragments) -> None:
    config = celeba(tmp_path)
    (tmp_path / file).write_text(content)
    with refused(file, *fragments):
        loaded(config)


# CelebA in mosaics


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


def test_every_cell_of_a_mosaic_is_an_image(tmp_path: Path) -> None:
    found = loaded(mosaic(tmp_path))
    assert len(found) == 1042
    for number, (name, values) in enumerate(sorted(found.items())):
        assert name == f"{number:06d}.jpg"
        assert abs(int(str(values["pixel"])) - number % 200) <= 2, name
        assert values["smiling"] == number % 2


def test_a_mosaic_that_is_missing_or_too_small_is_noticed(tmp_path: Path) -> None:
    config = mosaic(tmp_path)
    Image.new("RGB", (2560, 64)).save(tmp_path / "mosaic_01.jpg")
    with refused("images in", "2 that cannot", "outside of the 2560 by 64 pixels"):
        loaded(config)
    (tmp_path / "mosaic_01.jpg").write_bytes(b"no picture")
    with refused("images in", "42 that cannot", "mosaic_01.jpg"):
        loaded(config)
    (tmp_path / "mosaic_01.jpg").unlink()
    with refused("data in", "'mosaic_01.jpg'", "CelebA.html"):
        loaded(config)
    write(tmp_path / "labels.csv", [["file", "split"]])
    with refused("labels.csv", "'identity'"):
        loaded(config)


# NIH ChestX-ray14


def nih(root: Path) -> NIHData:
    rows = [
        [f"{n:08d}_000.png", n // 2, 30 + n, "FM"[n % 2], ["PA", "AP"][n % 2], 0]
        for n in range(20)
    ]
    head = ["image", "patient_id", "age", "sex", "view", "effusion"]
    write(root / "labels.csv", [head, *rows])
    with zipfile.ZipFile(root / "nih_128_jpg.zip", "w") as archive:
        for n in range(20):
            grey(10 * n).save(root / "one.jpg")
            archive.write(root / "one.jpg", f"{n:08d}_000.jpg")
    return NIHData(path=root, size=16)


def test_nih_is_read_from_its_archive_and_split_by_patient(tmp_path: Path) -> None:
    found = loaded(nih(tmp_path))
    for n in range(20):
        values = found[f"{n:08d}_000.jpg"]
        assert abs(int(str(values["pixel"])) - 10 * n) <= 1
        assert (values["sex"], values["view"], values["age"]) == (n % 2, n % 2, 30 + n)
        partner = found[f"{n ^ 1:08d}_000.jpg"]
        assert values["split"] == partner["split"]
    assert {values["split"] for values in found.values()} == {"train", "val", "test"}


def test_archives_that_are_broken_or_lack_images_are_noticed(tmp_path: Path) -> None:
    config = nih(tmp_path)
    archive = tmp_path / "nih_128_jpg.zip"
    with zipfile.ZipFile(archive, "w") as empty:
        empty.writestr("00000000_000.jpg", b"no picture")
    with refused("images in", "20 that cannot", "no item named"):
        loaded(config)
    archive.write_bytes(b"no archive")
    with refused("images in", "20 that cannot", "nih_128_jpg.zip"):
        loaded(config)
    with refused("labels.csv", "'race'"):
        config.listing(AttributeSpace([Binary("race")]))


# EMBED

META = ["empi_anon", "acc_anon", "anon_dicom_path", "FinalImageType", "ViewPosition", "spot_mag"]


def embed(root: Path, suffix: str = "") -> EmbedData:
    def image(patient: int, exam: int, kind="2D", view="CC", spot: object = "") -> list[object]:
        path = f"/mnt/NAS2/mammo/anon_dicom/cohort_1/{patient}/{exam}/{patient}.{exam}.{view}.dcm"
        return [patient, exam, path, kind, view, spot]

    taken = [image(p, p) for p in range(1, 9)]
    others = [
        taken[0],
        image(1, 1, "cview", "MLO"),
        image(1, 1, view="ML"),
        image(2, 2, view="MLO", spot=1.0),
        image(10, 10),
        image(11, 11),
    ]
    write(root / f"tables/EMBED_OpenData_metadata{suffix}.csv", [META, *taken, *others])
    # the last two have no density of a woman, and one has no prediction
    exams = [[p, (p - 1) % 4 + 1.0] for p in range(1, 9)] + [[1, 4.0], [10, 5.0], [11, 3.0]]
    exams.insert(0, [1, ""])  # a finding without density, before one with
    write(
        root / f"tables/EMBED_OpenData_clinical{suffix}.csv", [["acc_anon", "tissueden"], *exams]
    )
    markers = [[f"/data/x/{p}/{p}.{p}.CC.png", p % 2, 0] for p in range(1, 9)]
    head = ["image_path", "circle marker", "compression"]
    write(root / "tables/predicted_all_embed.csv", [head, *markers])
    return EmbedData(path=root, size=16)


EXCLUDED = {
    "listed twice": 1,
    "not 2D": 1,
    "view other than CC and MLO": 1,
    "spot compression or magnification": 1,
    "no density A to D": 1,
    "no prediction of markers": 1,
}


@pytest.mark.parametrize("suffix", ["", "_reduced"])
def test_embed_halves_density_joins_markers_and_counts_what_it_leaves_out(
    tmp_path: Path, suffix: str
) -> None:
    config = embed(tmp_path, suffix)
    for patient in range(1, 9):
        path = tmp_path / f"images/png/1024x768/{patient}/{patient}.{patient}.CC.png"
        path.parent.mkdir(parents=True)
        Image.fromarray(np.full((32, 24), patient * 6000, np.uint16)).save(path)
    assert config.listing(space_of(config)).excluded == EXCLUDED
    found = loaded(config.model_copy(update={"fit": "crop"}))
    assert len(found) == 8
    for patient in range(1, 9):
        values = found[f"images/png/1024x768/{patient}/{patient}.{patient}.CC.png"]
        assert values["density"] == ((patient - 1) % 4 >= 2)
        assert values["circle"] == patient % 2
        assert values["pixel"] == round(patient * 6000 / 257)


def test_embed_finds_dicom_files_below_their_cohort(tmp_path: Path) -> None:
    config = embed(tmp_path)
    space = AttributeSpace([Binary("density"), Binary("view")])
    (tmp_path / "tables/predicted_all_embed.csv").unlink()  # nobody asks for circles
    found = config.listing(space)
    assert found.names[0] == "images/cohort_1/1/1/1.1.CC.dcm"
    assert found.sources[0].path == tmp_path / found.names[0]
    assert set(found.columns["view"]) == {"1"}
    with refused("EMBED", "'age'"):
        config.listing(AttributeSpace([Binary("age")]))


# MIMIC-CXR


def mimic(root: Path, race: str = "race") -> MimicData:
    """Ten patients with one study each, then what the protocol leaves out."""
    cases = [
        # patient, view, race, no finding, effusion
        *(
            (10_000_000 + n, "AP" if n % 2 else "PA", ["WHITE", "ASIAN"][n % 2], "1.0", "")
            for n in range(8)
        ),
        (10_000_008, "PA", "BLACK/AFRICAN AMERICAN", "", "1.0"),
        (10_000_009, "PA", "WHITE", "1.0", "1.0"),
        (10_000_010, "LATERAL", "WHITE", "1.0", ""),
        (10_000_011, "PA", "OTHER", "1.0", ""),
        (10_000_012, "PA", "WHITE", "", "-1.0"),
        (10_000_013, "PA", "WHITE", None, None),
        (10_000_014, "PA", None, "1.0", ""),
    ]
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


@pytest.mark.parametrize("race", ["race", "ethnicity"])
def test_mimic_follows_the_protocol_and_counts_what_it_leaves_out(tmp_path, race: str) -> None:
    config = mimic(tmp_path, race)
    assert config.listing(space_of(config)).excluded == {
        "view other than AP and PA": 1,
        "race not among the three": 1,
        "neither effusion nor without finding": 1,
        "study without labels": 1,
        "patient not in MIMIC-IV": 1,
    }
    found = {name.split("/")[1]: values for name, values in loaded(config).items()}
    assert len(found) == 10
    for p, values in found.items():
        n = int(p[1:]) - 10_000_000
        assert abs(int(str(values["pixel"])) - 10 * n) <= 1
        assert values["sex"] == (n % 2 == 0)  # 1: female
        assert values["age"] == 55
        assert values["race"] == (2 if n == 8 else 0 if n == 9 else n % 2)
        assert values["finding"] == (n >= 8)


def test_mimic_takes_the_tables_of_the_protocol_where_there_are_some(tmp_path: Path) -> None:
    config = mimic(tmp_path).model_copy(update={"samples": tmp_path})
    head = ["", "subject_id", "sex", "path", "age", "race", "disease"]
    for split, patients in {"train": range(5), "val": (5, 6), "test": (8, 9)}.items():
        rows: list[list[object]] = []
        for n in patients:
            path = f"p10/p1000000{n}/s5000000{n}/d-1000000{n}.jpg"
            disease = "Pleural Effusion" if n == 8 else "No Finding"
            rows.append([n, f"1000000{n}", "Male", path, 61.0, "Black", disease])
        rows.append([99, 99, "Male", "p99.jpg", 50.0, "White", "Other"])
        write(tmp_path / f"mimic.sample.{split}.csv", [head, *rows])
    assert config.listing(space_of(config)).excluded == {"neither effusion nor without finding": 3}
    found = loaded(config)
    assert [values["split"] for values in found.values()].count("train") == 5
    name = "p10/p10000008/s50000008/d-10000008.jpg"
    assert found[name] == {
        "split": "test",
        "pixel": 80,
        "race": 2,
        "sex": 0,
        "age": 61.0,
        "finding": 1,
    }


def test_what_mimic_cannot_know_is_refused(tmp_path: Path) -> None:
    config = mimic(tmp_path)
    with refused("MIMIC-CXR", "'view'"):
        config.listing(AttributeSpace([Binary("view")]))
    head = ["subject_id", "gender", "anchor_age", "anchor_year"]
    write(
        tmp_path / "patients.csv.gz", [head, *([10_000_000 + n, "F", "", 2175] for n in range(15))]
    )
    with refused("attribute 'age'", "none for 'p10/"):
        loaded(config)
    write(tmp_path / "hosp/admissions.csv", [["subject_id", "ethnic"], [1, "WHITE"]])
    with refused("admissions.csv", "'race'"):
        loaded(config)
    write(tmp_path / "mimic-cxr-2.0.0-metadata.csv.gz", [["dicom_id", "subject_id", "study_id",
          "ViewPosition", "StudyDate"], ["d", 1, 2, "LATERAL", 21800506]])  # fmt: skip
    write(tmp_path / "hosp/admissions.csv", [["subject_id", "race"]])
    with refused("data in", "one example in 'train'", "view other than AP and PA"):
        loaded(config)
