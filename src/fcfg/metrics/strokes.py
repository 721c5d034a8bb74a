"""Thickness and intensity of handwritten strokes, measured as Morpho-MNIST does.

An image is enlarged four times (cubic spline, then a Gaussian filter) and binarised halfway
between its darkest and brightest value. Its medial axis is what remains when pixels are removed in
the order of their distance to the background, unless that would separate neighbours or shorten an
end. The thickness is twice the mean distance along the medial axis, in pixels of the image. The
intensity is the median of the pixels in the upper half of the image's own range, from 0 to 255.

References:
    Morpho-MNIST: Quantitative assessment and diagnostics for representation learning (Castro et
    al., JMLR 2019), for the thickness; Deep structural causal models for tractable counterfactual
    inference (Pawlowski et al., NeurIPS 2020), for the intensity. The medial axis is that of
    scikit-image, with ties broken by position instead of at random.
"""

from __future__ import annotations

from functools import cache
from typing import TypeAlias

import networkx as nx
import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import NDArray
from torch import Tensor

Images: TypeAlias = Float[Tensor, "image channel height width"]
Pages: TypeAlias = Float[np.ndarray, "image height width"]
Strokes: TypeAlias = Bool[np.ndarray, "image height width"]
Numbers: TypeAlias = Float[np.ndarray, "image"]

SCALE = 4  #: enlargement, the default of Morpho-MNIST
_BATCH = 256  # images at once
_NEIGHBOURS = [(y, x) for y in (-1, 0, 1) for x in (-1, 0, 1)]  # bits of a pattern, in this order


def stroke_intensity(images: Images) -> Numbers:
    """Return the median of the pixels in the upper half of each image's range, from 0 to 255.

    Images are in [-1, 1]; of several channels, the mean is measured.
    """
    grey = _grey(images).reshape(len(images), -1)
    low, high = grey.min(axis=1, keepdims=True), grey.max(axis=1, keepdims=True)
    return np.nanmedian(np.where(grey >= (low + high) / 2, grey, np.nan), axis=1)


def stroke_thickness(images: Images) -> Numbers:
    """Return the mean thickness along the medial axis of each image's strokes, in pixels.

    An image of one shade has no strokes, and thickness 0.

    Images are in [-1, 1]; of several channels, the mean is measured.
    """
    return np.concatenate([_thickness(_grey(piece)) for piece in images.split(_BATCH)])


def _grey(images: Tensor) -> Pages:
    return ((images.detach().double().cpu().mean(dim=1).clamp(-1, 1) + 1) * 127.5).numpy()


def _thickness(grey: Pages) -> Numbers:
    large = enlarge(grey)
    low, high = large.min(axis=(1, 2), keepdims=True), large.max(axis=(1, 2), keepdims=True)
    strokes = (large >= (low + high) / 2) & (high - low > 1e-6)
    distance = distance_to_background(strokes)
    axis = medial_axis(strokes, distance)
    total = np.where(axis, distance, 0.0).sum(axis=(1, 2))
    return 2 * total / np.maximum(axis.sum(axis=(1, 2)), 1) / SCALE


def enlarge(grey: Pages) -> Float[np.ndarray, "image large_height large_width"]:
    """Return images with SCALE times as many rows and columns, smoothed."""
    rows, columns = (_enlargement(side) for side in grey.shape[1:])
    return rows @ grey @ columns.T


@cache
def _enlargement(size: int) -> Float[np.ndarray, "large small"]:
    """Return the matrix that interpolates with a cubic spline, then blurs; borders are mirrored.

    The centre of large pixel i is at (i + 0.5) / SCALE - 0.5.
    """
    large, sigma = size * SCALE, SCALE / 3
    reach = round(4 * sigma)
    pixels, margin = np.arange(-2.0, size + 2), _mirrored(size, 2)
    centres = (np.arange(large)[:, None] + 0.5) / SCALE - 0.5
    at_pixels = _spline(pixels - np.arange(size)[:, None]) @ margin
    between = _spline(pixels - centres) @ margin
    apart = np.arange(-reach, large + reach) - np.arange(large)[:, None]
    bell = np.where(abs(apart) <= reach, np.exp(-((apart / sigma) ** 2) / 2), 0.0)
    blur = bell / bell.sum(axis=1, keepdims=True) @ _mirrored(large, reach)
    return blur @ between @ np.linalg.inv(at_pixels)


