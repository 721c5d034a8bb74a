r"""Strength: whether answers show a value as clearly as real images that have it.

.. math:: \mathrm{strength} = \frac1n \sum_i d_i \,
    \frac{r(\tilde x_i) - \overline r_{v_i}}{\mathrm{sd}_{v_i}}

:math:`r` is how clearly the judge reads the requested value :math:`v_i` (its log-odds; of a
continuous attribute, the value read minus the requested one), and mean and standard deviation are
those on real images that have the value. 0 is as clear as they are, and positive is clearer.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fcfg.metrics.intervals import Bootstrap, Estimate, Floats, check_column


def strength(
    read: ArrayLike,
    requested: ArrayLike,
    real: ArrayLike,
    values: ArrayLike,
    bootstrap: Bootstrap,
    direction: ArrayLike = 1.0,
) -> Estimate | None:
    """Mean gap between answers and real images with the same value, in their standard deviations.

    None if fewer than two real images have a value that was requested, or all read the same.

    >>> strength([3.0, 3.0, 2.0], [1, 1, 1], [0.0, 2.0, 4.0], [0, 1, 1], Bootstrap(3)).value
    -0.3333333333333333

    Args:
        read: Clarity of the requested value in each answer, to the judge, (n,).
        requested: Number of that value, (n,); the same for all of a continuous attribute.
        real: Clarity of its own value in each real image, (n,).
        values: Number of that value, (n,).
        bootstrap: Bootstrap over the same images.
        direction: Direction of each image, (n,): the sign of a continuous value's change.
    """
    columns = {"read": read, "requested": requested, "real": real, "values": values}
    r, v, s, own = (check_column(name, column, bootstrap) for name, column in columns.items())
    sides: list[tuple[Floats, Floats, Floats]] = []  # of each value
    for value in np.unique(v):
        has, asked = own == value, (v == value) * np.asarray(direction, np.float64)
        spread = s[has].std() if has.sum() > 1 else 0.0
        if spread == 0:
            return None
        sides.append((has.astype(np.float64), has * s, asked / spread))

    def gap(weights: Floats) -> Floats:
        total = np.zeros(len(weights))
        with np.errstate(invalid="ignore"):  # a resample without real images of a value is NaN
            for has, clear, asked in sides:
                mean = (weights @ clear) / (weights @ has)
                total += weights @ (asked * r) - mean * (weights @ asked)
        return total / weights.sum(axis=1)

    return bootstrap.estimate(gap)
