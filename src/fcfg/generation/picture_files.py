"""Pictures from files, made to fit a model as in its training.

A picture of the model's size and channels is read byte by byte. Any other is turned upright, made
square, resized and converted by :mod:`fcfg.support.pictures`, and each change is noted.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import torch
from jaxtyping import Float
from torch import Tensor

from fcfg.causal.attributes import Table
from fcfg.generation.parsing import find_attributes
from fcfg.model import AnyModel, model_pixels, training_data
from fcfg.model.inputs import mapping_of
from fcfg.support.errors import InputError, quoted
from fcfg.support.images import images_from_bytes
from fcfg.support.pictures import SUFFIXES, Pixels, UnreadableError, open_image, to_bytes

_FITTED = {
    "crop": "centre-cropped to a square",
    "pad": "padded with black to a square",
    "stretch": "stretched to a square",
}


@dataclass(frozen=True, eq=False)
class Picture:
    """One picture as the model gets it."""

    path: Path
    stored: tuple[int, int]  #: height and width in the file
    image: Float[Tensor, "channel height width"] = field(repr=False)  #: in [-1, 1]
    notes: tuple[str, ...] = ()  #: changes that made it fit the model


def find_pictures(arguments: Iterable[str | os.PathLike[str]]) -> list[Path]:
    """Return the given files, and all pictures (.png, .jpg, .dcm, ...) of the given folders.

    Those of a folder are sorted by name; names that begin with a dot are ignored.
    """
    found: list[Path] = []
    for path in map(Path, arguments):
        if os.path.isdir(path):  # unlike that of Path, False for a name that is too long
            inside = sorted(p for p in path.iterdir() if not p.name.startswith("."))
            inside = [p for p in inside if p.suffix.lower() in SUFFIXES and p.is_file()]
            if not inside:
                raise InputError(
                    "images",
                    expected="a folder with pictures, such as PNG or JPEG",
                    got=f"none in '{path}'",
                    do="check the paths",
                )
            found += inside
        else:
            found.append(path)
    missing = [str(path) for path in found if not os.path.isfile(path)]
    if missing or not found:
        got = f"no such file: {quoted(missing)}" if missing else "none"
        expected, do = "at least one file or folder", "check the paths"
        raise InputError("images", expected=expected, got=got, do=do)
    times = Counter(path.resolve() for path in found)
    if doubled := [str(path) for path in found if times[path.resolve()] > 1]:
        expected, do = "every file once", "leave the doubles out"
        raise InputError("images", expected=expected, got=quoted(doubled), do=do)
    return found


def renamed_columns(pipeline: AnyModel) -> Mapping[str, str]:
    """Return the columns of the training table by attribute, where the names differ."""
    rename = mapping_of(training_data(pipeline).get("rename"))
    return {name: column for name, column in rename.items() if isinstance(column, str)}


def read_files(paths: Sequence[Path], wanted: Pixels) -> list[Picture]:
    """Read pictures and make them fit a model; an error names all that cannot be read."""
    pictures: list[Picture] = []
    broken: list[str] = []
    for path in paths:
        try:
            with path.open("rb") as file:
                pictures.append(read_picture(file, path, wanted))
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


def read_picture(
    file: BinaryIO, path: Path, wanted: Pixels, formats: tuple[str, ...] | None = None
) -> Picture:
    """Read one picture and make it fit."""
    opened = open_image(file, path.name, wanted.intensity, 2 * wanted.size, formats)
    picture, (width, height), notes = opened.picture, opened.stored[0], list(opened.changes)
    if (picture.mode, wanted.channels) == ("RGB", 1):
        notes.append("colours weighted to grey (ITU-R 601)")
    if picture.mode != "RGB" and wanted.channels == 3:
        notes.append("grey repeated in 3 channels")
    if width != height:
        notes.append(_FITTED[wanted.fit])
    if (height, width) != (wanted.size, wanted.size):
        notes.append(f"resized to {wanted.size} x {wanted.size}")
    image = images_from_bytes(to_bytes(picture, wanted))
    return Picture(path, (height, width), image, tuple(notes))


@dataclass(frozen=True, eq=False)
class SamplePictures:
    """Pictures of a model's data set that it was not trained on."""

    images: Float[Tensor, "batch channel height width"] = field(repr=False)  #: in [-1, 1]
    attributes: Table
    names: tuple[str, ...]  #: of the files


def sample_pictures(model: AnyModel) -> SamplePictures | None:
    """Read the pictures that come with a model; None if there are none.

    >>> import fcfg
    >>> sample_pictures(fcfg.load("digits")).images.shape
    torch.Size([10, 1, 32, 32])
    """
    if model.folder is None or not (model.folder / "samples").is_dir():
        return None
    folder = model.folder / "samples"
    paths = find_pictures([folder])
    images = torch.stack([picture.image for picture in read_files(paths, model_pixels(model))])
    factual = find_attributes(folder / "attributes.csv", model.space, paths, None, {})
    return SamplePictures(images, factual.attributes, tuple(path.name for path in paths))
