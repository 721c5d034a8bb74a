"""Volumes: from NIfTI files to numbers in [-1, 1], and back into such files.

A volume is turned so that x goes to the right, y to the front and z upwards. Only whole axes are
turned; nothing is resampled. The ends of its window become -1 and 1. The window is that of the
training, that of the file (``cal_min`` and ``cal_max``), 0 to 255 of bytes, or the volume's own
range, whichever comes first. Sides that the network cannot halve are padded with black. What is
written has orientation, affine, size and units of the file.
"""

from __future__ import annotations

import gzip
import zlib
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from fcfg.support.images import by_size, images_to_bytes
from fcfg.support.pictures import (
    NIFTI,
    Cube,
    DecodedImage,
    UnreadableError,
    Window,
    nibabel,
    reason,
)

_AXES = "RAS"  # of nibabel: x to the right, y anterior, z superior
_PACKED = 1032  # bytes that gzip makes of one at most


@dataclass(frozen=True)
class Voxels:
    """Common format of the volumes of a model."""

    channels: int
    stride: int = 1  #: number that every side must be divisible by
    window: Window | None = None  #: of the training, if there is one

    def padded(self, size: tuple[int, ...]) -> tuple[int, ...]:
        """Return the size of a volume as the network gets it."""
        return tuple(-(-side // self.stride) * self.stride for side in size)


@dataclass(frozen=True, eq=False)
class VolumeFile:
    """A file of a volume, with what it takes to write another volume like it."""

    notes: tuple[str, ...]  #: changes that made it fit
    window: Window
    size: tuple[int, ...]  #: of the turned volume, without what was padded
    file: Any = field(repr=False)  #: the image of nibabel, whose voxels need not be in memory

    @property
    def stored(self) -> tuple[int, ...]:
        """Size in the file."""
        return tuple(self.file.shape)

    def holding(self, values: Float[Tensor, "channel x y z"]) -> bytes:
        """Return a packed NIfTI file with other values, of the common format."""
        turning, (low, high) = nibabel().orientations, self.window
        kept = values[(slice(None), *map(slice, self.size))].double().cpu().numpy()
        numbers = np.moveaxis((kept + 1) / 2 * (high - low) + low, 0, -1).astype(np.float32)
        own = turning.io_orientation(self.file.affine)
        back = turning.ornt_transform(turning.axcodes2ornt(_AXES), own)
        numbers = turning.apply_orientation(numbers, back).reshape(self.stored)
        header = self.file.header.copy()
        header.set_data_dtype(np.float32)
        written = type(self.file)(numbers, self.file.affine, header)
        return gzip.compress(written.to_bytes(), mtime=0)


def read_volume(
    path: Path | bytes, wanted: Voxels
) -> tuple[Float[Tensor, "channel x y z"], VolumeFile]:
    """Read a volume, or the contents of its file, in [-1, 1] and bring it to the common format."""
    file = _loaded(path)
    raw = _voxels(file, wanted.channels)
    turning = nibabel().orientations
    own = _orientation(file)
    is_turned = not np.array_equal(own, turning.axcodes2ornt(_AXES))
    notes = ["turned: x to the right, y to the front, z upwards"] if is_turned else []
    (low, high), note = _window(file, raw, wanted.window)
    notes += note
    if raw.min() < low or raw.max() > high:
        notes.append("values beyond the window clipped")
    planes = np.moveaxis(turning.apply_orientation(raw, own), -1, 0).copy()
    scale = 2 / (high - low) if high > low else 0.0
    values = torch.from_numpy(planes).sub_(low).mul_(scale).sub_(1).clamp_(-1, 1)
    size = tuple(values.shape[1:])
    goal = wanted.padded(size)
    if goal != size:
        notes.append(f"padded with black to {by_size(goal)}")
        ends = [(0, to - side) for to, side in zip(goal, size, strict=True)]
        values = pad(values, [end for pair in reversed(ends) for end in pair], value=-1.0)
    return values, VolumeFile(tuple(notes), (low, high), size, file)


def read_cube(path: Path, wanted: Cube) -> DecodedImage:
    """Read a volume, and cut or pad it around its centre."""
    values, file = read_volume(path, Voxels(wanted.channels, window=wanted.window))
    ends = list[int]()
    for side in reversed(values.shape[1:]):
        before = (wanted.size - side) // 2
        ends += [before, wanted.size - side - before]  # below 0 where it is cut
    cube = images_to_bytes(pad(values, ends, value=-1.0)).numpy()
    return DecodedImage(cube, (file.stored[:3], "F"))


def volume_size(path: Path | bytes) -> tuple[int, ...]:
    """Return the size of a volume by its header."""
    return tuple(_loaded(path).shape[:3])


def unpacked(data: bytes, most: int) -> bytes:
    """Return the contents of a NIfTI file, packed or not, but no more than so many bytes."""
    if not data.startswith(b"\x1f\x8b"):
        return data
    try:
        return zlib.decompressobj(wbits=31).decompress(data, most)
    except zlib.error as error:
        raise UnreadableError(reason(error)) from error


def _loaded(path: Path | bytes) -> Any:
    """Return an image of nibabel, whose voxels are still in its file."""
    module = nibabel()
    if isinstance(path, Path) and not path.name.lower().endswith(NIFTI):
        raise UnreadableError(f"not named {' or '.join(NIFTI)}")
    try:
        is_bytes = isinstance(path, bytes)
        file = module.Nifti1Image.from_bytes(path) if is_bytes else module.load(path)
    except Exception as error:  # nibabel, gzip and zlib raise many kinds for broken files
        raise UnreadableError(reason(error)) from error
    if not isinstance(file, module.Nifti1Image):  # or of NIfTI 2, which is a subclass
        raise UnreadableError("not a NIfTI file")
    if len(file.shape) < 3 or min(file.shape) < 1:
        raise UnreadableError(f"shape {file.shape}; a volume is expected")
    if isinstance(path, Path):
        most = path.stat().st_size * (_PACKED if path.suffix.lower() == ".gz" else 1)
        if prod(file.shape) * file.get_data_dtype().itemsize > most:
            raise UnreadableError(
                f"its header says {by_size(file.shape)} voxels, and it has fewer"
            )
    return file


def _orientation(file: Any) -> NDArray[np.float64]:
    """Return which axis of an image of nibabel leads where."""
    usable = np.isfinite(file.affine).all()
    own = nibabel().orientations.io_orientation(file.affine) if usable else np.array(np.nan)
    if not np.isfinite(own).all():
        raise UnreadableError("its affine gives some axis no direction; repair its header")
    return own


def _voxels(file: Any, channels: int) -> Float[np.ndarray, "x y z channel"]:
    size, rest, kind = file.shape[:3], file.shape[3:], file.get_data_dtype()
    if prod(rest) != channels:
        raise UnreadableError(f"shape {file.shape}; one volume is expected, channels: {channels}")
    if kind.kind not in "iuf":
        raise UnreadableError(f"voxels of type {kind}; real numbers are expected")
    try:
        raw = file.get_fdata(dtype=np.float32, caching="unchanged").reshape(*size, channels)
    except Exception as error:  # as above
        raise UnreadableError(reason(error)) from error
    if not np.isfinite(raw).all():
        raise UnreadableError("it has voxels that are NaN or infinite; give each a number")
    return raw


def _window(file: Any, raw: NDArray[np.float32], given: Window | None) -> tuple[Window, list[str]]:
    """Return the window of a file, and what is said of it."""
    if given is not None:
        return given, ["the window of the training applied"]
    low, high = (float(file.header[name]) for name in ("cal_min", "cal_max"))
    if np.isfinite([low, high]).all() and low < high:
        return (low, high), ["the window of the NIfTI file applied"]
    if file.get_data_dtype() == np.uint8 and (file.dataobj.slope, file.dataobj.inter) == (1, 0):
        return (0.0, 255.0), []
    return (float(raw.min()), float(raw.max())), ["its own range of values scaled to -1..1"]
