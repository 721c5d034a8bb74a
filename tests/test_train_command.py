"""``fcfg train``, run as a command."""

from __future__ import annotations

import json
import re
import shutil
import signal
import warnings
from pathlib import Path

import pytest
import torch
from PIL import Image

import fcfg
from face_folder import faces
from fcfg.cli import main
from fcfg.evaluation import Experiment, choose_subset
from fcfg.training import TrainingConfig, presets, read_config
from fcfg.training.preflight import expected_time
from refusal import refused, refused_line, typed
from runs import tiny, tiny_file

SMALL = ["--set", "model.steps=2", "--set", "judge.steps=2"]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of one's own to type commands in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused_at_last(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Run what must be refused once its images are read; return the last line."""
    capsys.readouterr()
    assert main(["train", *words]) == 2
    return capsys.readouterr().err.splitlines()[-1]


def strangers_folder(folder: Path, **columns: list[str]) -> Path:
    """Twenty-four pictures with a table of two attributes, and a YAML file."""
    faces(folder / "faces", 24, **columns)
    (folder / "faces.yaml").write_text("""
data: {format: folder, path: faces, size: 8}
attributes: {smiling: {kind: binary}, age: {kind: continuous, low: 0, high: 100}}
graph: {age: null, smiling: [age]}
model: {network: {base: 8, multipliers: [1]}, batch: 4, steps: 3}
judge: {width: 4, batch: 4, steps: 2}
scm: {steps: 2}
run: {sheets: 1}
""")
    return folder / "faces.yaml"


# Before a run


def test_a_dry_run_prints_what_would_be_done_and_does_nothing(elsewhere: Path, capsys) -> None:
    out, err = typed(capsys, "train portraits --dry-run --set seed=5 --out here")
    assert err == ""
    assert not list(elsewhere.iterdir())
    comments = [line for line in out.splitlines() if line.startswith("#")]
    for number, word in enumerate(("parameters", "steps", "computation", "memory")):
        assert comments[number].startswith(f"# {word}: ")
    (elsewhere / "copy.yaml").write_text(out)
    assert read_config("copy.yaml") == read_config("portraits", ["seed=5"])
    out = typed(capsys, "train --help").out
    assert [name for name in presets() if name not in out] == []


def test_what_is_wrong_is_one_line_and_data_may_lie_elsewhere(elsewhere: Path, capsys) -> None:
    strangers_folder(elsewhere)
    (elsewhere / "faces").rename(elsewhere / "moved")
    before = set(elsewhere.rglob("*"))
    for words, subject in {
        "portrait": "configuration 'portrait'",
        "portraits --set model.learning_rat=1": "model, 'learning_rat'",
        "portraits --data faces": "--data",
    }.items():
        refused_line(["train", *words.split()], subject, capsys)
    refused_line(["train", "faces.yaml", "--part", "scm"], "data, path", capsys)
    assert set(elsewhere.rglob("*")) == before
    assert main(["train", "faces.yaml", "--part", "scm", "--data", "moved"]) == 0


# A run


def test_what_is_set_and_which_part_are_what_is_trained(elsewhere: Path, capsys) -> None:
    """The folder is runs/NAME unless another is given."""
    file = str(tiny_file(elsewhere))
    out, err = typed(capsys, "train", file, "--part", "judge", *SMALL)
    assert out == ""
    assert "judge: step 2 of 2, loss " in err
    assert "steps: judge 2\ntime: about " in err
    assert "diffusion" not in err
    assert err.endswith("done: runs/tiny\n")
    state = elsewhere / "runs/tiny/training/state"
    assert [path.name for path in state.iterdir()] == ["judge"]
    assert main(["train", file, "--part", "diffusion", *SMALL]) == 0
    assert fcfg.load("runs/tiny").provenance["steps"] == {"judge": "2 of 2", "diffusion": "2 of 2"}
    assert main(["train", file, "--part", "scm", "--out", "else/where"]) == 0
    assert (elsewhere / "else/where/training/state/scm").exists()


