from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from fcfg.support.images import image_keys, read_images, to_pictures
from refusal import refused


@given(st.sampled_from([1, 3]), st.integers(0, 99))
def test_pictures_go_out_as_they_came_in(channels: int, seed: int) -> None:
    shape = (5, 4, 3) if channels == 3 else (5, 4)
    pixels = np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)
    images = read_images([Image.fromarray(pixels)] * 2, channels=channels)
    assert images.shape == (2, channels, 5, 4)
    assert images.dtype == torch.float32
    rows = pixels[None] if channels == 1 else pixels.transpose(2, 0, 1)
    np.testing.assert_allclose(images[1], rows / 127.5 - 1, atol=1e-6)
    assert images.abs().max() <= 1
    assert np.array_equal(np.asarray(to_pictures(images)[1]), pixels)
    assert np.asarray(to_pictures(torch.full((1, 1, 2, 2), 7.0))[0]).max() == 255  # clamped
    with refused("images", "1 or 3 channels", "got 2"):
        to_pictures(torch.zeros(1, 2, 4, 4))


def test_numbers_keep_their_precision_and_values_however_they_lie_in_memory() -> None:
    array = np.linspace(-1, 1, 48, dtype=np.float32).reshape(1, 3, 4, 4)
    turned = (array[:, :, ::-1], array.transpose(0, 1, 3, 2), array.astype(">f4"))
    for view in (array, array.astype(np.float64), *turned):
        images = read_images(view, channels=3).numpy()
        assert images.dtype == view.dtype.newbyteorder("=")
        assert np.array_equal(images, view)
    gradients = torch.zeros(1, 3, 2, 2, requires_grad=True)
    assert not read_images(gradients, channels=3).requires_grad


def test_keys_name_images_by_their_pixels_and_those_from_zero_to_one_are_warned_about() -> None:
    images = torch.rand(3, 1, 4, 4)
    keys = image_keys(images)
    assert len(set(keys)) == 3
    assert image_keys(images.flip(0).double()) == keys[::-1]
    with pytest.warns(UserWarning, match=r"2 \* x - 1"):
        read_images(torch.rand(1, 3, 4, 4), channels=3)
    read_images(torch.full((1, 3, 4, 4), 0.3), channels=3)  # a dark constant says nothing


GREY = Image.new("L", (4, 4))


@pytest.mark.parametrize(
    ("images", "channels", "subject", "fragment"),
    [
        (torch.zeros((1, 3, 4, 4), dtype=torch.uint8), 3, "images", "dtype uint8"),
        (np.zeros((1, 3, 4, 4), np.uint8), 3, "images", "two things"),
        (np.zeros((3, 8, 8), np.uint8), 1, "images", "two things"),
        (np.zeros((2, 8, 8, 8), np.uint8), 1, "images", "1, 3 or 4"),
        (np.zeros(8, np.uint8), 1, "images", "shape (8,)"),
        ([Path("face.png"), 3], 3, "images", "a sequence with int"),
        ([np.zeros((3, 4, 4))], 3, "images", "a sequence with ndarray"),
        (np.zeros((1, 3, 4, 4), np.int64), 3, "images", "dtype int64"),
        (np.full((1, 3, 4, 4), 255.0), 3, "images", "from 255 to 255"),
        (torch.full((1, 3, 4, 4), -1.1), 3, "images", "-1.1"),
        (torch.full((1, 3, 4, 4), torch.nan), 3, "images", "NaN"),
        (torch.zeros(3, 4, 4), 3, "images", "(3, 4, 4)"),
        (torch.zeros(1, 4, 4, 3), 3, "images", "channels first"),
        (torch.zeros(1, 3, 6, 4), 3, "images", "divisible by 4"),
        (torch.zeros(0, 3, 4, 4), 3, "images", "at least one image"),
        ([], 3, "images", "at least one picture"),
        (GREY, 3, "picture 0", "convert('RGB')"),
        ([Image.new("RGBA", (4, 4))], 3, "picture 0", "mode RGBA"),
        ([GREY, Image.new("L", (8, 4))], 1, "images", "one size"),
        ([GREY, Image.new("I;16", (4, 4))], 1, "picture 1", "float array"),
        ("face.png", 3, "picture 'face.png'", "FileNotFoundError"),
        (None, 3, "images", "got None"),
        (np.array([["a"]]), 3, "images", "numbers"),
        (torch.zeros(1, 3, 4, 4, device="meta"), 3, "images", "numbers"),
        (Image.new("L", (4, 6)), 1, "images", "divisible by 4"),
    ],
)
def test_what_is_not_an_image_is_refused(images, channels: int, subject, fragment) -> None:
    with refused(subject, fragment):
        read_images(images, channels=channels, stride=4)
