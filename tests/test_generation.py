from __future__ import annotations

import csv
import json
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from face_folder import dicom
from fcfg import Categorical, CounterfactualPipeline, Denoiser, Guidance, InputError
from fcfg.causal import AttributeSpace, Binary
from fcfg.causal.intervention import flip
from fcfg.generation import Request, Result, compare, find_attributes, find_pictures, generate
from fcfg.generation.parsing import parse_do
from fcfg.generation.picture_files import read_files
from fcfg.generation.run import prepare
from fcfg.model import model_pixels
from fcfg.sampling import DRAWN_NOISE
from fcfg.sheet import NEUTRAL, SCALES, difference_map, difference_scale
from fcfg.support.images import images_from_bytes, read_images
from fcfg.support.pictures import Pixels, fit_picture
from kills import ended_after, kill_again_and_again, printed_elsewhere
from refusal import refused
from tiny import GIVEN, SIZE, SPACE, ask, draw, randomised, tiny_pipeline


@pytest.fixture(scope="module")
def pipeline() -> CounterfactualPipeline:
    return tiny_pipeline()


@pytest.fixture
def faces(tmp_path: Path) -> list[Path]:
    return draw(tmp_path / "faces", ["anna.png", "ben.png", "carl.png"])


def visible(folder: Path) -> set[str]:
    """Names of the files in a folder that a person sees."""
    return {path.name for path in folder.iterdir() if not path.name.startswith(".")}


def contents(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in visible(folder)}


def record_of(folder: Path, name: str = "record.json") -> dict[str, Any]:
    return json.loads((folder / name).read_text(), parse_constant=pytest.fail)


# Pictures ---------------------------------------------------------------------------------------


DEEP, PAGES = Image.new("I;16", (SIZE, SIZE), 900), [Image.new("RGB", (SIZE, SIZE))]
FLAT = Image.Exif()
FLAT[0x0112] = 3  # stored upside down
RESIZED = "resized to 8 x 8"


def test_a_picture_is_read_as_in_training_and_every_change_is_noted(tmp_path: Path) -> None:
    def check(name: str, mode: str, channels: int, *notes: str, **more: Any) -> None:
        path, (width, height) = tmp_path / name, more.pop("size", (SIZE, SIZE))
        wanted = Pixels(SIZE, channels, more.pop("intensity", "full"), more.pop("fit", "crop"))
        noise = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
        if name == "x.dcm":
            dicom(tmp_path, noise[..., 0])
        else:
            picture = DEEP if mode == "I;16" else Image.fromarray(noise).convert(mode)
            picture.save(path, **more)
        (found,) = read_files([path], wanted)
        assert (found.notes, found.stored) == (notes, (height, width))
        assert torch.equal(found.image, images_from_bytes(fit_picture(path, wanted)))

    check("a.png", "L", 1)
    check("a.png", "RGB", 3)
    check("a.png", "RGB", 1, "colours weighted to grey (ITU-R 601)")
    check("a.png", "L", 3, "grey repeated in 3 channels")
    for name, mode, channels in (("a.png", "P", 3), ("a.jpg", "CMYK", 3), ("a.png", "1", 1)):
        check(name, mode, channels, f"converted from mode {mode}")
    for mode, channels in (("RGBA", 3), ("LA", 1)):
        check("a.png", mode, channels, "opaque alpha channel dropped")
    for intensity, scaled in (("full", "0..65535"), ("minmax", "its own range")):
        note = f"more than 8 bits: {scaled} scaled to 0..255"
        check("a.png", "I;16", 1, note, intensity=intensity)
    check("a.png", "L", 1, "turned upright as its EXIF says", exif=FLAT)
    several = {"append_images": PAGES, "save_all": True}
    check("a.tiff", "RGB", 3, "the first of several frames", **several)
    cropped = "centre-cropped to a square", RESIZED
    check("a.png", "L", 1, *cropped, size=(30, 10))
    check("a.png", "L", 1, "padded with black to a square", RESIZED, size=(10, 30), fit="pad")
    check("a.png", "L", 1, "stretched to a square", RESIZED, size=(8, 16), fit="stretch")
    check("x.dcm", "L", 1, "window of the DICOM file applied", *cropped, size=(8, 10))


