"""Images: of what users hold, and of files: orientation, channels, depth, shape."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from face_folder import dicom, picture
from fcfg.datasets.pixels import Source, read_all
from fcfg.support.images import image_keys, read_images, to_pictures
from fcfg.support.pictures import Pixels
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
    refused("images", "1 or 3 channels", "got 2").by(to_pictures, torch.zeros(1, 2, 4, 4))


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


def test_what_is_not_an_image_is_refused() -> None:
    def wrong(fragment: str, images: Any, subject: str = "images", channels: int = 3) -> None:
        refused(subject, fragment).by(read_images, images, channels=channels, stride=4)

    shape = (1, 3, 4, 4)
    wrong("dtype uint8", torch.zeros(shape, dtype=torch.uint8))
    wrong("two things", np.zeros(shape, np.uint8))
    wrong("two things", np.zeros((3, 8, 8), np.uint8), channels=1)
    wrong("1, 3 or 4", np.zeros((2, 8, 8, 8), np.uint8), channels=1)
    wrong("shape (8,)", np.zeros(8, np.uint8), channels=1)
    wrong("a sequence with int", [Path("face.png"), 3])
    wrong("a sequence with ndarray", [np.zeros((3, 4, 4))])
    wrong("dtype int64", np.zeros(shape, np.int64))
    wrong("from 255 to 255", np.full(shape, 255.0))
    wrong("-1.1", torch.full(shape, -1.1))
    wrong("NaN", torch.full(shape, torch.nan))
    wrong("(3, 4, 4)", torch.zeros(3, 4, 4))
    wrong("channels first", torch.zeros(1, 4, 4, 3))
    wrong("divisible by 4", torch.zeros(1, 3, 6, 4))
    wrong("divisible by 4", Image.new("L", (4, 6)), channels=1)
    wrong("at least one image", torch.zeros(0, 3, 4, 4))
    wrong("at least one picture", [])
    wrong("convert('RGB')", GREY, "picture 0")
    wrong("mode RGBA", [Image.new("RGBA", (4, 4))], "picture 0")
    wrong("one size", [GREY, Image.new("L", (8, 4))], channels=1)
    wrong("float array", [GREY, Image.new("I;16", (4, 4))], "picture 1", 1)
    wrong("FileNotFoundError", "face.png", "picture 'face.png'")
    wrong("got None", None)
    for numbers in (np.array([["a"]]), torch.zeros(shape, device="meta")):
        wrong("numbers", numbers)


def read(path: Path, wanted: Pixels) -> Any:
    """The pixels of a file, or the reason why there are none."""
    (result,) = read_all([Source(path)], wanted)
    return result if isinstance(result, str) else result.pixels


def saved(tmp_path: Path, image: Image.Image, name: str = "x.png", **options: Any) -> Path:
    image.save(tmp_path / name, **options)
    return tmp_path / name


def test_the_centre_is_kept_unless_told_otherwise(tmp_path: Path) -> None:
    values = np.zeros((8, 16), dtype=np.uint8)
    values[:, 4:12] = 200
    path = saved(tmp_path, Image.fromarray(values))
    assert (read(path, Pixels(8, 1)) == 200).all()
    padded = read(path, Pixels(16, 1, fit="pad"))
    assert np.array_equal(padded[0, 4:12], values)
    assert padded[0, :4].max() == padded[0, 12:].max() == 0
    stretched = read(path, Pixels(8, 1, fit="stretch"))
    assert stretched[0, :, 0].max() < 50
    assert stretched[0, :, 4].min() > 150


def test_pictures_are_converted_and_turned(tmp_path: Path) -> None:
    grey = saved(tmp_path, Image.new("L", (8, 8), 77))
    assert (read(grey, Pixels(8, 3)) == 77).all()
    red = saved(tmp_path, Image.new("RGB", (8, 8), (255, 0, 0)), "red.png")
    assert (read(red, Pixels(8, 1)) == round(0.299 * 255)).all()
    for mode in ("1", "P", "LA", "RGBA", "CMYK"):
        path = saved(tmp_path, Image.new("RGB", (8, 8), "white").convert(mode), f"{mode}.tiff")
        assert (read(path, Pixels(8, 3)) == 255).all(), mode
    path = saved(tmp_path, Image.new("RGBA", (8, 8), (1, 2, 3, 100)))
    assert "transparent" in read(path, Pixels(8, 3))
    values = np.zeros((8, 8), dtype=np.uint8)
    values[:4] = 255
    exif = Image.Exif()
    exif[0x0112] = 3  # upside down
    path = saved(tmp_path, Image.fromarray(values), exif=exif)
    assert read(path, Pixels(8, 1))[0, 7].min() == 255


def test_sixteen_bits_keep_their_range_or_take_their_own(tmp_path: Path) -> None:
    ramp = np.linspace(0, 65535, 64).astype(np.uint16).reshape(8, 8)
    full = saved(tmp_path, Image.fromarray(ramp), "full.png")
    exact = np.round(ramp / 257).astype(np.uint8)
    assert np.abs(read(full, Pixels(8, 1))[0].astype(int) - exact).max() <= 1
    part = saved(tmp_path, Image.fromarray(ramp // 16), "part.png")  # 12 bits in 16
    assert read(part, Pixels(8, 1)).max() == 16
    own = read(part, Pixels(8, 1, "minmax"))[0]
    assert (own.min(), own.max()) == (0, 255)
    assert (read(part, Pixels(8, 3, "minmax")) == own).all()
    flat = saved(tmp_path, Image.fromarray(np.full((8, 8), 900, np.uint16)), "flat.png")
    assert read(flat, Pixels(8, 1, "minmax")).max() == 0
    real = saved(tmp_path, Image.fromarray(ramp.astype(np.float32)), "real.tiff")
    assert read(real, Pixels(8, 1, "minmax")).max() == 255
    assert "minmax" in read(real, Pixels(8, 1))


def test_large_photographs_shrink_as_if_decoded_whole(tmp_path: Path) -> None:
    smooth = picture(1, (8, 8)).resize((512, 512), Image.Resampling.BICUBIC)
    path = saved(tmp_path, smooth, "large.jpg", quality=95)
    whole = np.asarray(smooth.resize((16, 16), Image.Resampling.LANCZOS)).transpose(2, 0, 1)
    assert np.abs(read(path, Pixels(16, 3)).astype(int) - whole).mean() < 2


def test_dicom_is_shown_through_its_window_and_bright_is_dense(tmp_path: Path) -> None:
    ramp = (np.arange(64, dtype=np.uint16) * 65).reshape(8, 8)
    plain = read(dicom(tmp_path, ramp), Pixels(8, 1))[0]
    assert np.abs(plain - np.round(ramp / ramp.max() * 255)).max() <= 1
    window = {"WindowCenter": 2048, "WindowWidth": 2048}
    shown = read(dicom(tmp_path, ramp, **window), Pixels(8, 1))[0].astype(int)
    wanted = np.clip((ramp.astype(float) - 1024) / 2048, 0, 1) * 255
    assert np.abs(shown - wanted).max() <= 2
    narrow = dicom(tmp_path, np.full((8, 8), 2048, np.uint16), **window)
    assert 120 <= read(narrow, Pixels(8, 1)).min() <= 135  # by the window, not its range
    inverted = dicom(tmp_path, ramp, PhotometricInterpretation="MONOCHROME1", **window)
    assert np.abs(read(inverted, Pixels(8, 1))[0] + shown - 255).max() <= 1
    colour = dicom(tmp_path, np.zeros((8, 8, 3), np.uint8), PhotometricInterpretation="RGB")
    assert "one grey image" in read(colour, Pixels(8, 1))


def test_a_pixel_without_a_number_is_refused_and_no_option_advised(tmp_path: Path) -> None:
    values = np.arange(64, dtype=np.float32).reshape(8, 8)
    window = {"WindowCenter": 32, "WindowWidth": 32}
    for options in ({}, window):
        assert read(dicom(tmp_path, values, **options), Pixels(8, 1)).max() == 255
    far = np.full((8, 8), 1e308)  # whose range has no number
    far[0] *= -1
    said = [read(dicom(tmp_path, far), Pixels(8, 1))]
    for values[3, 4] in (np.nan, np.inf, -np.inf):
        path = saved(tmp_path, Image.fromarray(values), "x.tiff")
        said += [read(path, Pixels(8, 1, intensity)) for intensity in ("full", "minmax")]
        said += [read(dicom(tmp_path, values, **o), Pixels(8, 1)) for o in ({}, window)]
    assert all("NaN or infinite" in text and "minmax" not in text for text in said)


def test_of_several_frames_the_first_is_read_and_it_is_said(tmp_path: Path) -> None:
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("white", "black")]
    for name in ("x.gif", "x.tiff", "x.webp", "x.png"):
        several = saved(tmp_path, frames[0], name, save_all=True, append_images=frames[1:])
        (found,) = read_all([Source(several)], Pixels(8, 3))
        assert found.several_frames
        assert found.pixels.min() > 250
        (found,) = read_all([Source(saved(tmp_path, frames[0], name))], Pixels(8, 3))
        assert not found.several_frames
