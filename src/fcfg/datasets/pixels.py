"""Images from files: one picture as bytes of a given size, or many in parallel.

A picture is turned as its EXIF entry says, made square, resized with a Lanczos filter and
converted to grey or RGB. Pixels of more than 8 bits are resized as floats and rounded last.

==============  ======================================================================
``intensity``   pixels of more than 8 bits (16-bit PNG and TIFF); 8-bit pixels stay
==============  ======================================================================
``full``        0 to 65535 becomes 0 to 255. For images on a common scale: exported
                with one window, or using the whole range.
``minmax``      Each image's own range becomes 0 to 255. For raw detector values (12
                bits in a 16-bit file look black under ``full``); brightness between
                images is lost, and one bright pixel darkens the rest.
==============  ======================================================================

NaN and infinite pixels are always refused. Of several frames or pages only the first is read.

DICOM files (``.dcm``, ``.dicom``) bring their own window: the modality and VOI transformations
of the file are applied, its window (or its range, if it has none) becomes 0 to 255, and
MONOCHROME1 is inverted, so that dense tissue is always bright.

===========  ====================================================
``fit``      how a picture becomes square
===========  ====================================================
``crop``     keep the centre and cut the rest
``pad``      add black on both sides
``stretch``  change the proportions
===========  ====================================================
"""

from __future__ import annotations

import io
import itertools
import os
import zipfile
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO, Literal, TypeAlias

import numpy as np
from jaxtyping import UInt8
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from fcfg.support.errors import InputError

Intensity: TypeAlias = Literal["full", "minmax"]
Fit: TypeAlias = Literal["crop", "pad", "stretch"]

DICOM = (".dcm", ".dicom")
#: Suffixes of image files.
SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", *DICOM)


_GROUP = 256  # members of an archive that one thread reads, to open it less often


@dataclass(frozen=True)
class Pixels:
    """Common format of the images of a data set."""

    size: int
    channels: int
    intensity: Intensity = "full"
    fit: Fit = "crop"


@dataclass(frozen=True)
class Source:
    """Location of an image: a file, a member of an archive, or a part of a large picture."""

    path: Path
    member: str | None = None  #: name inside a zip archive, or of an array in an npz archive
    box: tuple[int, int, int, int] | None = None
    """Left, upper, right, lower, in a large picture; outside of an array's row it is black."""
    row: int | None = None  #: number of the image in its array, which holds grey bytes


@dataclass(frozen=True, eq=False)
class OpenedImage:
    """An image as stored in its file."""

    picture: Image.Image  #: mode L or RGB for 8 bits, F (0 to 255) for more
    several_frames: bool = False  #: whether the file has more frames or pages than this


@dataclass(frozen=True, eq=False)
class DecodedImage:
    """An image in the common format."""

    pixels: UInt8[np.ndarray, "channel height width"]
    several_frames: bool = False  #: whether the file has more frames or pages than this


#: An image, or the reason why it cannot be read.
Result: TypeAlias = DecodedImage | str


class UnreadableError(Exception):
    """A file that is not a usable image; the message gives the reason in a few words."""


def read_all(sources: Sequence[Source], wanted: Pixels) -> Iterator[Result]:
    """Read images with several threads: one result per source, in order.

    Pillow releases the interpreter lock while it decodes and resizes. Few groups are in flight at
    a time, so memory does not grow with the number of images.
    """
    if any((source.member or source.path.name).lower().endswith(DICOM) for source in sources):
        pydicom()  # fails once here instead of once per file
    threads = min(32, (os.cpu_count() or 1) + 2)
    groups = _groups(sources)
    waiting: deque[Future[list[Result]]] = deque()
    pool = ThreadPoolExecutor(threads, thread_name_prefix="fcfg-reading")
    try:
        for group in itertools.islice(groups, 2 * threads):
            waiting.append(pool.submit(_read_group, group, wanted))
        while waiting:
            yield from waiting.popleft().result()
            for group in itertools.islice(groups, 1):
                waiting.append(pool.submit(_read_group, group, wanted))
    finally:  # also when the caller stops early
        pool.shutdown(wait=True, cancel_futures=True)


def _groups(sources: Sequence[Source]) -> Iterator[list[Source]]:
    """Group neighbours in the same file, so that a large picture is decoded once."""
    for _, same in itertools.groupby(sources, key=lambda source: source.path):
        members = list(same)
        is_one_file = members[0].member is None or members[0].row is not None
        together = len(members) if is_one_file else _GROUP
        for start in range(0, len(members), together):
            yield members[start : start + together]


