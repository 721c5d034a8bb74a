r"""Minimality: whether a counterfactual changes no more than its intervention needs.

The distance :math:`d_i` between the features of an image and of its counterfactual is compared
with distances between factual images. The counterfactual latent divergence of an image is

.. math:: \mathrm{CLD}_i = \log\big(0.8\, e^{P(S_i^* \le d_i)} + 0.2\, e^{P(S_i \ge d_i)}\big)

:math:`S_i^*` are the distances from the image to the factual images with the requested value of
the target, :math:`S_i` those to the factual images with its own value, itself included. The first
share is large if the counterfactual went further than images that have the value anyway, the
second if it stayed nearer than images that do not. The divergence lies between 0, the best, and 1;
it is about 0.30 for doing nothing, and 0.86 for moving further than to any image.

References:
    Diffusion causal models for counterfactual estimation (Sanchez and Tsaftaris, 2022), which
    introduced it; Benchmarking counterfactual image generation (Melistas et al., 2024), whose
    weights and grouping these are.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from fcfg.metrics.intervals import Floats
from fcfg.support.errors import InputError

_WEIGHTS = 0.8, 0.2  # of going too far, and of staying too near
_ROWS = 256  # images that are compared with all others at once


def minimality(
    factual: ArrayLike, counterfactual: ArrayLike, own: ArrayLike, wanted: ArrayLike
) -> Floats:
    """Counterfactual latent divergence of each image, (n,).

    It is NaN if the value of an image does not change, or no factual image has the requested one.

    >>> minimality([[0.0], [1.0], [4.0]], [[2.0], [3.0], [1.0]], [0, 0, 1], [1, 1, 0]).round(3)
    array([0.   , 0.   , 0.418])

    Args:
        factual: Features of the factual images, (n, d).
        counterfactual: Features of their counterfactuals, (n, d).
        own: Factual value of the target, (n,), or of every target, (n, targets).
        wanted: Requested values, in the same shape.
    """
    x, y = (np.asarray(rows, dtype=np.float64) for rows in (factual, counterfactual))
    values, requested = np.asarray(own), np.asarray(wanted)
    is_legal = x.ndim == 2 and x.shape == y.shape and values.shape[:1] == (len(x),)
    if not is_legal or values.shape != requested.shape or not np.isfinite([x, y]).all():
        expected = "finite features of shape (n, d), and n values, before and after"
        got = f"shapes {x.shape}, {y.shape}, {values.shape}, {requested.shape}"
        do = "give features and values of the same images, one row each"
        raise InputError("minimality", expected=expected, got=got, do=do)
    values, requested = (column.reshape(len(x), -1) for column in (values, requested))
    points, moved = torch.from_numpy(x), np.abs(x - y).sum(axis=1)[:, None]
    found = np.empty(len(x))
    for rows in np.array_split(np.arange(len(x)), math.ceil(len(x) / _ROWS)):
        apart = torch.cdist(points[rows], points, p=1).numpy()
        too_far = _share(apart <= moved[rows], _alike(requested[rows], values))
        too_near = _share(apart >= moved[rows], _alike(values[rows], values))
        found[rows] = np.log(_WEIGHTS[0] * np.exp(too_far) + _WEIGHTS[1] * np.exp(too_near))
    found[(values == requested).all(axis=1)] = np.nan
    return found


def fifths(values: ArrayLike, factual: ArrayLike) -> NDArray[np.int64]:
    """Fifth of a factual column that each value belongs to, 0 to 4.

    It makes groups of a continuous attribute, whose values are all different.
    """
    edges = np.quantile(np.asarray(factual, dtype=np.float64), [0.2, 0.4, 0.6, 0.8])
    return np.searchsorted(edges, np.asarray(values, dtype=np.float64))


def _alike(values: NDArray[np.generic], others: NDArray[np.generic]) -> NDArray[np.bool_]:
    """Whether all targets agree, (rows, n)."""
    return (values[:, None] == others[None]).all(axis=2)


def _share(hits: NDArray[np.bool_], members: NDArray[np.bool_]) -> Floats:
    """Share of the members of each row that are hits; NaN if there are none."""
    with np.errstate(invalid="ignore"):
        return (hits & members).sum(axis=1) / members.sum(axis=1)
