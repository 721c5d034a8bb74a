"""One image, from its file to bytes of one size.

Turned as its EXIF entry says, made square, resized with Lanczos's filter, grey or RGB. Pixels of
more than 8 bits are resized as floating-point numbers and rounded last.

==============  ======================================================================
``intensity``   pixels of more than 8 bits (16-bit PNG and TIFF; those of 8 bits stay)
==============  ======================================================================
``full``        0 to 65535 becomes 0 to 255. For images whose values mean the same
                everywhere: exported with one window, or using the whole range.
``minmax``      Each image's own range becomes 0 to 255. For raw detector values (12
                bits in a 16-bit file look black under ``full``); brightness between
                images is lost, and one bright pixel darkens the rest.
==============  ======================================================================

Whatever the option, a pixel that is NaN or infinite is refused. Of several frames or pages the
first is read, and it is said.

DICOM files (``.dcm``, ``.dicom``) bring their own window: the modality and VOI transformations
of the file are applied, its window becomes 0 to 255 (where it has none: its range), and
MONOCHROME1 is inverted, so that bright is dense in all.

===========  ====================================================
``fit``      how a picture becomes square
===========  ====================================================
``crop``     its centre is kept, what protrudes is cut
``pad``      nothing is cut, black is added on both sides
``stretch``  nothing is cut or added, proportions change
===========  ====================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO, Literal, TypeAlias

import numpy as np
from jaxtyping import UInt8
from numpy.typing import NDArray
from PIL import Image, ImageOps

from fcfg.support.errors import InputError

Intensity: TypeAlias = Literal["full", "minmax"]
Fit: TypeAlias = Literal["crop", "pad", "stretch"]

DICOM = (".dcm", ".dicom")
#: What is taken for an image where a folder is searched.
SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", *DICOM)


@dataclass(frozen=True)
class Pixels:
    """How images are brought to one shape."""

    size: int
    channels: int
    intensity: Intensity = "full"
    fit: Fit = "crop"


@dataclass(frozen=True, eq=False)
class Opened:
    """An image as its file has it."""

    picture: Image.Image  #: mode L or RGB for 8 bits, F (0 to 255) for more
    several: bool = False  #: whether it is the first of several frames or pages


@dataclass(frozen=True, eq=False)
class Decoded:
    """An image in the shape that was wanted."""

    pixels: UInt8[np.ndarray, "channel height width"]
    several: bool = False  #: whether it is the first of several frames or pages


class UnreadableError(Exception):
    """A file is not the image it should be; the message says why, in a few words."""


def read_picture(path: Path, wanted: Pixels) -> Decoded:
    """Read one image file.

    Raises:
        UnreadableError: The file is missing, broken, or of a kind that has no one meaning.
    """
    try:
        with path.open("rb") as file:
            return decoded(file, path.name, wanted)
    except OSError as error:
        raise UnreadableError(_why(error)) from error


def decoded(file: BinaryIO, name: str, wanted: Pixels) -> Decoded:
    """Read one image from the contents of its file."""
    image = opened(file, name, wanted.intensity, 2 * wanted.size)
    return Decoded(to_bytes(image.picture, wanted), image.several)


def opened(file: BinaryIO, name: str, intensity: Intensity, enough: int | None = None) -> Opened:
    """Open an image of any readable kind; of several frames or pages the first.

    Args:
        file: Its contents.
        name: How it ends says whether it is DICOM.
        intensity: For more than 8 bits.
        enough: Height and width at which decoding a JPEG may stop: several times faster, and
            twice the wanted size is enough for the filter that follows.
    """
    try:
        if name.lower().endswith(DICOM):
            return Opened(Image.fromarray(_dicom(file)))
        picture = Image.open(file)
        several = has_several_frames(picture)
        if enough is not None:
            picture.draft(None, (enough, enough))
        picture.load()
        return Opened(_meaningful(ImageOps.exif_transpose(picture), intensity), several)
    except UnreadableError:
        raise
    except Exception as error:  # Pillow and pydicom raise whatever a broken file provokes
        raise UnreadableError(_why(error)) from error


def has_several_frames(picture: Image.Image) -> bool:
    """Whether a picture that was just opened is animated, or the first of several pages."""
    return bool(getattr(picture, "is_animated", False))


def _why(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:120] if text else type(error).__name__


def _meaningful(picture: Image.Image, intensity: Intensity) -> Image.Image:
    mode = picture.mode
    if mode == "F" or mode.startswith("I"):
        return Image.fromarray(_scaled(np.asarray(picture, dtype=np.float64), mode, intensity))
    if mode in {"LA", "PA", "RGBA", "La", "RGBa"} or "transparency" in picture.info:
        picture = picture.convert("RGBA")
        if np.asarray(picture)[..., 3].min() < 255:
            raise UnreadableError("transparent pixels; flatten it onto a background")
        return picture.convert("L" if mode in {"LA", "La"} else "RGB")
    return picture.convert("L" if mode in {"1", "L"} else "RGB")


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
    """Refuse pixels without a number: resizing would spread them over the image."""
    if not np.isfinite(values).all():
        raise UnreadableError("it has pixels that are NaN or infinite; give each a number")


def _between(values: NDArray[np.float64], low: float, high: float) -> NDArray[np.float32]:
    scale = 255 / (high - low) if high > low else 0.0
    with np.errstate(all="ignore"):  # what has no number afterwards is refused
        scaled = (values - low) * scale
    _check_finite(scaled)
    return scaled.astype(np.float32)


def pydicom() -> ModuleType:
    """The reader of DICOM files, or a refusal that says how to get it."""
    try:
        import pydicom as module
    except ImportError as error:
        raise InputError(
            "DICOM images",
            expected="the package pydicom",
            got="none installed",
            do="run: pip install 'fcfg[medical]'",
        ) from error
    return module


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
        # What the window gives far outside is the range it maps to.
        ends = apply_voi_lut(np.array([-(2**31), 2**31 - 1]), record)
    grey = _between(values.astype(np.float64), float(ends.min()), float(ends.max()))
    return 255 - grey if kind == "MONOCHROME1" else grey


def to_bytes(picture: Image.Image, wanted: Pixels) -> UInt8[np.ndarray, "channel height width"]:
    """Make a picture square, resize it, and convert it to the wanted channels.

    Args:
        picture: Mode L or RGB, or F with values from 0 to 255.
        wanted: Grey becomes RGB by repetition, RGB grey by its luma (ITU-R 601).
    """
    if wanted.channels == 1 and picture.mode == "RGB":
        picture = picture.convert("L")
    square = _squared(picture, wanted.fit)
    small = square.resize((wanted.size, wanted.size), Image.Resampling.LANCZOS)
    values = np.asarray(small)
    if small.mode == "F":
        values = np.clip(np.round(values), 0, 255).astype(np.uint8)
    planes = values[None] if values.ndim == 2 else values.transpose(2, 0, 1)
    return np.ascontiguousarray(np.broadcast_to(planes, (wanted.channels, *planes.shape[1:])))


def _squared(picture: Image.Image, fit: Fit) -> Image.Image:
    width, height = picture.size
    if fit == "stretch" or width == height:
        return picture
    if fit == "pad":
        side = max(width, height)
        page = Image.new(picture.mode, (side, side))
        page.paste(picture, ((side - width) // 2, (side - height) // 2))
        return page
    side = min(width, height)
    left, upper = (width - side) // 2, (height - side) // 2
    return picture.crop((left, upper, left + side, upper + side))
