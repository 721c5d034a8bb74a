r"""Distance between images, pixel by pixel, and the door for images that metrics share.

The mean absolute error :math:`\frac1P \sum_p |x_p - y_p|` in the range [-1, 1]: 2 at most, and
twice what it would be in [0, 1]. Between an image and the image after an intervention and back it
is *reversibility*; under the null intervention, unguided, *composition*; between an image and its
counterfactual the *change*.
"""

from __future__ import annotations

from typing import cast

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from fcfg.support.errors import InputError, check_is

PIXEL_RANGE = "[-1, 1]"  #: of every metric, as records name it


def image_mae(images: Tensor, others: Tensor) -> NDArray[np.float64]:
    """Mean absolute error of each image, (n,), in units of a range from -1 to 1.

    >>> image_mae(torch.zeros(2, 3, 8, 8), torch.full((2, 3, 8, 8), -0.5))
    array([0.5, 0.5])

    Args:
        images: Floating-point, in [-1, 1], (n, channel, height, width).
        others: Of the same shape.
    """
    x, y = checked_alike(images=images, others=others)
    return per_image((x - y).abs(), "mean")


def per_image(values: Float[Tensor, "n *rest"], how: str) -> NDArray[np.float64]:
    """Sum or mean over each image, in double precision, (n,)."""
    flat = values.double().flatten(1)
    return (flat.mean(dim=1) if how == "mean" else flat.sum(dim=1)).cpu().numpy()


def checked_alike(**images: Tensor) -> list[Float[Tensor, "n channel height width"]]:
    """Return images of one shape, on the device of the first, or refuse them."""
    found = [checked(name, tensor) for name, tensor in images.items()]
    shapes = [tuple(tensor.shape) for tensor in found]
    if len(set(shapes)) > 1:
        raise InputError(
            " and ".join(images),
            expected="images of one shape",
            got=" and ".join(map(str, shapes)),
            do="compare images one by one, all of the same size",
        )
    return [tensor.to(found[0].device) for tensor in found]


def checked(name: str, images: Tensor) -> Float[Tensor, "n channel height width"]:
    """Return images in single precision, or refuse what is not in [-1, 1]."""
    check_is(name, images, Tensor, "a tensor of images")
    if not images.is_floating_point():
        raise InputError(
            name,
            expected=f"floating-point pixels in {PIXEL_RANGE}",
            got=f"dtype {images.dtype}".replace("torch.", ""),
            do="convert bytes with x / 127.5 - 1",
        )
    if images.ndim != 4 or 0 in images.shape:
        raise InputError(
            name,
            expected="shape (n, channel, height, width), at least one image",
            got=f"shape {tuple(images.shape)}",
            do="add a batch axis to a single image",
        )
    low, high = (cast(float, x.item()) for x in images.detach().aminmax())
    if not (low >= -1 - 1e-4 and high <= 1 + 1e-4):  # NaN is neither
        raise InputError(
            name,
            expected=f"pixels in {PIXEL_RANGE}",
            got=f"values from {low:.4g} to {high:.4g}",
            do="clamp what was generated, as its file would be",
        )
    return images.detach().to(torch.float32)
