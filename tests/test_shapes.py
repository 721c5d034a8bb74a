"""The folder of shapes that newcomers try the commands on."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fcfg.cli import main
from fcfg.datasets.shapes import GRAPH, SIZE, Shape, sample, write_shapes
from refusal import refused


def test_a_shape_shows_its_attributes_and_larger_ones_are_brighter() -> None:
    disc, square = (
        np.asarray(Shape(3.0, 200, square, 8.0, 7.0).draw(), dtype=float) for square in (0, 1)
    )
    assert disc.shape == (SIZE, SIZE)
    assert disc.max() == square.max() == 200
    assert disc.sum() / 200 == pytest.approx(np.pi * 9, rel=0.1)
    assert square.sum() / 200 == pytest.approx(36, rel=0.1)
    assert np.argwhere(disc > 100).mean(axis=0) == pytest.approx([6.5, 7.5], abs=0.1)
    shapes = sample(2000, seed=3)
    radius, brightness, square = (np.array([getattr(s, name) for s in shapes]) for name in GRAPH)
    assert np.corrcoef(radius, brightness)[0, 1] > 0.8
    assert abs(np.corrcoef(radius, square)[0, 1]) < 0.1
    assert sample(3, seed=3) == shapes[:3]
    assert sample(3, seed=4) != shapes[:3]


def test_the_folder_can_be_checked_and_is_never_replaced(tmp_path: Path, capsys) -> None:
    folder = tmp_path / "shapes"
    assert main(["data", "example", str(folder), "--count", "60"]) == 0
    assert f"next: fcfg data check {folder}" in capsys.readouterr().out
    with (folder / "metadata.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["file_name"] for row in rows] == [f"{i:04}.png" for i in range(60)]
    with Image.open(folder / "0000.png") as picture:
        assert picture.size == (SIZE, SIZE)
    assert float(rows[7]["radius"]) == sample(60)[7].radius
    assert main(["data", "check", str(folder)]) == 0
    assert main(["data", "example", str(folder)]) == 2
    assert "does not exist, or is empty" in capsys.readouterr().err
    with refused(f"folder {folder / '0000.png'}", "choose another name"):
        write_shapes(folder / "0000.png")
    refused("count", "from 1").by(write_shapes, tmp_path / "none", 0)
