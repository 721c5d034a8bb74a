r"""Kernel distance between two sets of features, and the interval of any distance between sets.

.. math:: d = \frac{\sum_{i \ne j} k(x_i, x_j)}{n(n-1)} + \frac{\sum_{i \ne j} k(y_i, y_j)}{m(m-1)}
    - \frac{2 \sum_{i, j} k(x_i, y_j)}{n m},
    \qquad k(x, y) = \Big(\frac{x^\top y}{D} + 1\Big)^3

for D features. It is 0 on average for sets of the same distribution, whatever their sizes, so it
may be negative: a Fréchet distance is larger the fewer images there are. It is called KID only
with Inception features.

References:
    Demystifying MMD GANs (Bińkowski et al., 2018). A general theory for jackknife variance
    estimation (Shao and Wu, 1989).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fcfg.metrics.frechet import check_features
from fcfg.metrics.intervals import Floats, Z

Distance: TypeAlias = Callable[[Floats, Floats], float]
_SUBSETS = 50


def kernel_distance(features: ArrayLike, others: ArrayLike) -> float:
    """Unbiased squared maximum mean discrepancy under a cubic kernel.

    >>> kernel_distance([[0.0], [2.0]], [[1.0], [1.0]])
    -19.0
    """
    x, y = check_features(features, others)
    own = sum(_apart(_kernel(some, some)) for some in (x, y))
    return float(own - 2 * _kernel(x, y).mean())


def _kernel(x: Floats, y: Floats) -> Floats:
    return (x @ y.T / x.shape[1] + 1) ** 3


def _apart(values: Floats) -> float:
    """Mean over pairs of different images."""
    n = len(values)
    return float((values.sum() - np.trace(values)) / (n * (n - 1)))


def with_margin(distance: Distance, features: Floats, others: Floats) -> tuple[float, float]:
    """Return a distance, and half of its 95 % interval.

    It is measured on random halves of both sets. As many images are left out as are kept, so the
    spread over halves is that of the distance itself.
    """
    rng = np.random.default_rng(0)

    def half(rows: Floats) -> NDArray[np.float64]:
        return rows[rng.permutation(len(rows))[: len(rows) // 2]]

    halves = [distance(half(features), half(others)) for _ in range(_SUBSETS)]
    return distance(features, others), Z * float(np.std(halves, ddof=1))
