"""A look at a folder before training: everything that is wrong, at once."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import yaml
from PIL import Image

import fcfg
from face_folder import SPACE, faces, picture, write_table
from fcfg import AttributeSpace, Binary, Categorical, CausalGraph, Continuous, InputError
from fcfg.causal.intervention import intervened
from fcfg.cli import main
from fcfg.cli.data import proposed_size, starting_config
from fcfg.datasets.check import FolderReport, check_folder
from fcfg.datasets.columns import parse_column
from fcfg.datasets.folder import FolderData
from fcfg.datasets.guesses import guess_attribute
from fcfg.evaluation.result_files import read_results
from fcfg.generation import find_pictures
from fcfg.metrics import find_lpips
from fcfg.sheet import heatmap
from fcfg.support.tables import read_columns
from fcfg.training import read_config
from refusal import refused


def said(report: FolderReport, severity: str) -> dict[str, tuple[str, ...]]:
    return {f.what: f.names for f in report.findings if f.severity == severity}


def errors(report: FolderReport) -> str:
    return "\n".join(said(report, "error"))


def people(count: int) -> list[str]:
    return [f"p{n // 2}" for n in range(count)]


def test_a_good_folder_is_good_and_its_attributes_are_guessed(tmp_path: Path) -> None:
    faces(tmp_path, count=40, person=people(40))
    told: list[int] = []
    config = FolderData(group="person", size=16)
    report = check_folder(
        tmp_path, config, on_progress=lambda what, done, total: told.append(done)
    )
    assert report.ok
    assert not report.findings
    assert told == list(range(1, 41))
    assert report.space.to_config() == {
        "smiling": {"kind": "binary"},
        "hair": {"kind": "binary", "levels": ["dark", "fair"]},
        "age": {"kind": "continuous", "low": 18.0, "high": 61.0},
    }
    assert (report.images, report.splits) == (40, {"train": 32, "val": 4, "test": 4})
    assert list(report.sample) == ["train", "val", "test"]
    assert {images.shape for images in report.sample.values()} == {(4, 3, 16, 16)}
    assert not (tmp_path / ".fcfg-cache").exists()


def test_correlations_are_pearsons(tmp_path: Path) -> None:
    faces(tmp_path, count=40)
    report = check_folder(tmp_path, space=SPACE)
    assert report.labels == ("smiling", "hair: dark", "hair: fair", "age")
    smiling, age = np.arange(40) % 2, np.arange(40)
    table = np.stack([smiling, 1 - smiling, smiling, age]).astype(float)
    assert np.allclose(report.correlations, np.corrcoef(table))


def test_everything_that_is_wrong_is_found_at_once(tmp_path: Path) -> None:
    count = 40
    names = [f"{'more/' if n % 3 == 0 else ''}{n}.png" for n in range(count)]
    names[1], names[2], names[4], names[16] = "../1.png", "x" * 300, "5.png", "a\0b"
    columns = {"file_name": names, "smiling": ["", "2", *(str(n % 2) for n in range(38))]}
    columns |= {"part": ["train"] * 20 + ["val"] * 18 + ["valid"] * 2, "always": ["1"] * count}
    columns |= {"person": [*people(38), "p0", ""], "rare": ["1", *["0"] * 39]}
    faces(tmp_path, count=count, **columns)
    (tmp_path / "7.png").write_bytes(b"no picture")
    picture(8).save(tmp_path / "25.png")  # 8 is in train, 25 in val
    picture(10).save(tmp_path / "11.png")
    picture(13, (30, 30)).save(tmp_path / "13.png")
    picture(14).save(tmp_path / "14.png", save_all=True, append_images=[picture(2)])
    space = AttributeSpace(
        [Binary("smiling"), Continuous("height", 0, 3), Binary("always"), Binary("rare")]
    )
    report = check_folder(tmp_path, FolderData(split="part", group="person", size=16), space)
    assert not report.ok
    for fragment in (
        "without '..', got '../1.png'",
        "every file once, got '5.png' more than once",
        "a column 'height'",
        "one of 'train', 'val', 'test', got 'valid'",
        "a value for every image, got none for 'more/39.png'",
        "every group in one split only, got 'p0'",
        "got none for 1: 'more/0.png'",
        "0 or 1 (or true, false, yes, no), got '2' for '../1.png'",
    ):
        assert fragment in errors(report)
    unreadable = said(report, "error")["images that cannot be read"]
    assert [name.split(" ")[0] for name in unreadable] == [*names[1:3], "7.png", "a\0b"]
    warned, told = said(report, "warning"), said(report, "info")
    assert len(warned.pop("images that metadata.csv does not list")) == 4
    assert warned == {
        "attribute 'always': always the same value": ("1",),
        "attribute 'rare': levels with fewer than 10 images": ("1: 1",),
        "same image in more than one split": ("8.png = 25.png",),
        "files with several frames (only the first is used)": ("14.png",),
    }
    assert told["same image more than once in a split"] == ("10.png = 11.png",)
    assert told["sizes and modes, all converted to one"][1] == "30x30 RGB: 1"


def test_however_little_there_is_nothing_is_raised(tmp_path) -> None:
    (tmp_path / "a.png").write_bytes(b"no picture")
    lone = {"file_name": ["a.png"]}
    for table, options, fragment in (
        (None, {}, "a file 'metadata.csv'"),
        ({"name": ["a"]}, {}, "a column 'file_name'"),
        ({"file_name": []}, {}, "lists no image"),
        (lone, {}, "no column that looks like an attribute"),
        (lone | {"age": ["1"]}, {}, "at least 3 groups"),
        (lone | {"age": ["1"]}, {"split": "part"}, "a column 'part'"),
        (lone | {"age": ["1"]}, {"group": "who"}, "a column 'who'"),
        (lone | {"part": ["train"]}, {"split": "part"}, "none in 'val'"),
    ):
        if table is not None:
            write_table(tmp_path, table)
        report = check_folder(tmp_path, FolderData(**options))
        assert fragment in errors(report)
        size, why = proposed_size(report, FolderData())
        assert size == 64
        assert "the default" in why


def test_dicom_without_its_reader_is_a_finding(tmp_path: Path, monkeypatch) -> None:
    faces(tmp_path, file_name=["x.dcm", *(f"{n}.png" for n in range(1, 10))])
    (tmp_path / "x.dcm").write_bytes(b"no picture")
    monkeypatch.setitem(sys.modules, "pydicom", None)
    assert "fcfg[medical]" in errors(check_folder(tmp_path))


def test_kinds_follow_from_names_and_values() -> None:
    for name, texts, guessed in (
        ("remark", [f"text {n}" for n in range(50)], "50 different texts in 50 rows"),
        ("id", ["1", "2"], "an identifier, by its name"),
        ("place", ["here", "here"], "always the same text"),
        ("empty", ["", "nan", "NA", "n/a", "null", "?"], "no values"),
        ("comma", ["1,5", "2"], "numbers with decimal commas; write points"),
        ("far", ["1e308", "-1e308"], "2 different numbers from -1e+308 to 1e+308"),
        ("near", ["1e-200", "2e-200"], "2 different numbers from 1e-200 to 2e-200"),
        ("x", ["3", "3"], Continuous("x", 2.7, 3.3)),
        ("x", ["I", "II", "I", "III", "II", "I"], Categorical("x", ("I", "II", "III"))),
        ("x", ["yes", "No"], Binary("x")),
        ("x", [str(n % 10) for n in range(50)], Categorical("x", tuple("0123456789"))),
        ("x", [str(n % 10) for n in range(49)], Continuous("x", -0.5, 9.5)),  # too few of each
        ("x", [str(n % 11) for n in range(99)], Continuous("x", -0.5, 10.5)),  # too many different
        ("x", ["10", "9", "-1"] * 5, Categorical("x", ("-1", "9", "10"))),
        ("x", ["1", "2"] * 5, Categorical("x", ("1", "2"))),
        ("x", ["1", "1.0", "2"] * 5, Continuous("x", 0.95, 2.05)),  # two texts for one number
        ("x", ["1", "2.5"] * 5, Continuous("x", 0.92, 2.58)),
    ):
        guess = guess_attribute(name, texts)
        assert guessed in (guess.attribute, guess.why)
        assert (guess.attribute is None) == isinstance(guessed, str)
        assert (guess.odd, guess.question) == (("1,5",) * (name == "comma"), "")


def test_columns_that_are_no_attributes_are_findings_with_the_reason(tmp_path: Path) -> None:
    bit, many = [str(n % 2) for n in range(40)], [f"text {n}" for n in range(40)]
    names = {"a+b": "'+', which joins the targets", "x:y": "':'", "c.d": "'.'", " e": "space"}
    names["affected"] = "other than 'affected'"
    sizes = [f"{n}.5" for n in range(38)] + ["inf", "12 cm"]
    columns = {"free.text": many, "size": sizes, "seen": ["0", "1", "unknown", "1"] * 10}
    columns["smiling"] = ["1", "NA"] * 20
    config = faces(tmp_path, count=40, **dict.fromkeys(names, bit), **columns)
    report = check_folder(tmp_path)
    ignored, odd, _ = said(report, "warning").items()
    assert "no attribute may have their names" in ignored[0]
    for column, fragment in zip(ignored[1], names.values(), strict=True):
        assert fragment in column
    assert odd == (
        "columns of numbers with texts, which may be missing values or typing errors",
        ("size ('12 cm', 'inf')", "seen ('unknown')"),
    )
    aside = said(report, "info")["columns that do not look like attributes"]
    assert aside[0] == "free.text (40 different texts in 40 rows)"
    assert "attribute 'smiling'" in errors(report)
    usable = config.model_copy(update={"rename": {"both": "a+b"}})
    assert check_folder(tmp_path, usable, AttributeSpace([Binary("both")])).ok


def test_a_wide_table_shows_some_correlations_and_says_so(tmp_path: Path) -> None:
    wide = {f"c{n}": [str((n + row) % 2) for row in range(40)] for n in range(100)}
    config = faces(tmp_path, count=40, **{"": ["0"] * 40}, **wide)  # as an index that was saved
    report = check_folder(tmp_path, config)
    assert report.labels[:4] == ("smiling", "hair", "age", "c0")
    assert report.correlations.shape == (60, 60)
    what = "attributes without correlations: 60 numbers are shown at most"
    assert said(report, "info")[what] == tuple(f"c{n}" for n in range(57, 100))
    hair = Categorical("hair", ("dark", "fair", *map(str, range(99))))
    assert check_folder(tmp_path, space=AttributeSpace([hair])).labels == ()
    assert heatmap(report.labels, report.correlations).width < 4000
    loaded = config.load(SPACE)  # a column without a name is no group
    assert report.splits == {split: len(examples) for split, examples in loaded.items()}


SEEDED = np.random.default_rng(0)
QUANTITIES = {  # which occur in several images each
    "age": SEEDED.integers(20, 80, 600),
    "years": SEEDED.integers(1950, 2024, 600),
    "count": SEEDED.geometric(0.02, 600),
    "dose": 50 * SEEDED.integers(1, 80, 600),
    "thickness": SEEDED.normal(2, 0.5, 600).round(1),
    "of_a_patient": np.repeat(SEEDED.integers(20, 80, 120), 5),
}
IDENTIFIERS = {  # of five images each
    "patient": np.repeat(np.arange(120) + 1, 5),  # known by its name alone
    "nr": np.repeat(SEEDED.choice(30_000, 120, replace=False), 5),
    "mixed": SEEDED.permutation(np.repeat(SEEDED.choice(30_000, 120, replace=False), 5)),
    "code": [f"p{n}" for n in np.repeat(SEEDED.permutation(120), 5)],
    "patient_id": np.repeat(SEEDED.choice(30_000, 120, replace=False), 5),
    "shuffled": np.repeat(SEEDED.permutation(120), 5),
    "all": np.repeat(np.arange(400) + 1, 2),  # of so many that it is no age
}


def test_what_names_several_images_is_asked_about_and_quantities_are_not() -> None:
    for name, quantity in QUANTITIES.items():
        for values in (quantity, np.sort(quantity)):
            assert guess_attribute(name, [f"{value:g}" for value in values]).question == ""
    for name, identifier in IDENTIFIERS.items():
        guess = guess_attribute(name, texts := [str(value) for value in identifier])
        assert guess.question.startswith(f"{len(set(texts))} values in {len(texts)} rows, ")
        assert (guess.attribute is None) == (name in ("patient", "patient_id", "code"))


def test_rows_without_a_value_are_left_out_if_that_is_asked_for(tmp_path: Path) -> None:
    ages = ["", "NA", *(str(20 + n) for n in range(38))]
    config = faces(tmp_path, count=40, age=ages, smiling=["0", "1"] * 19 + ["?", "1"])
    gone = {"more/0.png", "1.png", "38.png"}
    (tmp_path / "1.png").write_bytes(b"no picture, and nobody asks for it")
    refused("attribute 'smiling'", "none for 1: '38", "none for 2: 'more").by(config.load, SPACE)
    assert run(tmp_path) == 1
    file = tmp_path / "first.yaml"
    assert run(tmp_path, "--missing", "drop", "--init", file) == 0
    written = read_config(str(file))
    report = check_folder(tmp_path, written.data, written.space)
    assert (report.images, report.splits) == (37, {"train": 29, "val": 4, "test": 4})
    assert {name for finding in report.findings for name in finding.names} == gone
    splits = written.data.load(written.space)
    names = {name for examples in splits.values() for name in examples.names}
    assert len(names) == 37
    assert not names & gone
    excluded = written.data.listing(written.space).excluded
    assert excluded == {"no value for smiling": 1, "no value for age": 2}


def test_two_texts_are_binary_and_keep_their_names(tmp_path: Path) -> None:
    config = faces(tmp_path, count=40, sex=["F", "M"] * 20)
    (sex,) = [a for a in check_folder(tmp_path).space or () if a.name == "sex"]
    assert sex == Binary("sex", ["F", "M"])
    assert AttributeSpace.from_config(AttributeSpace([sex]).to_config()) == AttributeSpace([sex])
    for examples in config.load(AttributeSpace([sex])).values():
        numbers = [int(Path(name).stem) % 2 for name in examples.names]
        assert examples.attributes["sex"].tolist() == numbers
    parsed = parse_column(sex, ["F", "M", "0", "f"])
    assert (parsed.column.tolist(), parsed.illegal) == ([0, 1, 0, 0], [3])
    parsed = parse_column(Categorical("x", ("NA", "EU")), ["NA", "EU", ""])  # declared: no gap
    assert (parsed.column.tolist(), parsed.missing, parsed.illegal) == ([0, 1, 0], [2], [])
    assert intervened(sex, "M", np.array([0, 1])).tolist() == [1, 1]
    assert intervened(sex, "flip", np.array([0, 1])).tolist() == [1, 0]
    assert sex.parse(["M", "F"]).tolist() == sex.parse([1, 0]).tolist() == [1, 0]
    report = check_folder(tmp_path, space=AttributeSpace([Binary("sex", ["M", "X"])]))
    assert "expected 'M', 'X', got 'F' for" in errors(report)
    for levels in (["1", "2"], ["F"], ["F", "M", "X"], ["F", "F"], "FM"):
        refused("attribute 'sex'", "names of 0 and 1").by(Binary, "sex", levels)


def test_a_path_that_is_too_long_is_refused_like_any_other() -> None:
    path = Path("x" * 300)
    named = (fcfg.load, read_columns, read_results, find_lpips, check_folder)
    reads = [*(partial(read, path) for read in named), partial(FolderData(path=path).load, SPACE)]
    for read in (*reads, partial(read_config, f"{path}.yaml"), partial(find_pictures, [path])):
        with pytest.raises(InputError):
            read()


def run(*words: object) -> int:
    return main(["data", "check", *map(str, words)])


def test_a_check_prints_what_it_found_and_draws_two_pictures(tmp_path: Path, capsys) -> None:
    faces(tmp_path, count=40, **{"patient no": [str(37 * (n // 2)) for n in range(40)]})
    assert run(tmp_path) == 0
    said = capsys.readouterr().out
    assert "40 images: train 32, val 4, test 4" in said
    (line,) = [line for line in said.splitlines() if "patient no" in line]
    assert line.startswith("warning columns that may name a patient or person")
    assert line.endswith("--group 'patient no' (1): patient no (20 values in 40 rows, left out)")
    assert "attribute smiling: binary (only 0 and 1)\n" in said
    for name in ("sheet.png", "correlations.png"):
        with Image.open(tmp_path / ".fcfg-check" / name) as page:
            assert page.width > 100
    assert run(tmp_path, "--out", tmp_path / "elsewhere", "--group", "patient no") == 0
    assert (tmp_path / "elsewhere" / "sheet.png").exists()
    assert "warning" not in capsys.readouterr().out


def test_findings_are_printed_one_a_line_and_errors_exit_with_one(tmp_path, capsys) -> None:
    faces(tmp_path, count=40, smiling=["[2]"] * 40)
    for n in range(12):
        picture(n).save(tmp_path / f"[b]{n}.png")
    space = tmp_path / "c.yaml"
    space.write_text("attributes: {smiling: {kind: binary}}")
    assert run(tmp_path, "--config", space, "--init", tmp_path / "first.yaml") == 1
    lines = capsys.readouterr().out.splitlines()
    (line,) = [line for line in lines if line.startswith("error")]
    assert "attribute 'smiling'" in line
    assert "got '[2]' for 'more/0.png', " in line
    assert "and 30 more; " in line
    (line,) = [line for line in lines if "does not list" in line]
    assert line.startswith("warning images that metadata.csv does not list (12): [b]0.png, ")
    assert line.endswith("and 2 more")
    assert (tmp_path / "first.yaml").exists()  # to be corrected
    (tmp_path / "metadata.csv").unlink()
    assert run(tmp_path, "--init", tmp_path / "none.yaml") == 1
    assert not (tmp_path / "none.yaml").exists()


def test_what_cannot_be_looked_at_exits_with_two(tmp_path: Path, capsys) -> None:
    file = tmp_path / "c.yaml"
    for text, fragment in {
        "data: {format: embed}": "got 'embed'; start 'fcfg train', which checks them before",
        "extends: portraits": "c.yaml, data.format: expected 'folder', the data checked here",
        "- a list": "`fcfg data check DIR --init my.yaml`",
        "data: 3": "'data': expected a valid dictionary",
        "attributes: {age: 3}": "'attributes.age'",
        "data: {size: 8, size: 16}": "'size' twice, in line 1",
    }.items():
        file.write_text(text)
        assert run(tmp_path, "--config", file) == 2
        line = capsys.readouterr().err
        assert line.count("\n") == 1
        assert fragment in line
    for words in (["nowhere"], [file], [tmp_path, "--init", file]):
        assert run(*words) == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_the_first_configuration_loads_what_was_looked_at(tmp_path: Path) -> None:
    columns = {"person": people(60), "digit": [str(n % 10) for n in range(60)]}
    data, file = tmp_path / "data" / "faces", tmp_path / "faces.yaml"
    faces(data, count=60, **columns)
    assert run(data, "--group", "person", "--init", file) == 0
    written = yaml.safe_load(file.read_text())
    assert list(written) == ["data", "attributes", "graph", "model", "judge"]
    assert written["attributes"]["digit"]["levels"] == list("0123456789")
    config = read_config(str(file)).data  # all of it is legal
    assert config.group == "person"
    space = AttributeSpace.from_config(written["attributes"])
    assert space.names == ("smiling", "hair", "age", "digit")
    assert set(CausalGraph(written["graph"]).nodes) == set(space.names)
    assert len(config.load(space)["train"]) == 48
    assert run(data, "--config", file) == 0
    file.write_text("corrected by hand")
    assert run(data, "--group", "person", "--init", file, "--overwrite") == 0
    assert yaml.safe_load(file.read_text()) == written
    for folder, path in (
        (tmp_path, "data/faces"),
        (tmp_path / "runs", "../data/faces"),
        (data, "."),
        (Path("/"), str(data.resolve())),
    ):
        text = starting_config(check_folder(data), FolderData(), folder)
        assert yaml.safe_load(text)["data"]["path"] == path


@pytest.mark.parametrize(
    ("side", "size"), [(5, 8), (9, 8), (28, 28), (40, 40), (63, 60), (64, 64), (500, 64)]
)
def test_the_first_configuration_has_images_as_large_as_they_are(tmp_path, side, size) -> None:
    faces(tmp_path, count=5)
    for path in [*tmp_path.glob("*.png"), *tmp_path.glob("more/*.png")]:
        Image.open(path).convert("L").resize((side, side + 7)).save(path)
    report = check_folder(tmp_path)
    assert (report.side, proposed_size(report, FolderData())[0]) == (side, size)
    assert proposed_size(report, FolderData(size=128)) == (128, "as configured")
    file = tmp_path / "first.yaml"
    for options, channels in ((FolderData(channels=3), 3), (FolderData(), 1)):  # grey pictures
        file.write_text(starting_config(report, options, tmp_path))
        config = read_config(str(file))  # which the network allows
        assert config.data.channels == channels
        assert config.data.size == config.model.shape(config.inputs).size == size


def test_a_heat_map_is_red_where_things_go_together_and_blue_where_they_exclude() -> None:
    page = heatmap(["a", "bb"], np.array([[1.0, -0.9], [np.nan, 0.0]]))
    colours = {page.getpixel((x, y)) for x in range(page.width) for y in range(page.height)}
    assert (178, 24, 43) in colours
    assert any(blue > red + 80 for red, _, blue in colours)
    assert (59, 104, 178) not in colours  # that of -1
    assert (225, 225, 225) in colours
