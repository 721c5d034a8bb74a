r"""Distance from the true counterfactual, where the world is known.

Most pixels of a true counterfactual are those of the image, so that doing nothing already has a
small error over all of them. The error *on truly changed pixels*,

.. math:: \frac{\sum_{p \in C} |\tilde x_p - x^*_p|}{\sum_{p \in C} |x^*_p - x_p|},
    \qquad C = \{p : |x^*_p - x_p| > 0.05\},

is 1 where nothing was done and 0 for the truth; sums run over all images, so that an image which
hardly changes hardly counts.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from fcfg.metrics.pixels import checked_alike, per_image


@dataclass(frozen=True, eq=False)
class ImageErrors:
    """Of each image, (n,); ``missed.sum() / changed.sum()`` is the error on changed pixels."""

    mae: NDArray[np.float64] = field(repr=False)  #: mean distance from the truth, all pixels
    missed: NDArray[np.float64] = field(repr=False)  #: sum over truly changed pixels of the same
    changed: NDArray[np.float64] = field(repr=False)  #: sum there of how far the truth moved


def image_errors(
    generated: Tensor, truth: Tensor, factual: Tensor, threshold: float = 0.05
) -> ImageErrors:
    """Compare generated images with the true counterfactuals.

    >>> import torch
    >>> factual, truth = torch.zeros(1, 1, 8, 8), torch.ones(1, 1, 8, 8)
    >>> errors = image_errors(factual, truth, factual)
    >>> float(errors.missed.sum() / errors.changed.sum())
    1.0

    Args:
        generated: In [-1, 1], (n, channel, height, width).
        truth: True counterfactuals of the same images.
        factual: The images themselves.
        threshold: A pixel truly changes where truth and factual image differ by more.
    """
    made, real, before = checked_alike(generated=generated, truth=truth, factual=factual)
    wrong, change = (made - real).abs(), (real - before).abs()
    where = change > threshold
    return ImageErrors(
        mae=per_image(wrong, "mean"),
        missed=per_image(wrong * where, "sum"),
        changed=per_image(change * where, "sum"),
    )
