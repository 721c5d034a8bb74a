"""Volumes in NIfTI files: what a model sees of them, and what becomes of them."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import torch
from PIL import Image

from convolutions import SPACE, convolutional
from evaluations import asked as asked_of_tiny
from fcfg import AttributeJudge, Judge, JudgeConfig
from fcfg.cli import main
from fcfg.evaluation import Evaluation, Evaluators, Subset
from fcfg.generation import find_pictures, generate, read_files
from fcfg.metrics.weights import Missing
from fcfg.model import model_format
from fcfg.reports import compare, write_report
from fcfg.support.volumes import Voxels, read_volume
from refusal import refusal, refused

SIZE = (6, 7, 8)
OBLIQUE = np.array([[1.2, 0.1, 0, -30], [-0.1, 1.1, 0.2, 12], [0, -0.2, 2.0, 5], [0, 0, 0, 1]])
NOTHING = {"sampling": 4, "guidance": "fcfg:affected=2,invariant=-1;anchor=true"}


def numbers(*size: int, low: float = -1000, high: float = 3000) -> np.ndarray:
    generator = np.random.default_rng(sum(size))
    return generator.uniform(low, high, size).astype(np.int16)


def stored(path: Path, values: np.ndarray, codes: str = "RAS", **header: Any) -> Path:
    """Write a volume whose axes lie as some codes of nibabel say."""
    image = nibabel.Nifti1Image(values, OBLIQUE)
    for name, value in header.items():
        image.header[name] = value
    turning = nibabel.orientations
    own = turning.axcodes2ornt(codes)
    back = turning.ornt_transform(turning.axcodes2ornt("RAS"), own)
    nibabel.save(image.as_reoriented(back), path)
    return path


def asked(
    files: Sequence[Path], out: Path, do: dict[str, Any], channels: int = 1, **options: Any
) -> Any:
    options = {"sampling": 4, "attributes": "a=0,b=1", "out": out, "progress": False} | options
    return generate(convolutional(3, channels=channels, stride=4), files, do=do, **options)


def test_a_volume_comes_back_with_the_values_and_the_place_it_had(tmp_path: Path) -> None:
    """Of whatever orientation, and padded: the network halves its sides twice."""
    for codes, suffix in (("RAS", ".nii"), ("LPS", ".nii.gz"), ("PIR", ".nii.gz")):
        path = stored(tmp_path / f"{codes}{suffix}", numbers(*SIZE), codes=codes)
        (result,) = asked([path], tmp_path / codes, {"a": 0})
        before, out = nibabel.load(path), tmp_path / codes
        after = nibabel.load(out / f"{codes}-counterfactual.nii.gz")
        assert type(after) is type(before)
        assert np.allclose(after.affine, before.affine, atol=1e-5)
        assert after.shape == before.shape == result.stored
        assert nibabel.aff2axcodes(after.affine) == tuple(codes)
        assert np.allclose(after.get_fdata(), before.get_fdata(), atol=0.01)
        notes = {"its own range of values scaled to -1..1", "padded with black to 8 by 8 by 8"}
        turned = {"turned: x to the right, y to the front, z upwards"} if codes != "RAS" else set()
        assert set(result.prepared) == notes | turned
        with Image.open(out / result.outputs["slices"]) as slices:
            assert slices.size == (8 * 3, 8)
        with Image.open(out / result.outputs["comparison"]) as page:
            assert page.width > 4 * slices.width


def test_what_a_model_sees_does_not_depend_on_how_a_volume_is_stored(tmp_path: Path) -> None:
    answers = []
    for codes in ("RAS", "LPS", "SRP"):
        path = stored(tmp_path / f"{codes}.nii", numbers(*SIZE), codes=codes)
        (result,) = asked([path], tmp_path / codes, {"a": 1}, reverse=False)
        made = nibabel.load(tmp_path / codes / result.outputs["counterfactual"])
        answers.append((result.key, nibabel.as_closest_canonical(made).get_fdata()))
    (key, answer), *others = answers
    assert all(each == key and np.array_equal(other, answer) for each, other in others)
    assert np.abs(answer - numbers(*SIZE)).max() > 5


def test_a_folder_of_volumes_is_answered_by_its_table_and_resumed(tmp_path: Path) -> None:
    folder, out = tmp_path / "scans", tmp_path / "out"
    folder.mkdir()
    stored(folder / "anna.nii.gz", numbers(8, 8, 8), codes="LAS")
    stored(folder / "ben.NII", numbers(8, 8, 4)[..., [0, 1, 2, 3] * 2])
    (folder / "notes.png").write_bytes(b"ignored")
    (folder / "table.csv").write_text("file_name,a,b\nben.NII,1,0\nanna.nii.gz,0,1\n")
    options = {"attributes": str(folder / "table.csv"), "reverse": False, "batch_size": 2}
    results = asked([folder], out, {"a": "flip"}, **options)
    assert [result.factual for result in results] == [{"a": 0, "b": 1}, {"a": 1, "b": 0}]
    made = out / "ben-counterfactual.nii.gz"
    written = made.read_bytes()
    made.unlink()
    assert asked([folder], out, {"a": "flip"}, **options) == results
    assert made.read_bytes() == written
    outputs = json.loads((out / "record.json").read_text())["images"][0]["outputs"]
    names = {"comparison": "anna.png", "slices": "anna-counterfactual.png"}
    assert outputs == names | {"counterfactual": "anna-counterfactual.nii.gz"}


def test_the_window_is_of_the_training_or_the_file_or_of_bytes_or_of_the_volume(tmp_path) -> None:
    values = numbers(4, 4, 4)
    window = {"cal_min": 0, "cal_max": 400}
    ranged = stored(tmp_path / "window.nii", values, **window)
    bytes_ = stored(tmp_path / "bytes.nii", (values % 251).astype(np.uint8))
    flat = stored(tmp_path / "flat.nii", np.full((4, 4, 4), 7, np.int16))
    clipped = "values beyond the window clipped"
    for path, given, ends, notes in (
        (ranged, (-100.0, 100.0), (-100, 100), ("the window of the training applied", clipped)),
        (ranged, None, (0, 400), ("the window of the NIfTI file applied", clipped)),
        (bytes_, None, (0, 255), ()),
        (flat, None, (7, 7), ("its own range of values scaled to -1..1",)),
    ):
        seen, file = read_volume(path, Voxels(1, window=given))
        assert (file.window, file.notes) == (ends, notes)
        there = nibabel.load(path).get_fdata().clip(*ends)
        back = np.asanyarray(
            nibabel.Nifti1Image.from_bytes(gzip.decompress(file.holding(seen))).dataobj
        )
        assert np.allclose(back, there, atol=1e-3)
        assert seen.abs().max() <= 1
        (low, high) = ends
        wanted = 2 * (there - low) / max(high - low, 1) - 1
        assert np.allclose(seen[0], wanted, atol=1e-5)
    model = convolutional(3, channels=1, stride=2)
    model.provenance["training"] = {"data": {"window": [-100, 100]}}
    assert model_format(model) == Voxels(1, 2, (-100, 100))
    for wrong in (3, [1, 1], [1, 2, 3], ["a", "b"]):
        model.provenance["training"] = {"data": {"window": wrong}}
        refused("model, window", "two numbers, ascending").by(model_format, model)


def test_channels_follow_the_axes_and_lone_ones_may_be_there(tmp_path: Path) -> None:
    both = stored(tmp_path / "both.nii", numbers(4, 6, 8, 2), codes="LPI")
    (result,) = asked([both], tmp_path / "out", {"b": 1}, channels=2)
    made = nibabel.load(tmp_path / "out" / result.outputs["counterfactual"])
    assert np.allclose(made.get_fdata(), nibabel.load(both).get_fdata(), atol=0.01)
    lone = stored(tmp_path / "lone.nii", numbers(4, 4, 4)[..., None])
    seen, file = read_volume(lone, Voxels(1))
    assert (seen.shape, file.stored) == ((1, 4, 4, 4), (4, 4, 4, 1))


def claiming(path: Path, *dim: int) -> Path:
    """Write a file of few bytes whose header says another shape."""
    image = nibabel.Nifti1Image(numbers(4, 4, 4), OBLIQUE)
    image.header["dim"] = [*dim, *[1] * (8 - len(dim))]
    data = image.header.binaryblock + bytes(132)
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def test_what_is_no_volume_is_named_before_any_work(tmp_path: Path) -> None:
    good = stored(tmp_path / "good.nii", numbers(4, 4, 4))
    broken, cut, other = (tmp_path / name for name in ("broken.nii", "cut.nii", "other.mgz"))
    broken.write_bytes(b"not a volume")
    cut.write_bytes(good.read_bytes()[:-40])
    nibabel.save(nibabel.MGHImage(np.zeros((4, 4, 4), np.float32), OBLIQUE), other)
    cifti = nibabel.cifti2
    brain = cifti.BrainModelAxis.from_mask(np.ones((2, 2, 2)), "thalamus_left", OBLIQUE)
    greys = cifti.Cifti2Image(np.zeros((1, 8)), (cifti.ScalarAxis(["a"]), brain))
    nibabel.save(greys, tmp_path / "greys.nii")
    holes = np.ones((4, 4, 4), np.float32)
    holes[0, 0, 0] = np.nan
    lost = bytearray(good.read_bytes())
    for row in (280, 296, 312):  # the first column of the affine
        lost[row : row + 4] = bytes(4)
    (tmp_path / "lost.nii").write_bytes(lost)
    lost[280:284] = np.float32(np.nan).tobytes()
    (tmp_path / "nowhere.nii").write_bytes(lost)
    files = {
        broken: "ImageFileError",
        cut: "Expected",
        other: "not named .nii or .nii.gz",
        tmp_path / "greys.nii": "not a NIfTI file",
        stored(tmp_path / "holes.nii", holes): "NaN or infinite",
        stored(tmp_path / "four.nii", numbers(4, 4, 4, 3)): "shape (4, 4, 4, 3); one volume",
        tmp_path / "lost.nii": "its affine gives some axis no direction",
        tmp_path / "nowhere.nii": "its affine gives some axis no direction",
        tmp_path: "not named .nii or .nii.gz",
        stored(tmp_path / "complex.nii", numbers(4, 4, 4).astype(np.complex64)): "complex64; real",
        stored(tmp_path / "flat.nii", numbers(4, 4)): "shape (4, 4); a volume",
        claiming(
            tmp_path / "huge.nii", 3, 3000, 3000, 3000
        ): "3000 by 3000 by 3000 voxels, and it",
        claiming(tmp_path / "huge.nii.gz", 3, 3000, 3000, 3000): "it has fewer",
        claiming(tmp_path / "many.nii", 7, 4, 4, 4, 16384, 16384, 16384, 4): "it has fewer",
        claiming(tmp_path / "none.nii", 3, 4, 0, 4): "shape (4, 0, 4); a volume",
        claiming(tmp_path / "turned.nii", 3, -4, 4, 4): "shape (-4, 4, 4); a volume",
    }
    for path, fragment in files.items():
        refused("images", fragment, path.name).by(read_files, [good, path], Voxels(1))
    long = stored(tmp_path / "long.nii", numbers(4, 4, 6))
    with refused("images", "volumes of one size", "4 by 4 by 4 in good.nii", "4 by 4 by 6"):
        read_files([good, long], Voxels(1))
    (tmp_path / "empty").mkdir()
    with refused("images", "a folder with volumes, .nii or .nii.gz"):
        find_pictures([tmp_path / "empty"], volumes=True)
    refused("model", "1 dimensions").by(model_format, convolutional(1, channels=1))


def test_a_judge_of_volumes_reads_them_for_files_and_evaluations(tmp_path: Path) -> None:
    """Its answers are measured, and drawn by their slices; a report shows them."""
    model = convolutional(3, channels=1, stride=2)
    config = JudgeConfig(channels=1, outputs=2, width=4, dimensions=3)
    model.judge = AttributeJudge(Judge(config), SPACE).eval()
    files = [stored(tmp_path / f"{name}.nii", numbers(*SIZE) + name) for name in range(4)]
    (result,) = generate(model, files[:1], do={"a": "flip"}, sampling=3, out=tmp_path / "one")
    assert result.attributes_from == "judge"
    assert set(result.judged) == {"factual", "counterfactual", "reversed"}
    images = torch.stack([picture.image for picture in read_files(files, Voxels(1, 2))])
    table = {"a": np.array([0, 1, 0, 1]), "b": np.array([0, 0, 1, 1])}
    subset = Subset(images, table, tuple(map(str, range(4))), None, {"format": "volumes"})
    experiment = asked_of_tiny(do=("a",), sampling="ddim uniform 2")
    unread = Missing("LPIPS", "unused")
    out = tmp_path / "run"
    run = Evaluation(model, experiment, subset, Evaluators(model.judge, unread), out, pictures=2)
    found = run.run()
    assert all(0 < row["change"]["mae"] < 1 for row in found.rows.values())
    shown = sorted((out / "pictures").glob("answer-*.png"))
    assert len(shown) == 2 * len(experiment.guidance)
    with Image.open(shown[0]) as slices:
        assert slices.size == (8 + 6 + 6, 8)
    assert "data:image/png" in write_report(compare(out)).page.read_text()


def test_the_command_takes_volumes(tmp_path, monkeypatch, capsys) -> None:
    """As many at once as fit; the second file is broken, and then the first."""
    monkeypatch.setattr("fcfg.model.load", lambda _: convolutional(3, channels=1, stride=2))
    good = stored(tmp_path / "good.nii.gz", numbers(*SIZE))
    words = ["generate", "scans", str(good), "--attributes", "a=0,b=0", "--do", "a=1"]
    assert main([*words, "--out", str(tmp_path / "out"), "--sampling", "3"]) == 0
    assert "1 of 1: padded with black to 6 by 8 by 8" in capsys.readouterr().out
    assert (tmp_path / "out" / "good-counterfactual.nii.gz").is_file()
    broken = tmp_path / "broken.nii"
    broken.write_bytes(b"")
    zero, huge = (claiming(tmp_path / f"{n}.nii", 3, n, n, n) for n in (0, 30000))
    wrong = claiming(tmp_path / "wrong.nii", 9, 4, 4, 4)  # of which nibabel says more
    for path in (broken, zero, huge, wrong):
        words[2] = str(path)
        said = refusal(capsys, *words, "--out", str(tmp_path / "other"))
        assert "expected pictures that can be read" in said


def test_answers_of_any_precision_are_written_and_without_nibabel_the_extra_is_named(
    tmp_path, monkeypatch
) -> None:
    path = stored(tmp_path / "x.nii", numbers(4, 4, 4))
    seen, file = read_volume(path, Voxels(1))
    assert file.holding(seen.double()) == file.holding(seen)
    assert seen.dtype == torch.float32
    monkeypatch.setitem(sys.modules, "nibabel", None)
    refused("NIfTI volumes", "no nibabel").by(read_volume, path, Voxels(1))
