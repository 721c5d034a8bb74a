"""Images: reading from what users hold, and conversion from and to bytes.

The package works on float tensors in [-1, 1], (batch, channel, height, width); series have one
axis of pixels, volumes three. Floats must have this form already. Pictures of Pillow, paths to
pictures, and bytes (uint8) are scaled; a list may hold any of them. Bytes are (height, width),
(height, width, channel), or a batch of either, with 1, 3 or 4 channels, which may also follow the
batch axis. Shapes that could mean two things are refused: three grey pictures, for example, need
the axis of their one channel.
"""

from __future__ import annotations

import base64
import hashlib
import io
import os
import warnings
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias, cast

import numpy as np
import torch
from jaxtyping import Float, Shaped, UInt8
from numpy.typing import NDArray
from PIL import Image, ImageOps
from torch import Tensor
from torch.nn.functional import pad

from fcfg.support.errors import InputError, check_is, short
from fcfg.support.pictures import Pixels, UnreadableError, fit_picture, reason

#: Images as users hold them: numbers in [-1, 1], or pictures, see :func:`read_images`.
ImagesLike: TypeAlias = (
    Tensor | NDArray[np.generic] | Image.Image | str | os.PathLike[str] | Sequence[Any]
)

#: Names of the axes of pixels, by their number.
DIMENSIONS = {1: ("length",), 2: ("height", "width"), 3: ("x", "y", "z")}
_MODES = {1: "L", 3: "RGB"}


def images_from_bytes(
    pixels: UInt8[Tensor, "*shape"] | UInt8[np.ndarray, "*shape"],
) -> Float[Tensor, "*shape"]:
    """Scale bytes to [-1, 1], in float32.

    >>> images_from_bytes(np.array([0, 255], dtype=np.uint8))
    tensor([-1.,  1.])
    """
    if isinstance(pixels, np.ndarray):
        pixels = torch.from_numpy(np.array(pixels))  # a copy: torch refuses read-only arrays
    return pixels.float() / 127.5 - 1


def images_to_bytes(images: Float[Tensor, "*shape"]) -> UInt8[Tensor, "*shape"]:
    """Round images to bytes, clamped: the inverse of :func:`images_from_bytes`."""
    return ((images.clamp(-1, 1) + 1) * 127.5).round().to(torch.uint8)


def read_images(
    images: ImagesLike,
    *,
    channels: int,
    stride: int = 1,
    size: int | None = None,
    fit: Pixels | None = None,
    dimensions: int = 2,
) -> Float[Tensor, "batch channel *size"]:
    """Return images as a tensor in [-1, 1] on the CPU, or raise an error.

    >>> read_images(np.zeros((8, 8, 3), dtype=np.uint8), channels=3).shape
    torch.Size([1, 3, 8, 8])

    Args:
        images: Floats (batch, channel, height, width) in [-1, 1], or pictures of one size: of
            Pillow, paths, or bytes, see :mod:`fcfg.support.images`. Series and volumes are floats
            or bytes, ``(batch, channel, *size)``.
        channels: Number of channels of the network.
        stride: Number that every side must be divisible by.
        size: Required length of every side; any by default.
        fit: Format that pictures are made to fit; by default they must fit already.
        dimensions: Number of axes beside the channels.
    """
    pictures = _pictures_of(images) if dimensions == 2 else None
    if pictures is not None:
        rows = [_read_picture(each, row, channels, fit) for row, each in enumerate(pictures)]
        sizes = {row.shape[1:] for row in rows}
        if len(sizes) != 1:
            raise _refusal(
                "at least one picture, all of one size",
                f"sizes {sorted(sizes)}" if sizes else "none",
                "resize them to the model's size, or pass resize=True to a model",
            )
        return _check_shape(images_from_bytes(np.stack(rows)), channels, stride, size, 2)
    tensor = _from_numbers(images)
    if isinstance(images, np.ndarray) and images.dtype == np.uint8:
        tensor = images_from_bytes(tensor)
    check_pixels(tensor)
    _check_shape(tensor, channels, stride, size, dimensions)
    _check_range(tensor)
    return tensor


def by_size(size: Iterable[int]) -> str:
    """Write a size.

    >>> by_size((8, 6))
    '8 by 6'
    """
    return " by ".join(map(str, size))


def pixel_axes(images: Tensor, first: int = 1) -> tuple[int, ...]:
    """Return the axes of channels and pixels: all, from the first of them on.

    >>> pixel_axes(torch.zeros(2, 3, 8, 8))
    (1, 2, 3)
    """
    return tuple(range(first, images.ndim))