def test_the_expected_time_follows_from_what_is_left() -> None:
    def said(config: TrainingConfig, **left: int) -> str:
        examples, before = config.data.load(config.space)["train"], torch.get_rng_state()
        text = expected_time(config, examples, left)
        assert torch.equal(torch.get_rng_state(), before)
        return text

    assert said(tiny()) == "time: about 0 s on this machine"
    assert said(tiny(), judge=1, diffusion=1).endswith(" s on this machine")
    long = said(tiny(), judge=10**8, diffusion=10**8)
    look = re.search("for a first look in about 5 min: (.*)", long)
    sets = dict(text.split("=") for text in look[1].replace("--set ", "").split())
    assert sets.keys() == {"judge.steps", "model.steps"}
    assert 100 <= int(sets["judge.steps"]) == int(sets["model.steps"]) < 10**8
    huge = tiny(model={"batch": 10**6}, judge={"batch": 10**6})
    assert said(huge, judge=10**6, diffusion=10**6).endswith("smaller network and smaller images")
    assert "finetuning.steps=" in said(tiny("hvae"), hvae=10**8, finetuning=10**8)


def test_a_run_that_is_stopped_ends_with_its_code_and_one_line(
    elsewhere: Path, capsys, monkeypatch
) -> None:
    def impatient(reporter: object, activity: str, done: int, total: int, loss=None) -> None:
        if loss is not None:
            signal.raise_signal(signal.SIGTERM)

    words = ["train", str(tiny_file(elsewhere)), "--part", "judge"]
    with monkeypatch.context() as patch:
        patch.setattr("fcfg.cli.progress.ProgressReporter.progress", impatient)
        assert main(words) == 143
    assert capsys.readouterr().err.splitlines()[-1] == (
        "fcfg train: judge: stopped at step 1 of 6, which is kept; run the same command again to "
        "go on."
    )
    said = typed(capsys, *words, "--set", "run.trackers=[tensorboard]").err
    assert "judge: going on at step 1 of 6\n" in said
    (events,) = (elsewhere / "runs/tiny/training/tensorboard").iterdir()
    assert events.stat().st_size > 0
    monkeypatch.setenv("RANK", "1")  # all but the first process are quiet
    assert typed(capsys, *words) == ("", "")


# A stranger's own data


def test_from_a_folder_of_pictures_to_counterfactuals(elsewhere: Path, capsys) -> None:
    strangers_folder(elsewhere)
    err = typed(capsys, "train faces.yaml").err
    steps = "scm 2 (2 for each attribute with causes), judge 2, diffusion 3"
    assert f"images: 20 train, 2 val, 2 test\nsteps: {steps}\n" in err
    for part in ("scm: step 2 of 2", "judge: step 2 of 2", "diffusion: step 3 of 3"):
        assert part in err
    assert len(list((elsewhere / "runs/faces/training/sheets").iterdir())) == 1
    words = ["generate", "runs/faces", "faces/7.png", "--do", "smiling=1", "--sampling", "2"]
    assert main([*words, "--out", "counterfactuals"]) == 0
    record = json.loads((elsewhere / "counterfactuals/record.json").read_text())
    assert record["images"][0]["counterfactual"]["smiling"] == 1
    with Image.open("counterfactuals/7-counterfactual.png") as picture:
        assert picture.size == (8, 8)


def test_a_model_says_nothing_of_the_folders_of_its_trainer(elsewhere: Path) -> None:
    """Evaluation finds the data by the run's own folder; a copy of the model asks for them."""
    words = ["--set", f"data.cache={elsewhere / 'cache'}", "--set", "run.sheets=0"]
    assert main(["train", str(strangers_folder(elsewhere)), "--part", "diffusion", *words]) == 0
    shutil.copytree("runs/faces", "copy", ignore=shutil.ignore_patterns("training"))
    for path in (elsewhere / "copy").iterdir():
        assert str(elsewhere).encode() not in path.read_bytes()
    assert fcfg.load("copy").provenance["training"]["data"]["path"] == "faces"
    experiment = Experiment(do=("smiling",), guidance=(), balance=())
    names = choose_subset(fcfg.load("runs/faces"), experiment).names
    with refused("data 'folder' of the model", "--data DIR"):
        choose_subset(fcfg.load("copy"), experiment)
    assert choose_subset(fcfg.load("copy"), experiment, data=elsewhere / "faces").names == names


