"""Morpho-MNIST: its file, and thickness and intensity measured in images."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy import ndimage
from torch import Tensor

from evaluations import asked, evaluation
from fcfg import AttributeSpace, Binary
from fcfg.evaluation import Evaluators, choose_subset, find_evaluators
from fcfg.metrics import stroke_intensity, stroke_thickness
from fcfg.metrics.strokes import SCALE, distance_to_background, enlarge, medial_axis
from fcfg.reports import compare, write_report
from fcfg.support.images import images_from_bytes
from refusal import refused
from stored import shared
from tiny import pipeline_over
from trees import morphomnist, ring, space_of, usual


def test_images_are_padded_and_keep_their_labels_and_the_published_test_split(tmp_path) -> None:
    config = morphomnist(tmp_path)
    arrays = np.load(tmp_path / "morphomnist.npz")
    splits = config.load(space_of(config))
    assert [len(splits[split]) for split in ("train", "val", "test")] == [9, 1, 6]
    for examples in splits.values():
        assert examples.images.shape[1:] == (1, 32, 32)
        for row, name in enumerate(examples.names):
            split, number = name.split("-")
            original = np.pad(arrays[f"x_{split}"][int(number)], 2)
            assert np.array_equal(examples.images[row, 0], original)
            for attribute, array in (("thickness", "thickness"), ("digit", "y")):
                label = arrays[f"{array}_{split}"][int(number)]
                assert examples.attributes[attribute][row] == pytest.approx(label, rel=1e-6)
    assert {name.split("-")[0] for name in splits["test"].names} == {"test"}
    assert {name.split("-")[0] for name in splits["val"].names} == {"train"}


def test_the_seed_and_the_fraction_choose_the_validation_images(tmp_path: Path) -> None:
    config = morphomnist(tmp_path, train=40)
    space = space_of(config)
    chosen = config.listing(space).split("val")
    assert config.model_copy(update={"split_seed": 1}).listing(space).split("val") != chosen
    more = config.model_copy(update={"val_fraction": 0.25}).listing(space)
    assert [len(more.split(split)) for split in ("train", "val", "test")] == [30, 10, 6]


def test_another_file_broken_bytes_and_unknown_attributes_are_refused(tmp_path: Path) -> None:
    for name, array, fragment in (
        ("x_train", np.zeros((10, 28, 28)), "x_train of float64 (10, 28, 28)"),
        ("x_test", np.zeros((6, 32, 32), np.uint8), "x_test of uint8 (6, 32, 32)"),
        *(("x_test", None, "x_test"), ("y_test", None, "y_test")),
        ("thickness_test", np.ones(5), "thickness_test of float64 (5,)"),
        ("y_train", np.array([{}] * 10), "allow_pickle"),
    ):
        config = morphomnist(tmp_path, **{name: array})
        refused("morphomnist.npz", "28 by 28 bytes", fragment).by(config.listing, space_of(config))
    config, path = morphomnist(tmp_path), tmp_path / "morphomnist.npz"
    refused("morphomnist.npz", "'slant'").by(config.listing, AttributeSpace([Binary("slant")]))
    data = bytearray(path.read_bytes())
    data[1000] ^= 255  # a pixel of the first array, which is not compressed
    path.write_bytes(data)
    refused("morphomnist.npz", "CRC").by(config.load, space_of(config))
    path.write_bytes(b"no archive")
    refused("morphomnist.npz", "allow_pickle").by(config.listing, space_of(config))


def rings(values: list[tuple[float, float]], **more: float) -> Tensor:
    return images_from_bytes(np.stack([np.pad(ring(*v, **more), 2)[None] for v in values]))


@pytest.mark.parametrize("radius", [6.0, 9.0])
def test_the_thickness_of_a_ring_is_the_one_it_was_drawn_with(radius: float) -> None:
    thickness = np.arange(1.5, 6.1, 0.5)
    measured = stroke_thickness(rings([(t, 200.0) for t in thickness], radius=radius))
    error = abs(measured - thickness)
    assert np.median(error) < 0.05
    assert error.max() < 0.35  # pixels blur the thinnest, and a medial axis may have spurs
    assert (np.diff(measured) > 0.1).all()


def test_thickness_and_intensity_are_measured_whatever_is_around() -> None:
    images = rings([(2.0, 250.0), (4.0, 250.0)], radius=6.0)
    measured = stroke_thickness(images)
    assert stroke_thickness(images.roll((3, -2), (2, 3))) == pytest.approx(measured)
    assert stroke_thickness((images + 1) / 4 - 1) == pytest.approx(measured)
    assert stroke_thickness(images.repeat(1, 3, 1, 1)) == pytest.approx(measured)
    assert stroke_thickness(images.flip(0)) == pytest.approx(measured[::-1])
    assert stroke_thickness(images.rot90(1, (2, 3))) == pytest.approx(measured, abs=0.03)
    measured = stroke_intensity(rings([(4.0, 120.0), (4.0, 240.0)]))
    assert measured == pytest.approx([120, 240])
    shades = torch.tensor([0.0, 0.0, 0.0, 99.0, 101.0, 150.0, 200.0, 0.0, 0.0])
    assert stroke_intensity(shades.view(1, 1, 3, 3) / 127.5 - 1) == pytest.approx([150.0])
    flat = torch.stack([torch.full((1, 32, 32), shade) for shade in (-1.0, 0.2)])
    assert stroke_thickness(flat) == pytest.approx([0.0, 0.0])
    assert stroke_intensity(flat) == pytest.approx([0.0, 153.0])


def test_enlarged_images_are_those_of_scipy() -> None:
    images = np.random.default_rng(0).uniform(0, 255, (2, 9, 12))
    for image, large in zip(images, enlarge(images), strict=True):
        zoomed = ndimage.zoom(image, SCALE, order=3, mode="grid-mirror", grid_mode=True)
        smooth = ndimage.gaussian_filter(zoomed, SCALE / 3, mode="reflect")
        assert large == pytest.approx(smooth, abs=1e-6)


def blobs(count: int = 4, size: int = 40) -> NDArray[np.bool_]:
    """Random shapes with holes, some of which touch the border."""
    noise = np.random.default_rng(1).normal(size=(count, size, size))
    return np.stack([ndimage.gaussian_filter(page, 2.5) > 0 for page in noise])


def test_distances_and_medial_axes_are_those_of_a_plain_loop_and_keep_parts_and_holes() -> None:
    shapes = blobs()
    expected = [ndimage.distance_transform_edt(shape) for shape in shapes]
    assert distance_to_background(shapes) == pytest.approx(np.stack(expected))
    shapes = blobs()
    distance = distance_to_background(shapes)
    for shape, far, axis in zip(shapes, distance, medial_axis(shapes, distance), strict=True):
        assert not (axis & ~shape).any()
        assert axis.sum() < 0.3 * shape.sum()
        assert parts(axis) == parts(shape)
        background = [np.pad(~page, 1, constant_values=True) for page in (axis, shape)]
        assert len({ndimage.label(page)[1] for page in background}) == 1
        assert np.array_equal(axis, plain_medial_axis(shape, far))


def parts(pixels: NDArray[np.bool_]) -> int:
    """Number of parts, where corners touch."""
    return ndimage.label(pixels, np.ones((3, 3)))[1]


def plain_medial_axis(shape: NDArray[np.bool_], far: NDArray[np.float64]) -> NDArray[np.bool_]:
    """One pixel after another, as in scikit-image, with ties broken by position."""
    page = np.pad(shape, 1)
    crowd = ndimage.convolve(page.astype(int), np.ones((3, 3), int), mode="constant")
    pixels = [(y, x) for y, x in np.argwhere(page)]
    for y, x in sorted(pixels, key=lambda p: (far[p[0] - 1, p[1] - 1], -crowd[p], *p)):
        around = page[y - 1 : y + 2, x - 1 : x + 2].copy()
        around[1, 1] = False
        page[y, x] = around.sum() < 2 or parts(around) != 1
    return page[1:-1, 1:-1]


def test_measured_values_agree_with_the_published_ones() -> None:
    with np.load(shared("morphomnist/morphomnist.npz"), allow_pickle=False) as arrays:
        padded = np.pad(arrays["x_test"][:500], ((0, 0), (2, 2), (2, 2)))
        images = images_from_bytes(padded[:, None])
        thickness, intensity = (arrays[f"{n}_test"][:500] for n in ("thickness", "intensity"))
    for measured, published, r, error in (
        (stroke_thickness(images), thickness, 0.97, 0.13),
        (stroke_intensity(images), intensity, 0.9999, 0.6),
    ):
        assert np.corrcoef(measured, published)[0, 1] > r
        assert abs(measured - published).mean() < error


def test_evaluation_measures_what_can_be_measured_and_reads_the_rest(tmp_path: Path) -> None:
    config, (space, graph) = morphomnist(tmp_path), usual("morphomnist")
    table = config.load(space)["train"].attributes
    pipeline = pipeline_over(space, graph, table, channels=1, size=32)
    pipeline.provenance = {"training": {"data": config.model_dump(mode="json")}}
    evaluators = find_evaluators(pipeline, size=8)
    experiment = asked(do=("thickness",), guidance=("cfg:2.0",), images=6, balance=())
    subset = choose_subset(pipeline, experiment)
    reading, judged = evaluators.read(subset.images), evaluators.judge.read(subset.images)
    for name, tolerance in (("thickness", 0.35), ("intensity", 1.0)):
        assert abs(reading.scores[name] - subset.attributes[name]).max() < tolerance
        assert reading.attributes[name] is reading.scores[name]
        assert abs(judged.scores[name] - subset.attributes[name]).max() > tolerance
    assert np.array_equal(reading.scores["digit"], judged.scores["digit"])
    assert evaluators.read(torch.full((1, 1, 32, 32), -1.0)).scores["thickness"] == [0.5]

    run = evaluation(tmp_path / "out", experiment, pipeline, subset=subset, evaluators=evaluators)
    result = run.run()
    assert result.header["metrics"]["measured"].keys() == {"thickness", "intensity"}
    assert [result.real[name]["scores"]["thickness"] for name in subset.names] == pytest.approx(
        reading.scores["thickness"].tolist(), rel=1e-4
    )
    assert "thickness from pixels" in write_report(compare(tmp_path / "out")).page.read_text()
    plain = Evaluators(evaluators.judge, evaluators.lpips)
    assert "measured" not in plain.about