def per_image(values: Shaped[Tensor, "batch"], images: Tensor) -> Tensor:
    """Return one value for each image, or whatever is first, with axes of 1 for its pixels.

    >>> per_image(torch.tensor([1.0, 2.0]), torch.zeros(2, 3, 8, 8)).shape
    torch.Size([2, 1, 1, 1])
    """
    return values.view(-1, *[1] * (images.ndim - 1))


def check_pixels(images: Tensor, subject: str = "images") -> None:
    """Refuse a tensor of anything but floating-point numbers."""
    if not images.is_floating_point():
        raise InputError(
            subject,
            expected="floating-point pixels in [-1, 1]",
            got=f"dtype {images.dtype}".replace("torch.", ""),
            do="convert bytes with x / 127.5 - 1, or pass them as an array of NumPy",
        )


def _pictures_of(images: object) -> list[Any] | None:
    """Return the pictures that a user holds, each of Pillow or a path; None if it is numbers."""
    if isinstance(images, Sequence) and not isinstance(images, str):
        pictures: list[Any] = []
        for each in cast("Sequence[object]", images):
            found = _pictures_of(each)
            if found is None:
                raise _refusal(
                    "pictures, paths or arrays of bytes",
                    f"a sequence with {type(each).__name__}",
                    "stack numbers into one array of shape (batch, channel, height, width)",
                )
            pictures += found
        return pictures
    if isinstance(images, Image.Image | str | os.PathLike):
        return [images]
    is_bytes = isinstance(images, np.ndarray) and images.dtype == np.uint8
    return _pictures_of_bytes(cast("NDArray[np.uint8]", images)) if is_bytes else None


def _pictures_of_bytes(pixels: NDArray[np.uint8]) -> list[Image.Image]:
    shape, counts = pixels.shape, (1, 3, 4)
    first, last = len(shape) == 4 and shape[1] in counts, len(shape) > 2 and shape[-1] in counts
    planes = len(shape) == 3 and shape[0] in (3, 4)  # or grey pictures: nobody knows
    if not 2 <= len(shape) <= 4 or planes or (len(shape) == 4 and first == last):
        raise _refusal(
            "bytes (height, width), (height, width, channel), or a batch of either, with 1, 3 or "
            "4 channels",
            f"shape {shape}" + (", which could mean two things" if planes or first else ""),
            "put the channels last, and give grey pictures an axis for their one channel",
        )
    pixels = pixels.transpose(0, 2, 3, 1) if first else pixels
    rows = pixels[None] if len(shape) == 2 or (len(shape) == 3 and last) else pixels
    rows = rows[..., 0] if rows.ndim == 4 and rows.shape[3] == 1 else rows
    return [Image.fromarray(np.ascontiguousarray(row)) for row in rows]


def _read_picture(
    picture: Image.Image | str | os.PathLike[str], row: int, channels: int, fit: Pixels | None
) -> UInt8[np.ndarray, "channel height width"]:
    """Return the bytes of a picture, made to fit if that is wanted."""
    is_open = isinstance(picture, Image.Image)
    subject = f"picture {row}" if is_open else f"picture '{os.fspath(picture)}'"
    try:
        if fit is not None:
            return fit_picture(picture, fit)
        opened = picture if isinstance(picture, Image.Image) else Image.open(picture)
        shown = ImageOps.exif_transpose(opened)
    except Exception as error:  # Pillow raises many kinds for broken files
        is_known = isinstance(error, UnreadableError | InputError)
        why = str(error) if is_known else reason(error)
        do = "repair it or leave it out; files that need a window, with resize=True"
        raise InputError(subject, expected="one that can be read", got=why, do=do) from error
    mode = _MODES.get(channels)
    if shown.mode != mode:
        deep = shown.mode.startswith(("I", "F"))  # which convert would clip
        own = "a float array in [-1, 1]" if deep else f"picture.convert('{mode}')"
        raise InputError(
            subject,
            expected=f"mode {mode} ({channels} channels of 8 bits)",
            got=f"mode {shown.mode}",
            do=f"pass {own}, or resize=True, with which a model reads it as in training",
        )
    rows = np.asarray(shown).reshape(*shown.size[::-1], channels)
    return np.ascontiguousarray(rows.transpose(2, 0, 1))


def _from_numbers(images: ImagesLike) -> Tensor:
    try:
        if isinstance(images, np.ndarray):  # reversed or strided views, other byte orders
            native = np.ascontiguousarray(images, dtype=images.dtype.newbyteorder("="))
            return torch.from_numpy(native)
        check_is("images", images, Tensor, "pictures, or numbers in a tensor or an array")
        return cast(Tensor, images).detach().cpu()
    except (TypeError, RuntimeError) as error:  # texts, objects; tensors without numbers
        raise _refusal("numbers", short(images), "pass a float32 array or tensor") from error


