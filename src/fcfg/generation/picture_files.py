"""Pictures and volumes from files, made to fit a model as in its training.

A picture of the model's size and channels is read byte by byte. Any other is turned upright, made
square, resized and converted by :mod:`fcfg.support.pictures`, and each change is noted. Volumes
are read by :mod:`fcfg.support.volumes`.
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
from fcfg.model import AnyModel, model_format, training_data
from fcfg.model.inputs import mapping_of
from fcfg.support.errors import InputError, quoted
from fcfg.support.images import by_size, images_from_bytes, to_pictures, to_png
from fcfg.support.pictures import NIFTI, SUFFIXES, Pixels, UnreadableError, open_image, to_bytes
from fcfg.support.volumes import VolumeFile, Voxels, read_volume, volume_size

_FITTED = {
    "crop": "centre-cropped to a square",
    "pad": "padded with black to a square",
    "stretch": "stretched to a square",
}


@dataclass(frozen=True, eq=False)
class Picture:
    """One picture as the model gets it."""

    path: Path
    stored: tuple[int, ...]  #: size in the file: height and width, or that of a volume
    image: Float[Tensor, "channel *size"] = field(repr=False)  #: in [-1, 1]
    notes: tuple[str, ...] = ()  #: changes that made it fit the model
    volume: VolumeFile | None = field(default=None, repr=False)  #: if it is one

    def written(self, image: Float[Tensor, "channel *size"]) -> dict[str, bytes]:
        """Return the contents of the files that hold an answer, by what they are."""
        (shown,) = map(to_png, to_pictures(drawable(image)[None]))
        if self.volume is None:
            return {"counterfactual": shown}
        return {"counterfactual": self.volume.holding(image), "slices": shown}


def drawable(image: Float[Tensor, "channel *size"]) -> Float[Tensor, "shown *size"]:
    """Return the channels that are shown: the first, unless there are three."""
    return image if len(image) == 3 else image[:1]


def find_pictures(
    arguments: Iterable[str | os.PathLike[str]], *, volumes: bool = False
) -> list[Path]:
    """Return the given files, and all pictures (.png, .jpg, .dcm, ...) of the given folders.

    Or all volumes (.nii, .nii.gz).

    Those of a folder are sorted by name; names that begin with a dot are ignored.
    """
    found: list[Path] = []
    suffixes = NIFTI if volumes else SUFFIXES
    kind = "volumes, .nii or .nii.gz" if volumes else "pictures, such as PNG or JPEG"
    for path in map(Path, arguments):
        if os.path.isdir(path):  # unlike that of Path, False for a name that is too long
            inside = sorted(p for p in path.iterdir() if not p.name.startswith("."))
            inside = [p for p in inside if p.name.lower().endswith(suffixes) and p.is_file()]
            if not inside:
                raise InputError(
                    "images",
                    expected=f"a folder with {kind}",
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


def size_of(paths: Sequence[Path], wanted: Pixels | Voxels) -> tuple[int, ...]:
    """Return the size that files have as the model gets them, by the first of them."""
    if isinstance(wanted, Pixels):
        return wanted.size, wanted.size
    try:
        return wanted.padded(volume_size(paths[0]))
    except UnreadableError:  # which is refused when it is read
        return (1, 1, 1)


def read_files(paths: Sequence[Path], wanted: Pixels | Voxels) -> list[Picture]:
    """Read pictures and make them fit a model; an error names all that cannot be read."""
    pictures: list[Picture] = []
    broken: list[str] = []
    for path in paths:
        try:
            if isinstance(wanted, Voxels):
                values, file = read_volume(path, wanted)
                pictures.append(Picture(path, file.stored, values, file.notes, file))
                continue
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
    sizes = {tuple(picture.image.shape[1:]): picture.path.name for picture in pictures}
    if len(sizes) > 1:
        raise InputError(
            "images",
            expected="volumes of one size",
            got=quoted(f"{by_size(size)} in {name}" for size, name in sizes.items()),
            do="run them one after another, or resample them",
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

    images: Float[Tensor, "batch channel *size"] = field(repr=False)  #: in [-1, 1]
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
    paths = find_pictures([folder], volumes=model.dimensions == 3)
    images = torch.stack([picture.image for picture in read_files(paths, model_format(model))])
    factual = find_attributes(folder / "attributes.csv", model.space, paths, None, {})
    return SamplePictures(images, factual.attributes, tuple(path.name for path in paths))
