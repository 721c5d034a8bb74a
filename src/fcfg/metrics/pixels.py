r"""Distances between images, pixel by pixel, in the range [-1, 1].

The mean absolute error of an image,

.. math:: \frac1P \sum_p |x_p - y_p|,

is at most 2, and twice its value in [0, 1]. Between an image and the image after an intervention
and back it is *reversibility*; under the null intervention, unguided, *composition*; between an
image and its counterfactual the *change*.

Most pixels of a true counterfactual equal those of the image, so that doing nothing already has a
small error. The error *on truly changed pixels*,

.. math:: \frac{\sum_{p \in C} |\tilde x_p - x^*_p|}{\sum_{p \in C} |x^*_p - x_p|},
    \qquad C = \{p : |x^*_p - x_p| > 0.05\},

is 1 for doing nothing and 0 for the truth. Its sums run over all images, so that images that
hardly change hardly count.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from fcfg.support.errors import InputError, check_is
from fcfg.support.images import DIMENSIONS, check_pixels

PIXEL_RANGE = "[-1, 1]"  #: range of pixels in all metrics, for records


def image_mae(images: Tensor, others: Tensor) -> NDArray[np.float64]:
    """Mean absolute error of each image, (n,).

    >>> image_mae(torch.zeros(2, 3, 8, 8), torch.full((2, 3, 8, 8), -0.5))
    array([0.5, 0.5])
    """
    x, y = check_alike(images=images, others=others)
    return _flat((x - y).abs()).mean(dim=1).cpu().numpy()


@dataclass(frozen=True, eq=False)
class ImageErrors:
    """Errors of each image, (n,); ``missed.sum() / changed.sum()`` is that on changed pixels."""

    mae: NDArray[np.float64] = field(repr=False)  #: mean distance from the truth, all pixels
    missed: NDArray[np.float64] = field(repr=False)  #: sum of distances on truly changed pixels
    changed: NDArray[np.float64] = field(repr=False)  #: sum of the true changes on them


def image_errors(
    generated: Tensor, truth: Tensor, factual: Tensor, threshold: float = 0.05
) -> ImageErrors:
    """Compare generated images with the true counterfactuals.

    Args:
        generated: Generated counterfactuals in [-1, 1], ``(n, channel, *size)``.
        truth: True counterfactuals.
        factual: Factual images.
        threshold: Smallest difference of truth and factual image in a truly changed pixel.
    """
    made, true, before = check_alike(generated=generated, truth=truth, factual=factual)
    error, change = (made - true).abs(), (true - before).abs()
    changed = change > threshold
    return ImageErrors(
        mae=_flat(error).mean(dim=1).cpu().numpy(),
        missed=_flat(error * changed).sum(dim=1).cpu().numpy(),
        changed=_flat(change * changed).sum(dim=1).cpu().numpy(),
    )


def _flat(values: Float[Tensor, "n *rest"]) -> Float[Tensor, "n pixels"]:
    return values.double().flatten(1)


def check_alike(**images: Tensor) -> list[Float[Tensor, "n channel *size"]]:
    """Return images of one shape, on the device of the first, or refuse them."""
    tensors = [check_images(name, tensor) for name, tensor in images.items()]
    shapes = [tuple(tensor.shape) for tensor in tensors]
    if len(set(shapes)) > 1:
        got, do = " and ".join(map(str, shapes)), "compare images one by one, all of the same size"
        raise InputError(" and ".join(images), expected="images of one shape", got=got, do=do)
    return [tensor.to(tensors[0].device) for tensor in tensors]


def check_images(name: str, images: Tensor) -> Float[Tensor, "n channel *size"]:
    """Return images in single precision, or refuse images that are not in [-1, 1]."""
    check_is(name, images, Tensor, "a tensor of images")
    check_pixels(images, name)
    if images.ndim - 2 not in DIMENSIONS or 0 in images.shape:
        expected = "shape (n, channel, height, width), at least one image, series or volume"
        do = "add a batch axis to a single image"
        raise InputError(name, expected=expected, got=f"shape {tuple(images.shape)}", do=do)
    low, high = (cast(float, x.item()) for x in images.detach().aminmax())
    if not (low >= -1 - 1e-4 and high <= 1 + 1e-4):  # also true of NaN
        expected, got = f"pixels in {PIXEL_RANGE}", f"values from {low:.4g} to {high:.4g}"
        do = "clamp generated images, as their files would be"
        raise InputError(name, expected=expected, got=got, do=do)
    return images.detach().to(torch.float32)