def _check_shape(
    images: Tensor, channels: int, stride: int, size: int | None, dimensions: int
) -> Tensor:
    shape, names = tuple(images.shape), DIMENSIONS[dimensions]
    if len(shape) != 2 + dimensions or shape[1] != channels:
        raise _refusal(
            f"shape (batch, {channels}, {', '.join(names)})",
            f"shape {shape}",
            "put channels first, and add a batch axis to a single image",
        )
    if 0 in shape:
        raise _refusal("at least one image", f"shape {shape}", "pass some images")
    wanted = shape[2:] if size is None else (size,) * dimensions
    if shape[2:] != wanted:
        raise _refusal(
            f"{by_size(wanted)} pixels, the size the model was trained at",
            by_size(shape[2:]),
            "resize them (with resize=True, a model does so to pictures), or pass any_size=True "
            "if the network takes it",
        )
    if any(side % stride for side in shape[2:]):
        raise _refusal(
            f"{' and '.join(names)} divisible by {stride}",
            by_size(shape[2:]),
            "resize or pad the images; the network halves them that often",
        )
    return images


def _check_range(images: Tensor) -> None:
    if not bool(torch.isfinite(images).all()):
        raise _refusal("finite pixels", "NaN or infinity", "look for broken files")
    low, high = (cast(float, x.item()) for x in images.aminmax())
    if low < -1.001 or high > 1.001:
        raise _refusal(
            "pixels in [-1, 1]",
            f"values from {low:.4g} to {high:.4g}",
            "scale bytes with x / 127.5 - 1, or clamp",
        )
    if low >= 0 and high > 0.5:
        warnings.warn(
            "images: all pixels are in [0, 1], but [-1, 1] is expected; scale with 2 * x - 1 "
            "unless they are really that bright",
            stacklevel=8,  # the caller of the pipeline
        )


@contextmanager
def pixel_range_is_known() -> Generator[None]:
    """Suppress the warning about bright images: unlike arrays, files define their range."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="images: all pixels are in")
        yield


def _refusal(expected: str, got: str, do: str) -> InputError:
    return InputError("images", expected=expected, got=got, do=do)


def slice_widths(size: Sequence[int]) -> dict[str, int]:
    """Return the slices of a volume that :func:`views` shows, with their widths; none of others.

    >>> slice_widths((4, 6, 8))
    {'sagittal': 6, 'coronal': 4, 'axial': 4}
    """
    if len(size) != 3:
        return {}
    x, y, _ = size
    return {"sagittal": y, "coronal": x, "axial": x}


def views(images: Float[Tensor, "batch channel *size"]) -> Float[Tensor, "batch channel _ _"]:
    """Return images as they are shown: series as strips, volumes by three slices side by side.

    The slices are those in the middle of the axes x, y and z, of which the later is upright: of a
    volume with x from left to right, y from back to front and z upwards, they are sagittal,
    coronal and axial. What is beside them is black.

    >>> views(torch.zeros(1, 1, 4, 6, 8)).shape  # 6 by 8, 4 by 8 and 4 by 6 pixels
    torch.Size([1, 1, 8, 14])
    """
    if images.ndim == 3:
        return images[:, :, None].expand(-1, -1, max(1, images.shape[2] // 8), -1)
    if images.ndim == 4:
        return images
    slices = [images.select(axis, images.shape[axis] // 2) for axis in (2, 3, 4)]
    upright = [each.transpose(2, 3).flip(2) for each in slices]
    high = max(each.shape[2] for each in upright)
    padded = [pad(each, [0, 0, 0, high - each.shape[2]], value=-1.0) for each in upright]
    return torch.cat(padded, dim=3)


def to_pictures(images: Float[Tensor, "batch channel *size"]) -> list[Image.Image]:
    """Convert :func:`views` of images of one or three channels to 8-bit PIL pictures, clamped.

    >>> to_pictures(torch.zeros(1, 3, 8, 8))[0].size
    (8, 8)
    """
    if images.shape[1] not in _MODES:
        raise _refusal("1 or 3 channels", f"{images.shape[1]}", "choose the channels to show")
    pixels = images_to_bytes(views(images.detach().cpu())).permute(0, 2, 3, 1).numpy()
    return [Image.fromarray(row[..., 0] if row.shape[2] == 1 else row) for row in pixels]


def to_png(picture: Image.Image) -> bytes:
    """Return the contents of a PNG file."""
    file = io.BytesIO()
    picture.save(file, format="PNG")
    return file.getvalue()


def data_url(png: bytes) -> str:
    """Return a PNG file inside an address."""
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


def image_keys(images: Float[Tensor, "batch channel *size"]) -> list[str]:
    """Return a digest of the pixels of every image."""
    rows = images.to(torch.float32).numpy()
    return [hashlib.blake2b(row.tobytes(), digest_size=16).hexdigest() for row in rows]
