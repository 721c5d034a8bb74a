"""Known data sets: tiny trees with the real layout, and the protocol of each."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fcfg.causal.attributes import AttributeSpace, Binary
from fcfg.datasets.celeba import MosaicData
from fcfg.datasets.morphomnist import MorphoMNISTData
from fcfg.datasets.nih import NIHData
from fcfg.datasets.registry import DiskData
from refusal import refused
from stored import shared
from trees import celeba, embed, loaded, mimic, morphomnist, mosaic, nih, space_of, write


def test_celeba_hq_takes_the_split_of_the_originals(tmp_path: Path) -> None:
    config = celeba(tmp_path)
    found = loaded(config)
    assert found["0.jpg"] == {"split": "train", "pixel": 0, "smiling": 1, "male": 0, "young": 1}
    assert found["1.jpg"] == {"split": "val", "pixel": 50, "smiling": 0, "male": 1, "young": 1}
    assert found["2.jpg"] == {"split": "test", "pixel": 100, "smiling": 0, "male": 0, "young": 0}
    (tmp_path / "list_eval_partition.txt").write_text("119614.jpg 1\n162771.jpg 0\n182638.jpg 2\n")
    assert loaded(config)["0.jpg"]["split"] == "val"  # CelebA's own partition, where it is there


def test_celebas_broken_texts_are_refused(tmp_path) -> None:
    mapping, labels = "CelebA-HQ-to-CelebA-mapping.txt", "CelebAMask-HQ-attribute-anno.txt"
    config = celeba(tmp_path)
    for file, content, fragment in (
        (mapping, "idx orig_idx orig_file\n0 1 2.jpg\n", "'0.jpg'"),
        (mapping, "idx orig_idx orig_file\n", "no row for it"),
        (labels, "1\nMale Smiling Young\n0.jpg 1\n", "line 3"),
        (labels, "0\nMale Smiley Young\n", "if you mean 'smiley'"),
    ):
        whole = (tmp_path / file).read_text()
        (tmp_path / file).write_text(content)
        refused(file, fragment).by(loaded, config)
        (tmp_path / file).write_text(whole)


def test_every_cell_of_a_mosaic_is_an_image_and_one_that_is_missing_is_noticed(tmp_path) -> None:
    found = loaded(mosaic(tmp_path))
    assert len(found) == 1042
    for number, (name, values) in enumerate(sorted(found.items())):
        assert name == f"{number:06d}.jpg"
        assert abs(int(str(values["pixel"])) - number % 200) <= 2, name
        assert values["smiling"] == number % 2
    config = mosaic(tmp_path)
    Image.new("RGB", (2560, 64)).save(tmp_path / "mosaic_01.jpg")
    refused("images in", "2 that cannot", "outside of the 2560 by 64 pixels").by(loaded, config)
    (tmp_path / "mosaic_01.jpg").write_bytes(b"no picture")
    refused("images in", "42 that cannot", "mosaic_01.jpg").by(loaded, config)
    (tmp_path / "mosaic_01.jpg").unlink()
    refused("data in", "'mosaic_01.jpg'", "CelebA.html").by(loaded, config)
    write(tmp_path / "labels.csv", [["file", "split"]])
    refused("labels.csv", "'identity'").by(loaded, config)


def test_nih_is_read_from_its_archive_split_by_patient_and_what_is_broken_is_noticed(
    tmp_path,
) -> None:
    found = loaded(nih(tmp_path))
    for n in range(20):
        values = found[f"{n:08d}_000.jpg"]
        assert abs(int(str(values["pixel"])) - 10 * n) <= 1
        assert (values["sex"], values["view"], values["age"]) == (n % 2, n % 2, 30 + n)
        partner = found[f"{n ^ 1:08d}_000.jpg"]
        assert values["split"] == partner["split"]
    assert {values["split"] for values in found.values()} == {"train", "val", "test"}
    config = nih(tmp_path)
    for own in config.load(space_of(config)).values():
        assert own.groups == tuple(str(int(name[:8]) // 2) for name in own.names)
    archive = tmp_path / "nih_128_jpg.zip"
    with zipfile.ZipFile(archive, "w") as empty:
        empty.writestr("00000000_000.jpg", b"no picture")
    refused("images in", "20 that cannot", "no item named").by(loaded, config)
    archive.write_bytes(b"no archive")
    refused("images in", "20 that cannot", "nih_128_jpg.zip").by(loaded, config)
    refused("labels.csv", "'race'").by(config.listing, AttributeSpace([Binary("race")]))


@pytest.mark.parametrize("suffix", ["", "_reduced"])
def test_embed_halves_density_joins_markers_and_counts_what_it_leaves_out(
    tmp_path: Path, suffix: str
) -> None:
    config = embed(tmp_path, suffix)
    for patient in range(1, 9):
        path = tmp_path / f"images/png/1024x768/{patient}/{patient}.{patient}.CC.png"
        path.parent.mkdir(parents=True)
        Image.fromarray(np.full((32, 24), patient * 6000, np.uint16)).save(path)
    reasons = ["listed twice", "not 2D", "view other than CC and MLO", "no density A to D"]
    reasons += ["spot compression or magnification", "no prediction of markers"]
    assert config.listing(space_of(config)).excluded == dict.fromkeys(reasons, 1)
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
    assert found.cases[0].name == "images/cohort_1/1/1/1.1.CC.dcm"
    assert found.cases[0].source.path == tmp_path / found.cases[0].name
    assert {case.values["view"] for case in found.cases} == {"1"}
    refused("EMBED", "'age'").by(config.listing, AttributeSpace([Binary("age")]))


@pytest.mark.parametrize("race", ["race", "ethnicity"])
def test_mimic_follows_the_protocol_and_counts_what_it_leaves_out(tmp_path, race: str) -> None:
    config = mimic(tmp_path, race)
    reasons = ["view other than AP and PA", "race not among the three", "study without labels"]
    reasons += ["neither effusion nor without finding", "patient not in MIMIC-IV"]
    assert config.listing(space_of(config)).excluded == dict.fromkeys(reasons, 1)
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
    findings = {8: "Pleural Effusion"}
    for split, patients in {"train": range(5), "val": (5, 6), "test": (8, 9)}.items():
        rows: list[list[object]] = [[99, 99, "Male", "p99.jpg", 50.0, "White", "Other"]]
        for n in patients:
            path = f"p10/p1000000{n}/s5000000{n}/d-1000000{n}.jpg"
            finding = findings.get(n, "No Finding")
            rows.append([n, f"1000000{n}", "Male", path, 61.0, "Black", finding])
        write(tmp_path / f"mimic.sample.{split}.csv", [head, *rows])
    assert config.listing(space_of(config)).excluded == {"neither effusion nor without finding": 3}
    found = loaded(config)
    assert [values["split"] for values in found.values()].count("train") == 5
    name = "p10/p10000008/s50000008/d-10000008.jpg"
    values = {"race": 2, "sex": 0, "age": 61.0, "finding": 1}
    assert found[name] == {"split": "test", "pixel": 80} | values


def test_what_mimic_cannot_know_is_refused(tmp_path: Path) -> None:
    config = mimic(tmp_path)
    refused("MIMIC-CXR", "'view'").by(config.listing, AttributeSpace([Binary("view")]))
    people = [[10_000_000 + n, "F", "", 2175] for n in range(15)]
    head = ["subject_id", "gender", "anchor_age", "anchor_year"]
    write(tmp_path / "patients.csv.gz", [head, *people])
    refused("attribute 'age'", "none for 10: 'p10/").by(loaded, config)
    write(tmp_path / "hosp/admissions.csv", [["subject_id", "ethnic"], [1, "WHITE"]])
    refused("admissions.csv", "'race'").by(loaded, config)
    head = ["dicom_id", "subject_id", "study_id", "ViewPosition", "StudyDate"]
    write(tmp_path / "mimic-cxr-2.0.0-metadata.csv.gz", [head, ["d", 1, 2, "LATERAL", 21800506]])
    write(tmp_path / "hosp/admissions.csv", [["subject_id", "race"]])
    refused("data in", "none in 'train', 'val'", "view other than AP and PA").by(loaded, config)


@pytest.mark.parametrize("maker", [celeba, mosaic, nih, embed, mimic, morphomnist])
def test_what_a_tree_lacks_is_named_with_where_to_get_it(tmp_path: Path, maker) -> None:
    config = maker(tmp_path)
    suffixes = (".csv", ".gz", ".txt", ".zip", ".npz")
    needed = [path for path in tmp_path.rglob("*") if path.suffix in suffixes]
    for path in needed:
        path.rename(tmp_path / "away")
        refused("data in", path.name.removesuffix(".gz")).by(config.listing, space_of(config))
        (tmp_path / "away").rename(path)
    refused("data, path", "got none").by(type(config)().listing, space_of(config))


REAL = [(MosaicData, "celeba64", (24183, 2993, 2824)), (NIHData, "nih_cxr14", None)]
REAL += [(MorphoMNISTData, "morphomnist", (54000, 6000, 10000))]


@pytest.mark.parametrize(("made", "folder", "sizes"), REAL)
def test_real_labels_are_listed(made: type[DiskData], folder: str, sizes) -> None:
    config = made(path=shared(folder))
    found = config.listing(space_of(config))
    counts = tuple(len(found.split(split)) for split in ("train", "val", "test"))
    assert sizes in (None, counts)
    assert sum(counts) == len(found.cases)
