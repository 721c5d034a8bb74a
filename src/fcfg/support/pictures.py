"""Pictures: from a file, or from Pillow, to bytes of a given size.

A picture is turned as its EXIF entry says, made square (``fit``), resized with a Lanczos filter
and converted to grey or RGB; ``docs/data.md`` says how. Pixels of more than 8 bits are resized as
floats and rounded last. NaN and infinite pixels are always refused. Of several frames or pages
only the first is read.
"""

from __future__ import annotations

import io
import os
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO, Literal, TypeAlias

import numpy as np
from jaxtyping import UInt8
from numpy.typing import NDArray
from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError
from PIL.JpegImagePlugin import JpegImageFile

from fcfg.support.errors import optional

Intensity: TypeAlias = Literal["full", "minmax"]
Fit: TypeAlias = Literal["crop", "pad", "stretch"]

Window: TypeAlias = tuple[float, float]  # values of a volume that become -1 and 1

DICOM = (".dcm", ".dicom")
NIFTI = (".nii", ".nii.gz")  #: suffixes of files of volumes
#: Suffixes of image files.
SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", *DICOM)


@dataclass(frozen=True)
class Pixels:
    """Common format of the images of a data set."""

    size: int
    channels: int
    intensity: Intensity = "full"
    fit: Fit = "crop"

    @property
    def shape(self) -> tuple[int, ...]:
        """Channels and size of an image."""
        return self.channels, self.size, self.size


@dataclass(frozen=True)
class Cube:
    """Common format of the volumes of a data set: cut or padded with black to a cube."""

    size: int
    channels: int
    window: Window | None = None  #: each volume's own if there is none

    @property
    def shape(self) -> tuple[int, ...]:
        """Channels and size of a volume."""
        return self.channels, self.size, self.size, self.size


@dataclass(frozen=True, eq=False)
class OpenedImage:
    """An image as stored in its file."""

    picture: Image.Image  #: mode L or RGB for 8 bits, F (0 to 255) for more
    stored: tuple[tuple[int, int], str]  #: size and mode in the file
    several_frames: bool = False  #: whether the file has more frames or pages than this
    changes: tuple[str, ...] = ()  #: what made it upright, grey or RGB, and of 8 bits


@dataclass(frozen=True, eq=False)
class DecodedImage:
    """An image in the common format."""

    pixels: UInt8[np.ndarray, "channel *size"]
    stored: tuple[tuple[int, ...], str]  #: size and mode in the file
    several_frames: bool = False  #: whether the file has more frames or pages than this


class UnreadableError(Exception):
    """A file that is not a usable image; the message gives the reason in a few words."""


def open_image(
    file: BinaryIO,
    name: str,
    intensity: Intensity,
    enough: int | None = None,
    formats: tuple[str, ...] | None = None,
) -> OpenedImage:
    """Open an image of any supported kind, or the first of its frames or pages.

    The suffix of the name tells DICOM from other kinds. A JPEG may be reduced to ``enough`` while
    decoding, which is several times faster; twice the final size suffices for the filter that
    follows. ``formats`` of Pillow are accepted, by default all of them.
    """
    try:
        if name.lower().endswith(DICOM):
            picture = Image.fromarray(_dicom(file))
            changes = ("window of the DICOM file applied",)
            return OpenedImage(picture, (picture.size, picture.mode), changes=changes)
        picture = Image.open(file, formats=formats)
        stored, several = (picture.size, picture.mode), getattr(picture, "is_animated", False)
        if enough is not None:
            picture.draft(None, (enough, enough))
        changes = _changes(picture, several, intensity)
        picture.load()
        ImageOps.exif_transpose(picture, in_place=True)
        return OpenedImage(_grey_or_rgb(picture, intensity), stored, several, changes)
    except UnreadableError:
        raise
    except Exception as error:  # Pillow and pydicom raise many kinds for broken files
        raise UnreadableError(reason(error)) from error


def decode(file: BinaryIO, name: str, wanted: Pixels) -> DecodedImage:
    """Open an image and bring it to the common format."""
    image = open_image(file, name, wanted.intensity, 2 * wanted.size)
    return DecodedImage(to_bytes(image.picture, wanted), image.stored, image.several_frames)


def _changes(header: Image.Image, several: bool, intensity: Intensity) -> tuple[str, ...]:
    """Return the changes that make a picture upright, grey or RGB, of 8 bits."""
    changes = ["the first of several frames"] if several else []
    if header.getexif().get(ExifTags.Base.Orientation, 1) != 1:
        changes.append("turned upright as its EXIF says")
    if header.mode.startswith(("I", "F")):
        scaled = "0..65535" if intensity == "full" else "its own range"
        changes.append(f"more than 8 bits: {scaled} scaled to 0..255")
    elif header.has_transparency_data:
        changes.append("opaque alpha channel dropped")
    elif header.mode not in ("L", "RGB"):
        changes.append(f"converted from mode {header.mode}")
    return tuple(changes)


