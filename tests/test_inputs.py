"""Python takes what the command line takes, shows its answers, and says how long it works."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import fcfg
from fcfg.cli import main
from fcfg.generation import generate
from fcfg.support import progress
from fcfg.support.images import read_images, to_png
from fcfg.support.pictures import Pixels
from laws import FACES, shift
from refusal import refused
from terminals import Terminal
from tiny import SIZE, tiny_pipeline

ONE = {name: column[:1] for name, column in FACES.attributes.items()}

DO = {"smiling": "flip"}
ROWS = [{"smiling": 0, "age": 40.0, "hair": "dark"}, {"smiling": 1, "age": 70.0, "hair": "red"}]
COLUMNS = {"smiling": [0, 1], "age": [40.0, 70.0], "hair": ["dark", "red"]}


@pytest.fixture(scope="module")
def pipeline() -> fcfg.CounterfactualPipeline:
    return tiny_pipeline()


@pytest.fixture(scope="module")
def saved(pipeline, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("model")
    pipeline.save(folder)
    return str(folder)


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)


def smooth(height: int, width: int) -> Image.Image:
    return Image.fromarray(noise(6, 5, 3)).resize((width, height))


PICTURES: dict[str, Callable[[], Image.Image]] = {  # that have to be changed for the model
    "exact.png": lambda: Image.fromarray(noise(SIZE, SIZE, 3)),
    "grey.png": lambda: Image.fromarray(noise(20, 13)),
    "deep.png": lambda: Image.fromarray(noise(20, 13).astype(np.uint16) * 200),
    "opaque.png": lambda: smooth(9, 30).convert("RGBA"),
    "palette.png": lambda: smooth(9, 30).convert("P"),
    "large.jpg": lambda: smooth(90, 140),  # so large that Pillow reduces it while it decodes
    "turned.jpg": lambda: smooth(90, 140),
}


def write(name: str, folder: Path) -> Path:
    exif = Image.Exif()
    if name == "turned.jpg":
        exif[0x0112] = 6  # orientation
    PICTURES[name]().save(folder / name, exif=exif)
    return folder / name


@pytest.mark.parametrize("name", PICTURES)
def test_python_and_the_command_line_give_the_same_bytes(saved: str, name: str, tmp_path) -> None:
    path, out = write(name, tmp_path), tmp_path / "out"
    asked = ["--do", "smiling=flip", "--sampling", "3", "--no-reverse", "--no-trust"]
    assert main(["generate", saved, str(path), *asked, "--out", str(out)]) == 0
    written = (out / f"{path.stem}-counterfactual.png").read_bytes()
    prepared = fcfg.load(saved).prepare()  # as the command does; it rounds in its own way
    with Image.open(path) as opened:
        for given in (path, str(path), opened, [opened]):
            pair = prepared.counterfactual(given, "auto", DO, sampling=3, resize=True)
            assert to_png(fcfg.to_pictures(pair.images)[0]) == written


def test_a_picture_stays_as_it_was(tmp_path: Path) -> None:
    opened = Image.open(write("turned.jpg", tmp_path))
    wanted = Pixels(SIZE, 3)
    first = read_images(opened, channels=3, fit=wanted)
    assert opened.size == (140, 90)
    assert torch.equal(first, read_images(opened, channels=3, fit=wanted))
    assert np.asarray(opened).shape == (90, 140, 3)


@pytest.mark.parametrize("channels", [1, 3])
def test_bytes_are_the_pictures_they_hold(channels: int) -> None:
    shape = (2, 8, 8) if channels == 1 else (2, 8, 8, 3)
    batch = noise(*shape)
    expected = read_images([Image.fromarray(row) for row in batch], channels=channels)
    planes = batch.reshape(2, 8, 8, channels)
    for given in (batch, list(batch), planes, planes.transpose(0, 3, 1, 2), [batch[:1], batch[1]]):
        assert torch.equal(read_images(given, channels=channels), expected)
    assert torch.equal(read_images(batch[0], channels=channels), expected[:1])
    assert expected.is_contiguous()  # as tensors from files are: convolutions round by layout


def test_a_picture_of_another_size_is_refused_with_the_way_out(pipeline, tmp_path: Path) -> None:
    question: dict[str, Any] = {"attributes": ROWS[:1], "do": DO, "sampling": 2}
    with refused("images", "8 by 8 pixels", "9 by 30", "resize=True"):
        pipeline.counterfactual(smooth(9, 30), **question)
    with refused("images", "8 by 8 pixels", "any_size=True"):
        pipeline.counterfactual(torch.zeros(1, 3, 16, 16), resize=True, **question)
    refused("picture 0", "resize=True").by(pipeline.counterfactual, noise(8, 8), **question)
    refused("images", "resize=True").by(pipeline.abduct, [smooth(9, 30), smooth(9, 9)], ROWS)
    see_through = Image.new("RGBA", (8, 8))
    with refused("picture 1", "can be read", "transparent"):
        pipeline.abduct([smooth(8, 8), see_through], ROWS, resize=True)
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"none")
    for resize in (False, True):
        refused("broken.png", "can be read").by(pipeline.abduct, broken, ROWS[:1], resize=resize)


def test_a_model_of_ones_own_takes_the_same(tmp_path: Path) -> None:
    answers, rows = shift(), {"smiling": [0], "male": [1], "young": [1]}
    answers.judge = None
    path = write("large.jpg", tmp_path)
    pair = answers.counterfactual(path, rows, {"smiling": 1}, resize=True)
    with Image.open(path) as picture:
        opened = answers.abduct(picture, rows, resize=True)
    assert torch.equal(pair.abduction.images, opened.images)
    refused("attributes", "'auto'").by(answers.abduct, opened.images, "auto")


class Columns:
    """What we ask of a data frame: names of columns, and a column by its name."""

    def __init__(self, **columns: list[Any]) -> None:
        self._columns = columns

    @property
    def columns(self) -> list[str]:
        return list(self._columns)

    def __getitem__(self, name: str) -> np.ndarray:
        return np.array(self._columns[name], dtype=object)


def test_columns_rows_and_frames_are_one_table(pipeline, tmp_path: Path) -> None:
    images = noise(2, SIZE, SIZE, 3)
    frame = Columns(file_name=["a.png", "b.png"], **COLUMNS)
    tables = [COLUMNS, ROWS, tuple(ROWS), frame]
    pairs = [pipeline.counterfactual(images, table, DO, sampling=2) for table in tables]
    for pair in pairs[1:]:
        assert torch.equal(pair.images, pairs[0].images)
    paths = [tmp_path / name for name in ("a.png", "b.png")]
    for path, row in zip(paths, images, strict=True):
        Image.fromarray(row).save(path)
    how: dict[str, Any] = {"do": DO, "sampling": 2, "reverse": False, "trust": False}
    results = generate(pipeline, paths, frame, out=tmp_path / "out", **how)
    assert [result.factual for result in results] == ROWS
    older = pipeline.act(ROWS, {"age": 90})
    assert older.attributes["age"].tolist() == [90, 90]


def test_tables_that_say_too_little_are_refused(pipeline) -> None:
    images = noise(2, SIZE, SIZE, 3)
    with refused("attributes", "no column for 'hair'"):
        pipeline.abduct(images, Columns(smiling=[0, 1], age=[1, 2]))
    with refused("attributes", "'hair'", "'smiling', 'age' in row 1"):
        pipeline.abduct(images, [ROWS[0], {"smiling": 0, "age": 3}])
    for nothing in (3, [], [ROWS[0], 3]):
        refused("attributes", "a data frame", "list of rows").by(pipeline.space.parse, nothing)
    refused("attributes", "'auto'", "'atuo'").by(pipeline.abduct, images, "atuo")
    with refused("attributes", "2 values in each column", "got 1"):
        fcfg.calibrate(pipeline, images, ROWS[:1])


def test_the_judge_reads_attributes_for_who_says_so(pipeline) -> None:
    images = noise(2, SIZE, SIZE, 3)
    pair = pipeline.counterfactual(images, "auto", DO, sampling=2)
    for name, column in pipeline.read(images).attributes.items():
        assert np.array_equal(pair.abduction.attributes[name], column)
    assert tiny_pipeline(judge=False).read(images) is None


def test_answers_and_models_show_themselves(pipeline, tmp_path: Path) -> None:
    images = torch.rand(10, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(0)) - 1
    pair = pipeline.counterfactual(images, "auto", {"age": 9}, sampling=2)
    assert (
        repr(pair) == f"Counterfactual(10 images of 8 by 8, do(age), {pair.spent[0]} network rows)"
    )
    assert len(repr(pair.abduction)) < 200
    page = pair._repr_html_()
    assert page.count("data:image/png;base64,") == 1
    assert "do(age)" in page
    assert "the first 8" in page
    assert len(page) < 100_000
    answer = shift().counterfactual(FACES.images[:1], ONE, {"smiling": 1})
    assert repr(answer).startswith("Shifted(1 image of 8 by 8, do(smiling)")
    assert "the first" not in answer._repr_html_()
    two = replace(answer, pixels=answer.pixels[:, :2])
    assert two._repr_html_() is None  # nobody knows their colours
    assert pipeline._repr_html_() is None  # without pictures, its repr is all there is
    shipped = fcfg.load("digits")
    assert "CounterfactualPipeline(" in shipped._repr_html_()
    assert shipped._repr_html_().count("<img") == 1


def test_a_caption_is_text_and_a_message_one_line_whatever_they_quote() -> None:
    page = fcfg.sheet.figure({"x": torch.zeros(1, 1, 8, 8)}, '<script>"&')
    assert "<script>" not in page
    assert page.count("&lt;script&gt;&quot;&amp;") == 2
    error = fcfg.InputError("a\nname", expected="one", got="two\n  lines", do="ask again?")
    assert str(error) == "a name: expected one, got two lines; ask again?"


def watched(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    return terminal


SHOWN = "\x1b[?25h"  # the cursor


def test_a_long_call_shows_a_bar_and_leaves_nothing(pipeline, monkeypatch, tmp_path) -> None:
    terminal = watched(monkeypatch)
    images, path = noise(1, SIZE, SIZE, 3), write("exact.png", tmp_path)
    pair = pipeline.counterfactual(images, "auto", DO, sampling=2)
    calls = [
        lambda **o: pipeline.counterfactual(images, "auto", DO, sampling=2, **o),
        lambda **o: pipeline.abduct(images, "auto", sampling=2, **o),
        lambda **o: pipeline.predict(pair.abduction, pair.action, **o),
        lambda **o: pipeline.reverse(pair, **o),
        lambda **o: generate(pipeline, [path], do=DO, sampling=2, out=tmp_path / "out", **o),
    ]
    for call in calls:
        call()
    assert terminal.text == ""  # of short calls nothing is seen
    monkeypatch.setattr(progress, "PATIENCE", 0.0)  # now all are long
    for call in calls:
        terminal.text = ""
        call()
        assert "━" in terminal.text
        assert terminal.text.rindex(SHOWN) > terminal.text.rindex("━")
        terminal.text = ""
        call(progress=False)
        with progress.share_bar(quiet=True):
            call(**({"on_progress": print} if call is calls[-1] else {"on_step": id}))
        assert terminal.text == ""
    with progress.share_bar():
        terminal.text = ""
        calls[0]()
        assert terminal.text.count("?25l") == 0  # one bar is enough


def test_ctrl_c_leaves_the_terminal_clean(pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = watched(monkeypatch)
    monkeypatch.setattr(progress, "PATIENCE", 0.0)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    hook = pipeline.denoiser.network.register_forward_pre_hook(interrupt)
    with pytest.raises(KeyboardInterrupt):
        pipeline.counterfactual(noise(SIZE, SIZE, 3), "auto", DO, sampling=2)
    hook.remove()
    assert terminal.text.rindex(SHOWN) > terminal.text.rindex("?25l")
    assert terminal.text.endswith("\x1b[2K")  # the line is erased


def test_the_share_never_goes_back(pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[float] = []

    class Told(progress.Progress):
        def _report(self, done: float) -> None:
            told.append(done / self._total)

    monkeypatch.setattr(progress, "Progress", Told)
    for guidance in (None, fcfg.Guidance.cfg(2.0)):
        told.clear()
        how = {"guidance": guidance, "sampling": "ddim uniform 4"}
        pair = pipeline.counterfactual(noise(SIZE, SIZE, 3), "auto", DO, **how)
        assert told == sorted(told)
        assert told[-1] == pytest.approx(1)
    assert told[0] > 0
    told.clear()
    pipeline.reverse(pair)
    assert told == sorted(told)


def test_a_pipe_gets_nothing_and_a_notebook_a_line(pipeline, monkeypatch, capsys) -> None:
    monkeypatch.setattr(progress, "PATIENCE", -1.0)
    pipeline.counterfactual(noise(SIZE, SIZE, 3), "auto", DO, sampling=2)
    assert capsys.readouterr() == ("", "")
    stream = type("Stream", (io.StringIO,), {"__module__": "ipykernel.iostream"})()
    monkeypatch.setattr(sys, "stderr", stream)
    with progress.call_bar(None, True) as told:
        told(0.5)
    assert stream.getvalue().startswith(" 50% done, about 0 s left")
    assert stream.getvalue().endswith("\r")
