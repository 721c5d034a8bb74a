"""Images: reading from arrays, tensors and PIL pictures, and conversion from and to bytes.

The package works on float tensors in [-1, 1], (batch, channel, height, width). The bytes of
pictures are scaled; arrays and tensors must be in that range already.
"""

from __future__ import annotations

import hashlib
import io
import warnings
from collections.abc import Sequence
from typing import TypeAlias, cast

import numpy as np
import torch
from jaxtyping import Float, UInt8
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from fcfg.support.errors import InputError, check_is, short

ImagesLike: TypeAlias = Tensor | NDArray[np.generic] | Image.Image | Sequence[Image.Image]

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
    images: ImagesLike, *, channels: int, stride: int = 1, size: int | None = None
) -> Float[Tensor, "batch channel height width"]:
    """Return images as a tensor in [-1, 1] on the CPU, or raise an error.

    >>> read_images(np.zeros((2, 3, 8, 8), dtype=np.float32), channels=3).shape
    torch.Size([2, 3, 8, 8])

    Args:
        images: A float tensor or array (batch, channel, height, width) in [-1, 1], a picture, or
            pictures of one size.
        channels: Number of channels of the network.
        stride: Number that height and width must be divisible by.
        size: Required height and width; any by default.
    """
    if isinstance(images, Image.Image):
        images = [images]
    if isinstance(images, list | tuple):
        return _check_shape(_from_pictures(images, channels), channels, stride, size)
    tensor = _from_numbers(images)
    if not tensor.is_floating_point():
        raise _refusal(
            "floating-point pixels in [-1, 1]",
            f"dtype {tensor.dtype}".replace("torch.", ""),
            "convert bytes with x / 127.5 - 1",
        )
    _check_shape(tensor, channels, stride, size)
    _check_range(tensor)
    return tensor


def _from_numbers(images: ImagesLike) -> Tensor:
    try:
        if isinstance(images, np.ndarray):  # reversed or strided views, other byte orders
            native = np.ascontiguousarray(images, dtype=images.dtype.newbyteorder("="))
            return torch.from_numpy(native)
        check_is("images", images, Tensor, "a tensor, an array or PIL pictures")
        return cast(Tensor, images).detach().cpu()
    except (TypeError, RuntimeError) as error:  # texts, objects; tensors without numbers
        raise _refusal("numbers", short(images), "pass a float32 array or tensor") from error


def _from_pictures(pictures: Sequence[Image.Image], channels: int) -> Tensor:
    arrays: list[NDArray[np.generic]] = []
    for number, picture in enumerate(pictures):
        if not isinstance(picture, Image.Image):
            raise _refusal(
                "a tensor, an array or PIL pictures",
                f"a sequence with {type(picture).__name__}",
                "stack arrays into one of shape (batch, channel, height, width)",
            )
        mode = _MODES.get(channels)
        if picture.mode != mode:
            deep = picture.mode.startswith(("I", "F"))  # which convert would clip
            raise InputError(
                f"picture {number}",
                expected=f"mode {mode} ({channels} channels of 8 bits)",
                got=f"mode {picture.mode}",
                do="scale its numbers to [-1, 1] yourself and pass a float array"
                if deep
                else f"use picture.convert('{mode}')",
            )
        arrays.append(np.asarray(picture).reshape(*picture.size[::-1], channels))
    sizes = {array.shape[:2] for array in arrays}
    if len(sizes) != 1:
        raise _refusal(
            "at least one picture, all of one size",
            f"sizes {sorted(sizes)}" if sizes else "none",
            "resize them to the model's size",
        )
    return images_from_bytes(torch.from_numpy(np.stack(arrays)).permute(0, 3, 1, 2))


def _check_shape(images: Tensor, channels: int, stride: int, size: int | None) -> Tensor:
    shape = tuple(images.shape)
    if len(shape) != 4 or shape[1] != channels:
        raise _refusal(
            f"shape (batch, {channels}, height, width)",
            f"shape {shape}",
            "put channels first, and add a batch axis to a single image",
        )
    if 0 in shape:
        raise _refusal("at least one image", f"shape {shape}", "pass some images")
    if shape[2] % stride or shape[3] % stride:
        raise _refusal(
            f"height and width divisible by {stride}",
            f"{shape[2]} by {shape[3]}",
            "resize or pad the images; the network halves them that often",
        )
    if size is not None and shape[2:] != (size, size):
        raise _refusal(
            f"{size} by {size} pixels, the size the model was trained at",
            f"{shape[2]} by {shape[3]}",
            "resize the images, or pass any_size=True if you mean it",
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
            stacklevel=5,  # the caller of the pipeline
        )


def _refusal(expected: str, got: str, do: str) -> InputError:
    return InputError("images", expected=expected, got=got, do=do)


def to_pictures(images: Float[Tensor, "batch channel height width"]) -> list[Image.Image]:
    """Convert images to 8-bit PIL pictures, clamped.

    >>> to_pictures(torch.zeros(1, 3, 8, 8))[0].size
    (8, 8)

    Args:
        images: Images in [-1, 1], of one or three channels.
    """
    if images.shape[1] not in _MODES:
        raise _refusal("1 or 3 channels", f"{images.shape[1]}", "choose the channels to show")
    pixels = images_to_bytes(images.detach().cpu()).permute(0, 2, 3, 1).numpy()
    return [Image.fromarray(row[..., 0] if row.shape[2] == 1 else row) for row in pixels]


def to_png(picture: Image.Image) -> bytes:
    """Return the contents of a PNG file."""
    file = io.BytesIO()
    picture.save(file, format="PNG")
    return file.getvalue()


def image_keys(images: Float[Tensor, "batch channel height width"]) -> list[str]:
    """Return a digest of the pixels of every image."""
    rows = images.to(torch.float32).numpy()
    return [hashlib.blake2b(row.tobytes(), digest_size=16).hexdigest() for row in rows]