def fit_picture(
    picture: Image.Image | str | os.PathLike[str], wanted: Pixels
) -> UInt8[np.ndarray, "channel height width"]:
    """Turn, crop or pad, resize and convert a picture, exactly as a file of a data set.

    A JPEG that Pillow has not decoded yet is still its file, which may be reduced while it is
    decoded; of any other picture, all pixels count.
    """
    if isinstance(picture, JpegImageFile) and picture.tile and picture.fp is not None:
        place = picture.fp.tell()
        picture.fp.seek(0)
        file, name = io.BytesIO(picture.fp.read()), "picture"
        picture.fp.seek(place)
    elif isinstance(picture, Image.Image):
        upright = ImageOps.exif_transpose(picture)
        return to_bytes(_grey_or_rgb(upright, wanted.intensity), wanted)
    else:
        file, name = io.BytesIO(Path(picture).read_bytes()), os.fspath(picture)
    return decode(file, name, wanted).pixels


def reason(error: Exception) -> str:
    """Say in a few words why a file cannot be read."""
    if isinstance(error, UnidentifiedImageError):
        return "not a picture of a known format"
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:120] if text else type(error).__name__


def _grey_or_rgb(picture: Image.Image, intensity: Intensity) -> Image.Image:
    mode = picture.mode
    if mode == "F" or mode.startswith("I"):
        return Image.fromarray(_scaled(np.asarray(picture, dtype=np.float64), mode, intensity))
    if mode in {"LA", "PA", "RGBA", "La", "RGBa"} or "transparency" in picture.info:
        picture = picture if mode == "RGBA" else picture.convert("RGBA")
        if picture.getchannel("A").getextrema() != (255, 255):
            raise UnreadableError("transparent pixels; flatten it onto a background")
        return picture.convert("L" if mode in {"LA", "La"} else "RGB")
    wanted = "L" if mode in {"1", "L"} else "RGB"
    return picture if mode == wanted else picture.convert(wanted)


def _scaled(deep: NDArray[np.float64], mode: str, intensity: Intensity) -> NDArray[np.float32]:
    _check_finite(deep)
    low, high = float(deep.min()), float(deep.max())
    if intensity == "full":
        if mode == "F" or low < 0 or high > 65535:
            raise UnreadableError(
                f"values from {low:g} to {high:g} have no full range; use intensity 'minmax'"
            )
        low, high = 0.0, 65535.0
    return _between(deep, low, high)


def _check_finite(values: NDArray[np.float64]) -> None:
    """Refuse NaN and infinity, which resizing would spread over the image."""
    if not np.isfinite(values).all():
        raise UnreadableError("it has pixels that are NaN or infinite; give each a number")


def _between(values: NDArray[np.float64], low: float, high: float) -> NDArray[np.float32]:
    scale = 255 / (high - low) if high > low else 0.0
    with np.errstate(all="ignore"):  # NaN is refused below
        values -= low  # in place: a large picture takes much memory
        values *= scale
    _check_finite(values)
    return values.astype(np.float32)


def pydicom() -> ModuleType:
    """Import the reader of DICOM files, or say how to install it."""
    return optional("pydicom", "DICOM images", "medical")


def nibabel() -> ModuleType:
    """Import the reader of NIfTI files, or say how to install it."""
    return optional("nibabel", "NIfTI volumes", "medical")


def _dicom(file: BinaryIO) -> NDArray[np.float32]:
    record: Any = pydicom().dcmread(file)
    from pydicom.pixels.processing import apply_modality_lut, apply_voi_lut

    kind = str(record.PhotometricInterpretation)
    raw = record.pixel_array
    if kind not in {"MONOCHROME1", "MONOCHROME2"} or raw.ndim != 2:
        raise UnreadableError(f"{kind} of shape {raw.shape}; one grey image is expected")
    values = apply_modality_lut(raw, record)
    _check_finite(values.astype(np.float64))
    ends = np.array([values.min(), values.max()])
    if "WindowWidth" in record or "VOILUTSequence" in record:
        values = apply_voi_lut(values, record)
        # Values far outside of the window give the range that it maps to.
        ends = apply_voi_lut(np.array([-(2**31), 2**31 - 1]), record)
    grey = _between(values.astype(np.float64), float(ends.min()), float(ends.max()))
    return 255 - grey if kind == "MONOCHROME1" else grey


def to_bytes(picture: Image.Image, wanted: Pixels) -> UInt8[np.ndarray, "channel height width"]:
    """Make a picture square, resize it, and convert it to the wanted channels."""
    if wanted.channels == 1 and picture.mode == "RGB":
        picture = picture.convert("L")
    square = _make_square(picture, wanted.fit)
    small = square.resize((wanted.size, wanted.size), Image.Resampling.LANCZOS)
    values = np.asarray(small)
    if small.mode == "F":
        values = np.clip(np.round(values), 0, 255).astype(np.uint8)
    planes = values[None] if values.ndim == 2 else values.transpose(2, 0, 1)
    return np.ascontiguousarray(np.broadcast_to(planes, (wanted.channels, *planes.shape[1:])))


def _make_square(picture: Image.Image, fit: Fit) -> Image.Image:
    width, height = picture.size
    if fit == "stretch":
        return picture
    side = max(picture.size) if fit == "pad" else min(picture.size)
    left, upper = int((width - side) / 2), int((height - side) / 2)
    return picture.crop((left, upper, left + side, upper + side))  # black outside
