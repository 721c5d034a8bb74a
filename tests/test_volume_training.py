"""Folders of NIfTI files: checked, trained on, and asked."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
import torch

import fcfg
from fcfg.causal.attributes import AttributeSpace, Binary
from fcfg.cli import main
from fcfg.datasets.check import check_folder
from fcfg.datasets.folder import FolderData
from fcfg.support.pictures import Cube
from fcfg.support.volumes import read_cube
from fcfg.training import read_config, train
from refusal import refused

SPACE = AttributeSpace([Binary("sick")])
SHORT = ["model.steps=2", "judge.steps=1", "model.batch=4", "judge.batch=4", "scm.steps=2"]


def written(path: Path, values: np.ndarray) -> Path:
    data = nibabel.Nifti1Image(values.astype(np.int16), np.eye(4)).to_bytes()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Volumes of several sizes, whose middle is bright in the sick."""
    folder, rows = tmp_path / "scans", ["file_name,sick"]
    folder.mkdir()
    generator = np.random.default_rng(0)
    for number in range(20):
        values = generator.normal(0, 20, (8 + number % 3, 9, 10))
        values[3:5, 3:5, 3:5] += 500 * (number % 2)
        name = written(folder / f"{number:02}.nii{'.gz' * (number % 2)}", values).name
        rows.append(f"{name},{number % 2}")
    (folder / "metadata.csv").write_text("\n".join(rows))
    return folder


def test_a_volume_is_cut_and_padded_around_its_centre(tmp_path: Path) -> None:
    values = np.arange(10 * 8 * 5).reshape(10, 8, 5)
    path = written(tmp_path / "one.nii", values)
    cube = read_cube(path, Cube(8, 1, (0.0, 399.0)))
    assert cube.stored == ((10, 8, 5), "F")
    inside = np.round(values[1:9] / 399 * 255)
    assert np.abs(cube.pixels[0, :, :, 1:6] - inside).max() <= 1
    assert (cube.pixels[0, :, :, [0, 6, 7]] == 0).all()


def test_a_folder_of_volumes_is_checked_trained_on_and_asked(folder, tmp_path, capsys) -> None:
    pytest.importorskip("monai", reason="needs the extra monai")
    config = tmp_path / "scans.yaml"
    assert main(["data", "check", str(folder), "--init", str(config)]) == 0
    told = capsys.readouterr().out
    assert "10x9x10 F: 6" in told
    assert (folder / ".fcfg-check" / "sheet.png").exists()
    made = train(read_config(str(config), SHORT), tmp_path / "out")
    model = fcfg.load(made)
    assert model.dimensions == 3
    assert model.judge.network.config.dimensions == 3
    x = torch.rand(2, 1, 8, 8, 8) * 2 - 1
    answer = model.counterfactual(x, {"sick": [0, 1]}, {"sick": "flip"}, sampling=3)
    assert answer.images.shape == x.shape
    out = tmp_path / "answers"
    asked: list[Any] = ["generate", str(made), str(folder / "00.nii"), "--do", "sick=1"]
    assert main([*asked, "--attributes", "sick=0", "--sampling", "3", "--out", str(out)]) == 0
    assert nibabel.load(out / "00-counterfactual.nii.gz").shape == (8, 9, 10)


def test_problems_of_volumes_are_found_and_named(folder: Path) -> None:
    (folder / "extra.nii.gz").write_bytes(b"not listed")
    (folder / "03.nii.gz").write_bytes(b"broken")
    found = check_folder(folder)
    told = {finding.what: finding.names for finding in found.findings}
    assert told["images that metadata.csv does not list"] == ("extra.nii.gz",)
    (broken,) = told["images that cannot be read"]
    assert broken.startswith("03.nii.gz (")
    assert (found.dimensions, found.grey, found.side) == (3, True, 8)
    data = FolderData(path=folder, dimensions=3, channels=1, size=8, window=(-100.0, 600.0))
    with pytest.warns(UserWarning, match="1 of 20 images"):
        splits = data.load(SPACE, skip_bad=True)
    assert splits["train"].images.shape[1:] == (1, 8, 8, 8)


def test_a_network_of_pictures_is_refused_for_volumes(folder: Path, tmp_path: Path) -> None:
    config = tmp_path / "flat.yaml"
    assert main(["data", "check", str(folder), "--init", str(config)]) == 0
    changes = ["model.network.config.spatial_dims=2"]
    with refused("model.batch", "8 × 8 × 8 pixels"):
        train(read_config(str(config), [*SHORT, *changes]), tmp_path / "out")
