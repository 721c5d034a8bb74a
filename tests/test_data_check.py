"""A look at a folder before training: everything that is wrong, at once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml
from PIL import Image
from typer.testing import CliRunner

from fcfg.attributes import AttributeSpace, Binary, Categorical, Continuous
from fcfg.cli import main
from fcfg.cli.data import data, starting_config
from fcfg.cli.heatmap import heatmap
from fcfg.datasets.check import Report, check_folder
from fcfg.datasets.folder import FolderData
from fcfg.datasets.infer import inferred, inferred_space
from fcfg.datasets.registry import load_data
from fcfg.graph import CausalGraph
from fcfg.training import read_config
from refusal import refused
from test_folder import faces, picture, write_table


def said(report: Report) -> dict[str, tuple[str, int, tuple[str, ...]]]:
    return {f.what: (f.severity, f.count, f.names) for f in report.findings}


def people(count: int) -> list[str]:
    return [f"p{n // 2}" for n in range(count)]


def test_a_good_folder_is_good_and_its_attributes_are_guessed(tmp_path: Path) -> None:
    faces(tmp_path, count=40, person=people(40))
    told: list[int] = []
    report = check_folder(
        tmp_path,
        FolderData(group="person", size=16),
        on_progress=lambda what, done, total: told.append(done),
    )
    assert report.ok
    assert not report.findings
    assert told == list(range(1, 41))
    assert report.space is not None
    assert report.space.to_config() == {
        "smiling": {"kind": "binary"},
        "hair": {"kind": "categorical", "levels": ["dark", "fair"]},
        "age": {"kind": "continuous", "low": 18.0, "high": 61.0},
    }
    assert report.splits == {"train": 32, "val": 4, "test": 4}
    assert report.images == 40
    assert list(report.sample) == ["train", "val", "test"]
    assert {images.shape for images in report.sample.values()} == {(4, 3, 16, 16)}
    assert not (tmp_path / ".fcfg-cache").exists()


def test_correlations_are_pearsons(tmp_path: Path) -> None:
    faces(tmp_path, count=40)
    report = check_folder(tmp_path)
    assert report.labels == ("smiling", "hair: dark", "hair: fair", "age")
    smiling, age = np.arange(40) % 2, np.arange(40)
    table = np.stack([smiling, 1 - smiling, smiling, age]).astype(float)
    assert np.allclose(report.correlations, np.corrcoef(table))


def test_everything_that_is_wrong_is_found_at_once(tmp_path: Path) -> None:
    count = 40
    names = [f"{'more/' if n % 3 == 0 else ''}{n}.png" for n in range(count)]
    names[1], names[2], names[4] = "../1.png", "gone.png", "5.png"
    parts = ["train"] * 20 + ["val"] * 18 + ["valid"] * 2
    faces(
        tmp_path,
        count=count,
        file_name=names,
        smiling=["", "2", *(str(n % 2) for n in range(38))],
        part=parts,
        person=[*people(38), "p0", ""],
        always=["1"] * count,
        rare=["1", *["0"] * 39],
    )
    (tmp_path / "7.png").write_bytes(b"no picture")
    picture(8).save(tmp_path / "25.png")  # 8 is in train, 25 in val
    picture(10).save(tmp_path / "11.png")
    picture(13, (30, 30)).save(tmp_path / "13.png")
    space = AttributeSpace(
        [Binary("smiling"), Continuous("height", 0, 3), Binary("always"), Binary("rare")]
    )
    report = check_folder(tmp_path, FolderData(split="part", group="person", size=16), space)
    found = said(report)
    assert not report.ok
    assert found["paths that leave the folder"] == ("error", 1, ("../1.png",))
    assert found["files listed more than once"] == ("error", 1, ("5.png",))
    assert found["files that do not exist"] == ("error", 1, ("gone.png",))
    assert found["images that metadata.csv does not list"][:2] == ("warning", 3)
    assert found["splits other than train, val, test"] == ("error", 1, ("valid",))
    assert found["no value for group 'person'"] == ("error", 1, ("more/39.png",))
    assert found["groups in more than one split"][2][:1] == ("p0",)
    assert found["attribute 'smiling': no value"] == ("error", 1, ("more/0.png",))
    assert found["attribute 'smiling': not 0 or 1 (or true, false)"][2] == ("../1.png: 2",)
    assert found["attribute 'always': always the same value"] == ("warning", 1, ("1",))
    assert found["attribute 'rare': levels with fewer than 10 images"][2] == ("1: 1",)
    assert found["images that cannot be read"][:2] == ("error", 1)
    assert found["same image in more than one split"] == ("warning", 1, ("8.png = 25.png",))
    assert found["same image more than once in a split"][2] == ("10.png = 11.png",)
    assert found["kinds of images, all brought to one"][2][1] == "30x30 RGB: 1"
    assert any("a column 'height'" in what for what in found)


@pytest.mark.parametrize(
    ("table", "options", "fragment"),
    [
        (None, {}, "a file 'metadata.csv'"),
        ({"name": ["a"]}, {}, "a column 'file_name'"),
        ({"file_name": []}, {}, "lists no image"),
        ({"file_name": ["a.png"]}, {}, "no column that looks like an attribute"),
        ({"file_name": ["a.png"], "age": ["1"]}, {}, "at least 3 groups"),
        ({"file_name": ["a.png"], "age": ["1"]}, {"split": "part"}, "a column 'part'"),
        ({"file_name": ["a.png"], "age": ["1"]}, {"group": "who"}, "a column 'who'"),
        ({"file_name": ["a.png"], "part": ["train"]}, {"split": "part"}, "splits without images"),
    ],
)
def test_however_little_there_is_nothing_is_raised(tmp_path, table, options, fragment) -> None:
    picture(1).save(tmp_path / "a.png")
    if table is not None:
        write_table(tmp_path / "metadata.csv", table)
    report = check_folder(tmp_path, FolderData(**options))
    assert not report.ok
    assert any(fragment in finding.what for finding in report.findings), report.findings


def test_dicom_without_its_reader_is_a_finding(tmp_path: Path, monkeypatch) -> None:
    import sys

    faces(tmp_path)
    (tmp_path / "1.png").rename(tmp_path / "1.dcm")
    table = (tmp_path / "metadata.csv").read_text().replace("1.png", "1.dcm", 1)
    (tmp_path / "metadata.csv").write_text(table)
    monkeypatch.setitem(sys.modules, "pydicom", None)
    assert any("fcfg[medical]" in what for what in said(check_folder(tmp_path)))


def test_what_looks_like_a_name_is_no_attribute() -> None:
    many = [f"text {n}" for n in range(50)]
    assert inferred("remark", many) is None
    assert inferred("id", ["1", "2"]) is None
    assert inferred("a.b", ["0", "1"]) is None
    assert inferred("place", ["here", "here"]) is None
    assert inferred("empty", ["", "nan"]) is None
    assert inferred("score", ["3", "3"]) == Continuous("score", 2.7, 3.3)
    assert inferred("stage", ["I", "II", "I", "III", "II", "I"]) == Categorical(
        "stage", ("I", "II", "III")
    )
    assert inferred_space({"remark": many}) is None


# The command


def run(*words: object) -> int:
    return main(["data", "check", *map(str, words)])


def test_a_good_folder_exits_with_nought_and_gives_two_pictures(tmp_path, capsys) -> None:
    faces(tmp_path, count=40)
    assert run(tmp_path) == 0
    said = capsys.readouterr().out
    assert "Training could begin" in said
    assert "40 images: train 32, val 4, test 4" in said
    for name in ("sheet.png", "correlations.png"):
        with Image.open(tmp_path / ".fcfg-check" / name) as page:
            assert page.width > 100
    assert run(tmp_path, "--out", tmp_path / "elsewhere") == 0
    assert (tmp_path / "elsewhere" / "sheet.png").exists()


def test_findings_are_printed_one_a_line_and_errors_exit_with_one(tmp_path, capsys) -> None:
    faces(tmp_path, count=40, smiling=["[2]"] * 40)
    space = tmp_path / "c.yaml"
    space.write_text("attributes: {smiling: {kind: binary}}")
    assert run(tmp_path, "--config", space) == 1
    lines = capsys.readouterr().out.splitlines()
    (line,) = [line for line in lines if line.startswith("error")]
    assert "attribute 'smiling'" in line
    assert "(40): more/0.png: [2], " in line
    assert line.endswith("and 30 more")
    assert "Not ready for training." in lines
    assert run(tmp_path, "--split", "part") == 1
    assert "error   metadata.csv: expected a column 'part'" in capsys.readouterr().out
    (tmp_path / "metadata.csv").unlink()
    assert run(tmp_path, "--init", tmp_path / "none.yaml") == 1
    assert not (tmp_path / "none.yaml").exists()


def test_what_cannot_be_looked_at_exits_with_two(tmp_path, capsys) -> None:
    assert run(tmp_path / "nowhere") == 2
    assert "expected a folder that exists" in capsys.readouterr().err
    for text, fragment in {
        "data: {format: embed}": "'data.format': expected 'folder', got str 'embed'",
        "- a list": "write one with --init",
        "data: 3": "'data': expected a valid dictionary",
        "attributes: {age: 3}": "'attributes.age'",
        "data: {size: 8, size: 16}": "'size' twice, in line 1",
        "{": "write one with --init",
    }.items():
        (tmp_path / "c.yaml").write_text(text)
        assert run(tmp_path, "--config", tmp_path / "c.yaml") == 2
        line = capsys.readouterr().err
        assert line.count("\n") == 1
        assert fragment in line


def test_the_first_configuration_loads_what_was_looked_at(tmp_path, capsys) -> None:
    faces(tmp_path, count=40, person=people(40), yes=["0", "1"] * 20)
    file = tmp_path / "faces.yaml"
    assert run(tmp_path, "--group", "person", "--init", file) == 0
    written = yaml.safe_load(file.read_text())
    assert list(written) == ["data", "attributes", "graph", "network", "diffusion", "judge"]
    assert read_config(str(file)).data.group == "person"  # all of it is legal
    space = AttributeSpace.from_config(written["attributes"])
    assert space.names == ("smiling", "hair", "age", "yes")
    assert set(CausalGraph(written["graph"]).nodes) == set(space.names)
    config = FolderData(**written["data"])
    assert config.group == "person"
    assert len(load_data(config, space)["train"]) == 32
    assert run(tmp_path, "--config", file) == 0
    capsys.readouterr()
    assert run(tmp_path, "--init", file) == 2
    assert "does not exist yet" in capsys.readouterr().err


def test_grey_images_make_a_grey_configuration_unless_told_otherwise(tmp_path: Path) -> None:
    faces(tmp_path, remark=[f"text {n}" for n in range(10)])
    for path in [*tmp_path.glob("*.png"), *tmp_path.glob("more/*.png")]:
        Image.open(path).convert("L").save(path)
    report = check_folder(tmp_path)
    assert said(report)["columns that look like no attribute"] == ("info", 1, ("remark",))
    assert yaml.safe_load(starting_config(report, FolderData()))["data"]["channels"] == 1
    assert yaml.safe_load(starting_config(report, FolderData(channels=3)))["data"]["channels"] == 3


@pytest.mark.parametrize(("side", "size"), [(9, 8), (40, 32), (64, 64), (500, 64)])
def test_the_first_configuration_enlarges_no_image(tmp_path: Path, side: int, size: int) -> None:
    faces(tmp_path)
    for path in [*tmp_path.glob("*.png"), *tmp_path.glob("more/*.png")]:
        Image.open(path).resize((side, side + 7)).save(path)
    report = check_folder(tmp_path)
    assert yaml.safe_load(starting_config(report, FolderData()))["data"]["size"] == size
    assert yaml.safe_load(starting_config(report, FolderData(size=128)))["data"]["size"] == 128


def test_help_has_an_example_and_needs_no_reading() -> None:
    result = CliRunner().invoke(data, ["check", "--help"])
    assert result.exit_code == 0
    assert "fcfg data check faces/" in result.output


def test_a_heat_map_is_red_where_things_go_together_and_blue_where_they_exclude() -> None:
    page = heatmap(["a", "bb"], np.array([[1.0, -0.9], [np.nan, 0.0]]))
    colours = {page.getpixel((x, y)) for x in range(page.width) for y in range(page.height)}
    assert (190, 64, 54) in colours
    assert any(blue > red + 80 for red, _, blue in colours)
    assert (225, 225, 225) in colours


def test_a_folder_that_is_missing_is_refused(tmp_path: Path) -> None:
    with refused("data, path", "exists"):
        check_folder(tmp_path / "nowhere")