def _mirrored(count: int, margin: int) -> Float[np.ndarray, "extended count"]:
    """Return the matrix that adds a mirrored margin to a row of pixels."""
    return np.pad(np.eye(count), ((margin, margin), (0, 0)), mode="symmetric")


def _spline(apart: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the cubic B-spline at some distances from its centre."""
    d = abs(apart)
    return np.where(d < 1, 2 / 3 - d**2 + d**3 / 2, np.clip(2 - d, 0, None) ** 3 / 6)


def distance_to_background(strokes: Strokes) -> Pages:
    """Return the distance of every pixel to the nearest background pixel; 0 on the background.

    The squared distance is separable: to the nearest one in the row, then over all rows. No row
    is visited that is farther away than the largest distance so far.
    """
    squared = np.where(strokes, np.inf, 0.0)
    for _ in range(2):
        best, step = squared.copy(), 1
        while step < best.shape[2] and step**2 < best.max():
            left, right = squared[:, :, :-step], squared[:, :, step:]
            np.minimum(best[:, :, step:], left + step**2, out=best[:, :, step:])
            np.minimum(best[:, :, :-step], right + step**2, out=best[:, :, :-step])
            step += 1
        squared = best.swapaxes(1, 2)
    return np.sqrt(squared)


def medial_axis(strokes: Strokes, distance: Pages) -> Strokes:
    """Return the pixels on the medial axes of strokes.

    Pixels are visited by distance, those with more neighbours first. The first pixels of all
    images are visited together, then the second, and so on.
    """
    padded = np.pad(strokes, ((0, 0), (1, 1), (1, 1)))
    _, height, width = padded.shape
    crowd = sum(np.roll(padded, step, (1, 2)).astype(np.int64) for step in _NEIGHBOURS)
    image, y, x = np.nonzero(padded)
    order = np.lexsort((-np.asarray(crowd)[image, y, x], distance[image, y - 1, x - 1], image))
    image, y, x = image[order], y[order], x[order]
    rank = np.arange(len(image)) - np.searchsorted(image, image)
    turns = np.split(
        ((image * height + y) * width + x)[np.argsort(rank, kind="stable")],
        np.cumsum(np.bincount(rank))[:-1],
    )
    offsets = np.array([dy * width + dx for dy, dx in _NEIGHBOURS])
    pixels, bits, keeps = padded.reshape(-1), 1 << np.arange(9), _kept_patterns()
    for turn in turns:
        pixels[turn] = keeps[pixels[turn[:, None] + offsets] @ bits]
    return padded[:, 1:-1, 1:-1]


@cache
def _kept_patterns() -> Bool[np.ndarray, "512"]:
    """Return, for each 3 by 3 pattern, whether its centre belongs to the medial axis.

    It does if it has one neighbour at most, or if its neighbours do not touch without it.
    """
    touching = nx.Graph(
        (p, q)
        for p in _NEIGHBOURS
        for q in _NEIGHBOURS
        if max(abs(p[0] - q[0]), abs(p[1] - q[1])) < 2
    )
    keeps = np.zeros(512, bool)
    for pattern in range(512):
        pixels = {p for bit, p in enumerate(_NEIGHBOURS) if pattern >> bit & 1}
        others = touching.subgraph(pixels - {(0, 0)})
        parts = nx.number_connected_components(others)
        keeps[pattern] = (0, 0) in pixels and (len(others) < 2 or parts != 1)
    return keeps
