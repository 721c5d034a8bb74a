"""Pictures from files, made to fit a model as in its training; whatever was done is said.

A picture of the model's size and channels is read as it is, byte by byte. Any other is turned
upright, made square, resized and converted, by :mod:`fcfg.datasets.pixels` as in training, and
each of these is noted.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast, get_args

import torch
from jaxtyping import Float
from PIL import ExifTags, Image
from torch import Tensor

from fcfg.datasets.pixels import (
    DICOM,
    SUFFIXES,
    Fit,
    Intensity,
    Pixels,
    UnreadableError,
    has_several_frames,
    open_image,
    to_bytes,
)
from fcfg.diffusion.networks import UNet
from fcfg.pipeline.counterfactual import CounterfactualPipeline
from fcfg.support.errors import InputError, check_among, quoted

_FITTED = {
    "crop": "centre-cropped to a square",
    "pad": "padded with black to a square",
    "stretch": "stretched to a square",
}
_SCALED = {
    "full": "more than 8 bits: 0..65535 scaled to 0..255",
    "minmax": "more than 8 bits: its own range scaled to 0..255",
}


@dataclass(frozen=True, eq=False)
class Picture:
    """One picture as the model will see it."""

    path: Path  #: where it came from
    stored: tuple[int, int]  #: height and width in the file
    image: Float[Tensor, "channel height width"] = field(repr=False)  #: in [-1, 1]
    notes: tuple[str, ...] = ()  #: what was done to make it fit


def find_pictures(arguments: Iterable[str | os.PathLike[str]]) -> list[Path]:
    """Files as they are given, and all pictures of folders, sorted by name.

    Args:
        arguments: Files, and folders with files that end like pictures (.png, .jpg, .dcm, ...).
            Names that begin with a dot are hidden, and not looked at.
    """
    found: list[Path] = []
    for path in map(Path, arguments):
        if path.is_dir():
            inside = sorted(p for p in path.iterdir() if not p.name.startswith("."))
            inside = [p for p in inside if p.suffix.lower() in SUFFIXES and p.is_file()]
            if not inside:
                raise _refusal("a folder with pictures, such as PNG or JPEG", f"none in '{path}'")
            found += inside
        else:
            found.append(path)
    missing = [str(path) for path in found if not path.is_file()]
    if missing or not found:
        got = f"no such file: {quoted(missing)}" if missing else "none"
        raise _refusal("at least one file or folder", got)
    places = [path.resolve() for path in found]
    doubled = [
        str(path) for path, place in zip(found, places, strict=True) if places.count(place) > 1
    ]
    if doubled:
        raise InputError(
            "images", expected="every file once", got=quoted(doubled), do="leave the doubles out"
        )
    return found


def model_pixels(pipeline: CounterfactualPipeline) -> Pixels:
    """How the pictures of a model were brought to one shape when it was trained.

    Size and channels are those of its network; how pictures became square, and what deep pixels
    mean, is in the provenance that ``fcfg train`` writes. Without one, the centre is cropped and
    pixels of 16 bits have their full range.
    """
    network, channels = pipeline.denoiser.network, pipeline.denoiser.channels
    if not isinstance(network, UNet) or channels not in (1, 3):
        raise InputError(
            "model",
            expected="a fcfg.UNet for grey or RGB pictures, whose size is known",
            got=f"{type(network).__name__} for {channels} channels",
            do="call pipeline.counterfactual with an array instead",
        )
    data = _training_data(pipeline)
    fit, intensity = data.get("fit", "crop"), data.get("intensity", "full")
    check_among("model, fit of its training data", fit, get_args(Fit))
    check_among("model, intensity of its training data", intensity, get_args(Intensity))
    return Pixels(network.config.size, channels, intensity, fit)


def _training_data(pipeline: CounterfactualPipeline) -> Mapping[str, Any]:
    """Options of the data that a model was trained on, where its provenance has any."""
    return _mapping(_mapping(pipeline.provenance.get("training")).get("data"))


def renamed_columns(pipeline: CounterfactualPipeline) -> Mapping[str, str]:
    """Columns of the training table that have other names than their attributes."""
    rename = _mapping(_training_data(pipeline).get("rename"))
    return {name: column for name, column in rename.items() if isinstance(column, str)}


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def read_files(paths: Sequence[Path], wanted: Pixels) -> list[Picture]:
    """Read pictures and make them fit, or refuse all that cannot be used, by name.

    Args:
        paths: The files.
        wanted: What the model takes, see :func:`model_pixels`.
    """
    pictures: list[Picture] = []
    broken: list[str] = []
    for path in paths:
        try:
            pictures.append(_read(path, wanted))
        except (UnreadableError, OSError) as error:
            broken.append(f"'{path}' ({error})")
    if broken:
        raise InputError(
            "images",
            expected="pictures that can be read",
            got=", ".join(broken),
            do="repair them or leave them out; nothing was done yet",
        )
    return pictures


def _read(path: Path, wanted: Pixels) -> Picture:
    with path.open("rb") as file:
        picture = open_image(file, path.name, wanted.intensity, 2 * wanted.size).picture
    if path.suffix.lower() in DICOM:
        (width, height), notes = picture.size, ["window of the DICOM file applied"]
    else:
        with Image.open(path) as header:
            (width, height), notes = header.size, _notes(header, wanted)
    if (picture.mode, wanted.channels) == ("RGB", 1):
        notes.append("colours weighted to grey (ITU-R 601)")
    if picture.mode != "RGB" and wanted.channels == 3:
        notes.append("grey repeated in 3 channels")
    if width != height:
        notes.append(_FITTED[wanted.fit])
    if (height, width) != (wanted.size, wanted.size):
        notes.append(f"resized to {wanted.size} x {wanted.size}")
    image = torch.tensor(to_bytes(picture, wanted)).to(torch.float32) / 127.5 - 1
    return Picture(path, (height, width), image, tuple(notes))


def _notes(header: Image.Image, wanted: Pixels) -> list[str]:
    """What reading a picture as grey or RGB of 8 bits, upright, does to it."""
    notes = ["the first of several frames"] if has_several_frames(header) else []
    if header.getexif().get(ExifTags.Base.Orientation, 1) != 1:
        notes.append("turned upright as its EXIF says")
    if header.mode.startswith(("I", "F")):
        notes.append(_SCALED[wanted.intensity])
    elif header.has_transparency_data:
        notes.append("opaque alpha channel dropped")
    elif header.mode not in ("L", "RGB"):
        notes.append(f"converted from mode {header.mode}")
    return notes


def _refusal(expected: str, got: str) -> InputError:
    return InputError("images", expected=expected, got=got, do="check the paths")