def test_a_run_goes_on_with_the_data_it_began_with_and_with_no_others(elsewhere, capsys) -> None:
    """Wherever they lie, and whenever they were written."""
    words = ["train", str(strangers_folder(elsewhere)), "--part", "scm"]
    assert main(words) == 0
    shutil.copytree(elsewhere / "faces", elsewhere / "copy", copy_function=shutil.copyfile)
    typed(capsys, *words, "--data", "copy")
    table = (elsewhere / "copy/metadata.csv").read_text()
    other_label = table.replace("5.png,1,fair,25", "5.png,0,fair,25")
    one_less = table.replace("\n5.png,1,fair,25", "")
    for changed, got in ((other_label, "labels"), (one_less, "splits")):
        (elsewhere / "copy/metadata.csv").write_text(changed)
        line = refused_at_last(capsys, *words[1:], "--data", "copy")
        assert f"run runs/faces: expected one run ({got}: " in line
    (elsewhere / "copy/metadata.csv").write_text(table)
    with Image.open("copy/5.png") as picture:
        picture.putpixel((5, 6), (0, 0, 0))
        picture.save("copy/5.png")
    line = refused_at_last(capsys, *words[1:], "--data", "copy")
    assert "one run (pixels: " in line
    assert main(words) == 0


def test_what_has_learned_nothing_has_no_data_and_a_digest_may_be_deleted(
    elsewhere: Path, capsys
) -> None:
    words = ["train", str(strangers_folder(elsewhere)), "--part", "scm"]
    assert main(words) == 0
    digests = elsewhere / "runs/faces/training/data.json"
    whole = digests.read_text()
    digests.unlink()
    assert main(words) == 0
    assert digests.read_text() == whole
    digests.write_text("{")
    assert "data.json: expected JSON" in refused_at_last(capsys, *words[1:])
    digests.write_text("{}")
    assert "splits: null" in refused_at_last(capsys, *words[1:])
    shutil.rmtree(elsewhere / "runs/faces/training/state")
    assert main(words) == 0
    assert digests.read_text() == whole


def test_a_run_that_is_refused_leaves_no_folder_and_one_that_is_begun_stays(
    elsewhere: Path, capsys
) -> None:
    words = ["train", str(strangers_folder(elsewhere)), "--part", "scm", "--out", "own/run"]
    (elsewhere / "own").mkdir()
    (elsewhere / "own/notes.txt").touch()
    picture = (elsewhere / "faces/5.png").read_bytes()
    (elsewhere / "faces/5.png").write_bytes(b"no picture")
    assert "1 that cannot: '5.png'" in refused_at_last(capsys, *words[1:])
    assert [path.name for path in (elsewhere / "own").iterdir()] == ["notes.txt"]
    (elsewhere / "faces/5.png").write_bytes(picture)
    assert main(words) == 0
    (elsewhere / "faces/5.png").write_bytes(b"no picture")
    before = set((elsewhere / "own").rglob("*"))
    assert "1 that cannot: '5.png'" in refused_at_last(capsys, *words[1:])
    assert set((elsewhere / "own").rglob("*")) == before


def test_pictures_that_cannot_be_read_are_refused_or_left_out(elsewhere: Path, capsys) -> None:
    split = ["val", "val", *["train"] * 22]
    strangers_folder(elsewhere, part=split)
    (elsewhere / "faces/more/0.png").write_bytes(b"no picture")
    words = ["train", "faces.yaml", "--part", "scm", "--set", "data.split=part"]
    assert "1 that cannot: 'more/0.png'" in refused_at_last(capsys, *words[1:])
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        err = typed(capsys, *words, "--skip-bad").err
        assert "fcfg: warning: 1 of 24 images in " in err
        assert "cannot be read and are skipped: 'more/0.png'" in err
        assert "images: 22 train, 1 val\n" in err
        (elsewhere / "faces/1.png").write_bytes(b"no picture")
        line = refused_at_last(capsys, *words[1:], "--skip-bad")
    assert "expected examples in 'train' and 'val', got none in 'val'" in line