def test_how_a_model_was_trained_says_how_its_pictures_are_read(faces, tmp_path: Path) -> None:
    """One without a size is refused, whose network is no U-Net."""
    pipeline = tiny_pipeline(channels=1)
    for data, intensity, fit in (
        (None, "full", "crop"),
        ({"name": "scans"}, "full", "crop"),
        ({"fit": "pad", "intensity": "minmax"}, "minmax", "pad"),
    ):
        pipeline.provenance["training"] = {"data": data} if data else {}
        assert model_pixels(pipeline) == Pixels(SIZE, 1, intensity, fit)
    pipeline.provenance["training"] = {"data": {"fit": "squeeze"}}
    refused("model, fit of its training data").by(model_pixels, pipeline)
    own = pipeline.denoiser
    denoiser = Denoiser(nn.Identity(), own.embedder, own.schedule, channels=3)
    with refused("model"):
        ask(CounterfactualPipeline(denoiser, pipeline.scm), faces, tmp_path / "out")


def test_all_broken_files_are_named(tmp_path: Path, faces: list[Path]) -> None:
    (tmp_path / "text.png").write_text("not a picture")
    whole = faces[1].read_bytes()
    (tmp_path / "half.png").write_bytes(whole[: len(whole) // 2])
    Image.new("RGBA", (SIZE, SIZE)).save(tmp_path / "clear.png")
    bad = [tmp_path / name for name in ("text.png", "half.png", "clear.png")]
    reasons = ("not a picture of a known format", "transparent pixels")
    with refused("images", *(f"'{path}'" for path in bad), *reasons):
        read_files([faces[0], *bad], Pixels(SIZE, 3))


@pytest.mark.parametrize("suffix", [".png", ".jpg"])
def test_a_damaged_file_is_read_or_refused_and_nothing_else(tmp_path: Path, suffix: str) -> None:
    (path,) = draw(tmp_path, [f"a{suffix}"])
    whole, rng, refusals = path.read_bytes(), np.random.default_rng(0), 0
    damaged = [whole[:keep] for keep in range(0, len(whole), 23)]
    for place in rng.integers(0, len(whole), 100):
        damaged.append(
            whole[:place] + bytes(rng.integers(0, 256, 2).tolist()) + whole[place + 2 :]
        )
    for data in damaged:
        path.write_bytes(data)
        try:
            read_files([path], Pixels(SIZE, 3))
        except InputError:
            refused("images", f"'{path}'").by(read_files, [path], Pixels(SIZE, 3))
            refusals += 1
    assert refusals > len(whole) // 23 - 5


def test_folders_are_read_in_order_and_files_that_are_not_there_or_twice_are_refused(
    tmp_path, faces
) -> None:
    draw(tmp_path / "in", ["c.png", "a.JPG", "b.jpeg", ".hidden.png", "below/d.png"])
    (tmp_path / "in" / "notes.txt").write_text("")
    (extra,) = draw(tmp_path, ["z.png"])
    found = find_pictures([extra, tmp_path / "in"])
    assert [path.name for path in found] == ["z.png", "a.JPG", "b.jpeg", "c.png"]
    (tmp_path / "empty").mkdir()
    twice = [faces[0], tmp_path / "faces"]
    for files in (["gone.png", faces[0]], [], [tmp_path / "empty"], twice):
        refused("images").by(find_pictures, files)


# Attributes -------------------------------------------------------------------------------------


COMMAS = AttributeSpace([Categorical("hair", ["dark, brown", "fair"]), Binary("male")])


def test_an_intervention_and_attributes_are_read_by_their_kinds(faces: list[Path]) -> None:
    for texts, space, do in (
        (["smiling=1, age=60", "hair = grey"], SPACE, {"smiling": 1, "age": 60, "hair": "grey"}),
        (["smiling=flip"], SPACE, {"smiling": "flip"}),
        (["age=+10,smiling=Yes"], SPACE, {"age": "+10", "smiling": 1}),
        (["hair=dark, brown,male=1"], COMMAS, {"hair": "dark, brown", "male": 1.0}),
    ):
        assert parse_do(texts, space) == do
    for texts in (["smilling=1"], ["smiling"], ["smiling="], ["smiling=1", "smiling=0"]):
        refused("do").by(parse_do, texts, SPACE)
    for text in ("smiling=2", "smiling=maybe", "age=flip", "age=101", "hair=gray", "hair=1"):
        refused(f"intervention on '{text.partition('=')[0]}'").by(parse_do, [text], SPACE)
    factual = find_attributes("hair=red,age=41.5,smiling=1", SPACE, faces, None)
    assert factual.source == "given"
    found = {name: column.tolist() for name, column in factual.attributes.items()}
    assert found == {"smiling": [1] * 3, "age": [41.5] * 3, "hair": [2] * 3}


NAMES = "file_name,smiling,age,hair"


def table(path: Path, *rows: list[Any], names: str = f"{NAMES},extra") -> Path:
    with path.open("w", newline="", encoding="utf-8-sig") as file:
        csv.writer(file).writerows([names.split(","), *rows])
    return path


def test_rows_are_found_by_path_or_by_name_in_any_order(tmp_path: Path) -> None:
    files = draw(tmp_path, ["one/x.png", "two/x.png", "two/y.png"])
    rows = [["other/z.png", 0, 1, "red", ""], ["y.png", 0, 3, "grey", ""]]
    rows += [["\0/x\0.png", 0, 1, "red", ""]]
    rows += [["two/x.png", 1, 2, "dark", ""], ["one/x.png", 1, 1, "red", "junk"]]
    path = table(tmp_path / "labels.CSV", *rows)
    factual = find_attributes(path, SPACE, files, None)
    assert factual.source == str(path)
    assert factual.attributes["age"].tolist() == [1, 2, 3]
    assert factual.attributes["hair"].tolist() == [2, 0, 1]


def test_attributes_that_do_not_answer_are_refused(tmp_path: Path, faces: list[Path]) -> None:
    few = ("smiling=0,age=1", "smiling=0,age=1,hare=red", "smiling=0,age=old,hair=red")
    for given in (*few, "smiling", "auto", 7):
        refused("attribute").by(find_attributes, given, SPACE, faces, None)
    others = [[f"{name}.png", 1, 1, "red", ""] for name in ("ben", "carl")]
    anna = (1, 1, "rde", ""), (1, "", "red", ""), (-1, 1, "red", ""), (1,)
    for rows in ([], [["anna.png", 1, 1, "red", ""]] * 2, *([["anna.png", *row]] for row in anna)):
        path = table(tmp_path / "t.csv", *rows, *others)
        refused(str(path)).by(find_attributes, str(path), SPACE, faces, None)
    nameless = table(tmp_path / "t.csv", names="name,smiling,age")
    one = table(tmp_path / "x.csv", ["x.png", 1, 1, "red", ""])
    equal = draw(tmp_path, ["one/x.png", "two/x.png"])  # which need a row each
    for path, asked in ((tmp_path / "gone.csv", faces), (nameless, faces), (one, equal)):
        refused(path.name).by(find_attributes, path, SPACE, asked, None)


def test_binary_values_are_read_as_in_training(tmp_path: Path, faces: list[Path]) -> None:
    for one, other in (("True", "false"), ("1.0", "0.0"), ("YES", "no"), ("1", "0")):
        rows = [["anna.png", one], ["ben.png", other], ["carl.png", one]]
        path = table(tmp_path / "t.csv", *([*row, 1, "red"] for row in rows), names=NAMES)
        factual = find_attributes(path, SPACE, faces, None)
        assert factual.attributes["smiling"].tolist() == [1, 0, 1]
        given = find_attributes(f"smiling={one},age=1,hair=red", SPACE, faces, None)
        assert given.attributes["smiling"].tolist() == [1, 1, 1]


def test_a_model_reads_its_own_training_table(tmp_path: Path, faces: list[Path]) -> None:
    model = tiny_pipeline()
    model.provenance = {"training": {"data": {"rename": {"smiling": "Smile", "age": 3}}}}
    rows = [[path.name, value, 5, "red"] for path, value in zip(faces, (0, 1, 0), strict=True)]
    renamed = table(tmp_path / "own.csv", *rows, names="file_name,Smile,age,hair")
    rows = [[*row, 1 - row[1]] for row in rows]
    both = table(tmp_path / "both.csv", *rows, names="file_name,Smile,age,hair,smiling")
    plain = table(tmp_path / "plain.csv", *(row[:4] for row in rows), names=NAMES)
    for path in (renamed, both, plain):
        question = prepare(model, Request(faces, path, {"age": 9}, out=tmp_path / "out"))
        assert question.factual.attributes["smiling"].tolist() == [0, 1, 0]


def test_the_sign_is_the_hue_and_the_size_the_strength() -> None:
    flat, changes = torch.zeros(1, 1, 41), torch.arange(-20, 21) / 20
    colours = difference_map(flat, changes[None, None], scale=1.0)[0].astype(int)
    red, blue = colours[:, 0], colours[:, 2]
    assert (red - blue)[changes > 0].min() > 0
    assert (blue - red)[changes < 0].min() > 0
    away = np.abs(colours - np.array(NEUTRAL)).sum(axis=1)
    assert (np.diff(away[20:]) > 0).all()
    assert (np.diff(away[20::-1]) > 0).all()


def test_a_difference_map_has_the_largest_change_of_a_channel_within_its_scale() -> None:
    flat = torch.zeros(1, 1, 1)
    for sign in (-1, 1):
        one, *more = (difference_map(flat, flat + sign * x, 0.25) for x in (0.25, 0.3, 2.0))
        assert all((one == other).all() for other in more)
    image = torch.rand(3, 5, 6, generator=torch.Generator().manual_seed(0)) * 2 - 1
    assert all((difference_map(image, image, scale) == NEUTRAL).all() for scale in SCALES)
    change = torch.tensor([0.2, -0.5, 0.3]).view(3, 1, 1)  # whose mean is no change
    most = difference_map(flat, flat - 0.5, 1.0)
    assert np.array_equal(difference_map(torch.zeros(3, 1, 1), change, 1.0), most)
    for scale in (0.0, -1.0, float("nan")):
        refused("difference map, scale").by(difference_map, flat, flat, scale)
    # By default, the scale is the smallest round one that holds the change.
    for size, scale in ((0.0, 0.1), (0.2, 0.25), (0.9, 1.0), (1.2, 1.5), (2.0, 2.0)):
        assert difference_scale(flat, flat + size) == scale


@pytest.mark.parametrize("channels", [1, 3])
def test_images_stand_side_by_side_as_they_are(channels: int) -> None:
    generator = torch.Generator().manual_seed(0)
    images = {
        name: torch.randint(0, 256, (channels, 16, 16), generator=generator) / 127.5 - 1
        for name in ("factual", "counterfactual", "reversed")
    }
    captions = {name: [f"{name} " * 12] for name in images}
    page = np.asarray(compare(images, captions))
    factor = 16
    assert page.shape[1] == 12 + 4 * (16 * factor + 12)
    for column, image in enumerate(images.values()):
        left = 12 + column * (16 * factor + 12)
        small = page[35 : 35 + 16 * factor : factor, left : left + 16 * factor : factor]
        expected = ((image + 1) * 127.5).round().expand(3, -1, -1).permute(1, 2, 0)
        assert np.array_equal(small, expected.numpy())


def test_a_frame_touches_its_picture_on_every_side() -> None:
    black = dict.fromkeys(("factual", "counterfactual"), torch.full((3, 8, 8), -1.0))
    page = np.asarray(compare(black, dict.fromkeys(black, ())))[30:, : 12 + 256 + 6]
    picture, frame = (np.argwhere((page == grey).all(axis=2)) for grey in (0, 215))
    assert (frame.min(axis=0) == picture.min(axis=0) - 1).all()
    assert (frame.max(axis=0) == picture.max(axis=0) + 1).all()


# Runs -------------------------------------------------------------------------------------------


def test_a_run_writes_pictures_and_a_record_that_agree_with_the_pipeline(
    pipeline, faces: list[Path], tmp_path: Path
) -> None:
    out, how = tmp_path / "new" / "out", {"guidance": Guidance.cfg(2.0), "seed": 5}
    how["sampling"] = "bdia log-snr 3"
    results = ask(pipeline, faces, out, model="tiny", **how)
    images = torch.cat([read_images(Image.open(path), channels=3) for path in faces])
    given = {"smiling": [0] * 3, "age": [40] * 3, "hair": ["dark"] * 3}
    pair = pipeline.counterfactual(images, given, {"age": 90}, **how)
    back, seen = pipeline.reverse(pair), pipeline.judge.read(images).scores
    files = {f"{path.stem}{end}" for path in faces for end in (".png", "-counterfactual.png")}
    assert visible(out) == files | {"record.json"}
    for i, result in enumerate(results):
        written = read_images(Image.open(out / result.outputs["counterfactual"]), channels=3)[0]
        assert (written - pair.images[i]).abs().max() < 1.01 / 255
        change = (written - images[i]).abs().mean().item()
        assert result.change == pytest.approx(change, abs=2e-3)
        hair = SPACE["hair"].labels(pair.attributes["hair"])[i]
        assert result.factual == {"smiling": 0, "age": 40.0, "hair": "dark"}
        assert result.counterfactual == {"smiling": 0, "age": 90.0, "hair": hair}
        assert result.changed == ["age"] + (["hair"] if hair != "dark" else [])
        assert result.network_rows == {"counterfactual": 10, "reversal": 10, "trust": 14}
        lost = (back.images[i] - images[i]).abs().mean().item()
        assert result.reversal_error == pytest.approx(lost, abs=1e-5)
        assert result.judged["factual"]["age"] == pytest.approx(seen["age"][i])
        assert result.judged["factual"]["hair"]["red"] == pytest.approx(seen["hair"][i, 2])
        assert result.judged_as("hair")["factual"] == result.judged["factual"]["hair"][hair]
        assert result.judged_as("smiling")["reversed"] == result.judged["reversed"]["smiling"]
    record = record_of(out)
    wanted = {"model": "tiny", "do": {"age": 90}, "guidance": "cfg:2.0", "steps": 3, "seed": 5}
    wanted |= {"solver": "bdia:0.3", "grid": "log-snr", "provenance": {"seed": 3}}
    assert record.items() >= (wanted | {"asked": 3, "finished": 3}).items()
    assert [image["file"] for image in record["images"]] == [str(path) for path in faces]
    assert record["images"][0]["attributes_from"] == "given"


@pytest.mark.parametrize("count", [2, 3])
def test_parts_come_to_the_whole(faces, tmp_path: Path, count: int) -> None:
    """Columns, functions of a whole column and names of outputs mean the same in every part.

    In float64, where the number of images at once rounds no pixel of a picture differently.
    """
    pipeline, shared = tiny_pipeline(), tmp_path / "shared"
    pipeline.denoiser.double()
    asked = {"attributes": {"smiling": [0, 1, 0], "age": [20, 40, 90], "hair": ["dark"] * 3}}
    asked |= {"do": {"age": lambda age: age[::-1], "smiling": [1, 1, 0]}, "batch_size": 3}
    whole = ask(pipeline, faces, tmp_path / "whole", **asked)
    found = [(r.counterfactual["age"], r.counterfactual["smiling"]) for r in whole]
    assert found == [(90, 1), (40, 1), (20, 0)]
    parts = [ask(pipeline, faces, shared, shard=(i, count), **asked) for i in range(count)]
    assert sorted(map(len, parts)) == ([1, 2] if count == 2 else [1, 1, 1])
    for one, other in zip(whole, chain(*parts), strict=True):
        assert (one.file, one.counterfactual) == (other.file, other.counterfactual)
        assert one.reversal_error == pytest.approx(other.reversal_error, abs=1e-5)
    for i, part in enumerate(parts):
        record = record_of(shared, f"record-{i}-of-{count}.json")
        assert record["shard"] == [i, count]
        assert record["asked"] == record["finished"] == len(part)
    one, other = (
        {name: data for name, data in contents(out).items() if name.endswith(".png")}
        for out in (shared, tmp_path / "whole")
    )
    assert one == other
    assert len(set(one.values())) == len(one) >= 3  # each has its own
    with refused(f"out {shared}", "another one (seed: 1)"):
        ask(pipeline, faces, shared, shard=(0, count), seed=1, **asked)
    for shard in ((2, 2), (0, 4)):
        refused("shard, ").by(ask, pipeline, faces, shared, shard=shard, **asked)
    shares: list[float] = []
    ask(pipeline, faces, tmp_path / "part", shard=(1, 2), on_progress=shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1)


def test_a_record_has_what_was_taken_where_nothing_was_said(pipeline, faces, tmp_path) -> None:
    """Attributes are those that the judge reads."""
    results = generate(pipeline, faces, do={"smiling": flip}, reverse=False, out=tmp_path)
    record = record_of(tmp_path)
    assert record.items() >= (DRAWN_NOISE.to_json() | {"do": {"smiling": "flip"}}).items()
    seen = pipeline.judge.read([Image.open(path) for path in faces])
    for i, result in enumerate(results):
        assert result.attributes_from == "judge"
        assert result.factual["smiling"] == seen.attributes["smiling"][i]
        assert result.counterfactual["smiling"] == 1 - result.factual["smiling"]
        assert result.network_rows["counterfactual"] == 3 * record["steps"]


def test_without_a_judge_attributes_must_be_given(faces: list[Path], tmp_path: Path) -> None:
    blind = tiny_pipeline(judge=False)
    with refused("attributes", "no judge", "table.csv"):
        generate(blind, faces, do={"smiling": 1}, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()
    results = ask(blind, faces, tmp_path / "out", reverse=False, sampling="ddim karras 3")
    assert (results[0].judged, results[0].reversal_error) == ({}, None)
    assert results[0].network_rows == {"counterfactual": 9, "trust": 8}


def test_the_judge_is_surest_of_what_it_read() -> None:
    """It never says that something else is likelier than what it says."""
    for smiling, scores in ((0.1, (0.1, 0.6, 0.3)), (0.9, (0.5, 0.2, 0.3))):
        hair = dict(zip(("dark", "grey", "red"), scores, strict=True))
        read = {"smiling": int(smiling > 0.5), "hair": max(hair, key=hair.__getitem__)}
        judged = {"factual": {"smiling": smiling, "hair": hair}}
        result = Result("x.png", (8, 8), (), "judge", read, read, judged)
        assert (result.sure("smiling"), result.sure("hair")) == (0.9, max(scores))


@pytest.mark.parametrize("finished", [0, 1, 2])
def test_an_interrupted_run_goes_on_to_the_same_files(pipeline, faces, tmp_path, finished) -> None:
    """The record is written before the first picture: whenever a run dies, it can go on."""
    chunks: list[list[Result]] = []

    def die_at(share: float) -> None:
        if len(chunks) == finished:
            raise KeyboardInterrupt

    out, made, how = tmp_path / "out", [], {"batch_size": 3, "model": "tiny"}
    whole = ask(pipeline, faces, tmp_path / "whole", **how)
    with pytest.raises(KeyboardInterrupt):
        ask(pipeline, faces, out, on_chunk=chunks.append, on_progress=die_at, **how)
    record = record_of(out)
    assert (record["asked"], record["finished"]) == (3, finished)
    chunks.clear()
    results = ask(pipeline, faces, out, on_chunk=chunks.append, on_progress=made.append, **how)
    assert (results, chunks) == (whole, [[result] for result in whole])
    assert made[0] >= finished / 3  # what was finished is not made again
    assert contents(out) == contents(tmp_path / "whole")
    made.clear()
    assert (ask(pipeline, faces, out, on_progress=made.append, **how), made) == (whole, [])


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(28, "No space left on device")])
@pytest.mark.parametrize("writes", [2, 4])
@pytest.mark.promise("A full disk ends a generation between two files, and it goes on")
def test_a_run_that_ends_between_two_files_goes_on(
    pipeline, faces, tmp_path: Path, error: BaseException, writes: int
) -> None:
    """Killed, or with a full disk: there is no half of a file."""
    out, whole = tmp_path / "out", ask(pipeline, faces, tmp_path / "whole")
    with ended_after(writes, error):
        ask(pipeline, faces, out)
    assert visible(out) < visible(tmp_path / "whole")
    assert len(visible(out)) == writes
    assert ask(pipeline, faces, out) == whole
    assert contents(out) == contents(tmp_path / "whole")


def killed_run(path: str) -> None:
    """A run that is killed again and again, and then ends; beside one that nobody disturbed."""
    folder, how = Path(path), {"batch_size": 6, "sampling": 6}
    faces = draw(folder / "faces", [f"{i}.png" for i in range(6)])

    def answers(name: str) -> object:
        return ask(tiny_pipeline(), faces, folder / name, **how)

    effective = kill_again_and_again(partial(answers, "out"), answers, kills=6)
    print(effective, answers("out") and contents(folder / "out") == contents(folder / "first"))


@pytest.mark.promise("A generation that is killed goes on, and ends with the same files")
def test_a_run_killed_at_random_ends_with_the_same_files(tmp_path: Path) -> None:
    kills, same = printed_elsewhere("test_generation", "killed_run", tmp_path)
    assert (int(kills) >= 2, same) == (True, "True"), kills


def test_further_pictures_are_added_and_a_lost_one_is_made_again(
    pipeline, faces, tmp_path
) -> None:
    out = tmp_path / "out"
    first = ask(pipeline, faces[:2], out)
    (out / "ben.png").unlink()
    before = (out / "anna.png").stat().st_mtime_ns
    results = ask(pipeline, faces, out)
    assert [result.file for result in results] == [str(path) for path in faces]
    assert results[0] == first[0]
    assert (out / "anna.png").stat().st_mtime_ns == before
    assert {"ben.png", "carl.png"} <= visible(out)


def test_a_folder_with_another_run_is_refused_unless_it_may_be_replaced(
    pipeline, faces, tmp_path: Path
) -> None:
    out, other = tmp_path / "out", tiny_pipeline()
    other.denoiser.network.head[-1].bias.data += 1
    ask(pipeline, faces, out)
    before = contents(out)

    def differs(fragment: str, model: Any = pipeline, files: Any = faces, **options: Any) -> None:
        refused(f"out {out}", fragment, "--overwrite").by(ask, model, files, out, **options)
        assert contents(out) == before

    differs("(do.age: ", do={"age": 91})
    differs("(guidance: ", guidance=Guidance.cfg(2.0))
    differs("(seed: ", seed=1)
    differs("(reverse: ", reverse=False)
    differs("(steps: ", sampling=2)
    differs("(factual of", attributes="smiling=1,age=40,hair=dark")
    differs("(attributes_from of", attributes="auto")
    differs("(images: ", files=faces[1:])
    differs("(digest: ", other)
    Image.open(faces[1]).rotate(90).save(faces[1])
    differs("(key of")
    ask(other, faces[1:], out, overwrite=True, seed=1)
    assert record_of(out)["finished"] == 2


BROKEN = ("", "{}", "[" * 10**5, '{"images": [3], "at_once": 1}')


@pytest.mark.parametrize(
    ("name", "text"), [*(("record.json", text) for text in BROKEN), ("ben.png", "mine")]
)
def test_a_file_of_somebody_else_is_replaced_on_demand_alone(
    pipeline, faces, tmp_path: Path, name: str, text: str
) -> None:
    (tmp_path / name).write_text(text)
    refused(f"out {tmp_path}", f"'{name}'", "--overwrite").by(ask, pipeline, faces, tmp_path)
    assert visible(tmp_path) == {name, "faces"}
    assert (tmp_path / name).read_text() == text
    ask(pipeline, faces, tmp_path, overwrite=True)
    assert record_of(tmp_path)["finished"] == 3
    (tmp_path / "record.json").unlink()
    (tmp_path / "record.json").symlink_to("/dev/zero")  # which is not read
    refused(f"out {tmp_path}").by(ask, pipeline, faces, tmp_path)


def test_two_runs_do_not_share_a_folder_at_a_time(pipeline, faces, tmp_path: Path) -> None:
    out = tmp_path / "out"

    def again(_: list[Result]) -> None:
        refused(f"run {out}", "held by process").by(ask, pipeline, faces, out)

    ask(pipeline, faces, out, on_chunk=again)


def test_no_output_replaces_a_picture_or_another_output(pipeline, faces, tmp_path: Path) -> None:
    """Equal stems are told apart by their folder."""
    before = faces[0].read_bytes()
    with refused("out", "other than that of the pictures", "anna.png"):
        ask(pipeline, faces, tmp_path / "faces", overwrite=True)
    assert faces[0].read_bytes() == before
    for names in (["x.png", "x.jpg"], ["x.png", "x-counterfactual.png"]):
        refused("images", *names).by(ask, pipeline, draw(tmp_path / "in", names), tmp_path / "out")
    files = draw(tmp_path, ["one/x.png", "two/X.png", "two/y.png"])
    results = ask(pipeline, files, tmp_path / "out", reverse=False)
    assert [r.outputs["comparison"] for r in results] == ["one-x.png", "two-X.png", "y.png"]


def test_a_bad_question_is_refused_before_anything_is_written(pipeline, faces, tmp_path) -> None:
    few = {"smiling": [0], "age": [1], "hair": [0]}
    for name, *values in (
        *(("do", {}), ("sampling", 0, "paper"), ("batch_size", 1), ("seed", -1)),
        *(("guidance", Guidance.fcfg(old=1)), ("attributes", "smiling=0", few)),
    ):
        for value in values:
            subject = "steps" if name == "sampling" else name
            refused(subject).by(ask, pipeline, faces, tmp_path / "out", **{name: value})
    refused("intervention").by(ask, pipeline, faces, tmp_path / "out", do={"agge": 1})
    assert not (tmp_path / "out").exists()
    (tmp_path / "file").write_text("")
    for out in (tmp_path / "file", tmp_path / "file" / "below"):
        request = Request(faces, GIVEN, {"age": 1}, out=out)
        refused(f"out {out}").by(prepare, pipeline, request)


def test_a_picture_that_does_not_come_back_is_lost_and_what_is_changed_is_recorded(
    tmp_path,
) -> None:
    lost, kept = ((0.3, 0.31), (0.0, 0.06)), ((0.3, 0.2), (0.0, 0.04), (0.3, None))
    for change, error in (*lost, *kept):
        result = Result("x.png", (8, 8), (), "given", {}, {}, reversal_error=error, change=change)
        assert result.is_lost == ((change, error) in lost)
    # Bright pictures are no cause for a warning, and the record is JSON in any case.
    Image.new("RGB", (20, 20), (250, 240, 230)).save(tmp_path / "big.png")
    pipeline, out = tiny_pipeline(), tmp_path / "out"
    (result,) = ask(pipeline, [tmp_path / "big.png"], out)
    assert (result.stored, result.prepared) == ((20, 20), (RESIZED,))
    with Image.open(out / "big-counterfactual.png") as picture:
        assert picture.size == (8, 8)
    pipeline.denoiser.network.head[-1].bias.data.fill_(torch.nan)
    with pytest.warns(UserWarning, match="NaN or infinity"):
        (result,) = ask(pipeline, [tmp_path / "big.png"], out, overwrite=True)
    assert result.reversal_error is None
    assert record_of(out)["finished"] == 1


def test_what_is_drawn_depends_on_the_picture_and_the_seed_alone(tmp_path: Path) -> None:
    pipeline, files = tiny_pipeline(), draw(tmp_path / "in", [f"{i}.png" for i in range(12)])
    randomised(pipeline.scm, 1.0)  # so that age decides on hair

    def hair(some: list[Path], seed: int = 0) -> list[int]:
        request = Request(some, GIVEN, {"age": 52}, seed=seed, out=tmp_path / "out")
        return prepare(pipeline, request).action.attributes["hair"].tolist()

    whole = hair(files)
    assert hair(files[::-1]) == whole[::-1]
    assert whole != whole[::-1] != hair(files[::-1], seed=1)