def _read_group(group: list[Source], wanted: Pixels) -> list[Result]:
    """Read sources in the same file."""
    first = group[0]
    try:
        if first.row is not None:
            return _from_arrays(group, wanted)
        if first.member is not None:
            return _from_archive(group, wanted)
        if first.box is not None:
            return _from_mosaic(group, wanted)
    except (OSError, zipfile.BadZipFile, UnreadableError) as error:
        return [f"{first.path.name}: {error}"] * len(group)
    try:
        return [read_picture(first.path, wanted)] * len(group)
    except UnreadableError as error:
        return [str(error)] * len(group)


def _from_archive(group: list[Source], wanted: Pixels) -> list[Result]:
    results: list[Result] = []
    with zipfile.ZipFile(group[0].path) as archive:
        for source in group:
            member = source.member or ""
            try:
                results.append(_decode(io.BytesIO(archive.read(member)), member, wanted))
            except (KeyError, zipfile.BadZipFile, UnreadableError) as error:
                results.append(str(error).strip("\"'"))
    return results


def _from_arrays(group: list[Source], wanted: Pixels) -> list[Result]:
    try:
        with np.load(group[0].path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in {source.member or "" for source in group}}
    except Exception as error:  # NumPy and zlib raise many kinds for broken files
        raise UnreadableError(_reason(error)) from error
    pictures = (Image.fromarray(arrays[s.member or ""][s.row]).crop(s.box) for s in group)
    return [DecodedImage(to_bytes(picture, wanted)) for picture in pictures]


def _from_mosaic(group: list[Source], wanted: Pixels) -> list[Result]:
    with group[0].path.open("rb") as file:
        image = open_image(file, group[0].path.name, wanted.intensity)
    large = image.picture
    results: list[Result] = []
    for source in group:
        left, upper, right, lower = source.box or (0, 0, 0, 0)
        if right > large.width or lower > large.height:
            results.append(f"outside of the {large.width} by {large.height} pixels of its file")
        else:
            part = to_bytes(large.crop((left, upper, right, lower)), wanted)
            results.append(DecodedImage(part, image.several_frames))
    return results


def read_picture(path: Path, wanted: Pixels) -> DecodedImage:
    """Read one image file.

    Raises:
        UnreadableError: The file is missing or broken, or its pixels are ambiguous.
    """
    try:
        with path.open("rb") as file:
            return _decode(file, path.name, wanted)
    except OSError as error:
        raise UnreadableError(_reason(error)) from error


def _decode(file: BinaryIO, name: str, wanted: Pixels) -> DecodedImage:
    image = open_image(file, name, wanted.intensity, 2 * wanted.size)
    return DecodedImage(to_bytes(image.picture, wanted), image.several_frames)


def open_image(
    file: BinaryIO,
    name: str,
    intensity: Intensity,
    enough: int | None = None,
    formats: tuple[str, ...] | None = None,
) -> OpenedImage:
    """Open an image of any supported kind, or the first of its frames or pages.

    Args:
        file: Open image file.
        name: Name of the file; its suffix tells DICOM from other kinds.
        intensity: Scaling of pixels of more than 8 bits.
        enough: Height and width to which a JPEG may be reduced while decoding. This is several
            times faster; twice the final size is enough for the filter that follows.
        formats: Formats of Pillow that are accepted; by default all of them.
    """
    try:
        if name.lower().endswith(DICOM):
            return OpenedImage(Image.fromarray(_dicom(file)))
        picture = Image.open(file, formats=formats)
        several = has_several_frames(picture)
        if enough is not None:
            picture.draft(None, (enough, enough))
        picture.load()
        ImageOps.exif_transpose(picture, in_place=True)
        return OpenedImage(_grey_or_rgb(picture, intensity), several)
    except UnreadableError:
        raise
    except Exception as error:  # Pillow and pydicom raise many kinds for broken files
        raise UnreadableError(_reason(error)) from error


def has_several_frames(picture: Image.Image) -> bool:
    """Whether a picture is animated or has several pages."""
    return bool(getattr(picture, "is_animated", False))


def _reason(error: Exception) -> str:
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
        # Values far outside of the window give the range that it maps to.
        ends = apply_voi_lut(np.array([-(2**31), 2**31 - 1]), record)
    grey = _between(values.astype(np.float64), float(ends.min()), float(ends.max()))
    return 255 - grey if kind == "MONOCHROME1" else grey


def to_bytes(picture: Image.Image, wanted: Pixels) -> UInt8[np.ndarray, "channel height width"]:
    """Make a picture square, resize it, and convert it to the wanted channels.

    Args:
        picture: Picture of mode L or RGB, or F with values from 0 to 255.
        wanted: Format of the result. Grey is repeated to RGB; RGB becomes its luma (ITU-R 601).
    """
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
