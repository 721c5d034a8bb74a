r"""Signed shift: how much stronger or weaker an attribute appears than it should (method, §5).

.. math:: \mathrm{shift}_k = \frac1n \sum_i d_{ik} \,
    \frac{s_k(\tilde x_i) - s_k(\text{reference}_i)}{\text{scale}}

The reference is the unguided counterfactual of the same image or, in a known world, the true one.
:math:`d` points toward the counterfactual value, so that a positive shift means *more of what the
attribute already is*. For attributes without an intervention, the positive part is
**amplification** and the negative part **attenuation**.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from fcfg.metrics.intervals import Bootstrap, Estimate, Floats, check_column, mean
from fcfg.support.errors import InputError, check_among

Kind: TypeAlias = Literal["binary", "categorical", "continuous"]


def signed_shift(
    score: ArrayLike,
    reference: ArrayLike,
    direction: ArrayLike,
    bootstrap: Bootstrap,
    *,
    scale: float = 1.0,
) -> Estimate:
    """Mean shift toward the counterfactual value.

    >>> signed_shift([0.9, 0.2], [0.6, 0.3], [1, -1], Bootstrap(2)).value
    0.2

    Args:
        score: Judge's score of each image, (n,).
        reference: Judge's score of each reference image, (n,).
        direction: Direction of each image, (n,); see :func:`directions`.
        bootstrap: Bootstrap over the same images.
        scale: Unit of the result, such as the standard deviation of a factor.
    """
    if not (np.isfinite(scale) and scale > 0):
        raise InputError(
            "shift, scale", expected="a number above 0", got=scale, do="1 keeps the judge's unit"
        )
    s = check_column("score", score, bootstrap)
    r = check_column("reference", reference, bootstrap)
    d = check_column("direction", direction, bootstrap)
    return mean(d * (s - r) / scale, bootstrap)


def amplification(shift: Estimate) -> float:
    """The positive part of a shift."""
    return max(shift.value, 0.0)


def attenuation(shift: Estimate) -> float:
    """The negative part of a shift, as a positive number."""
    return max(-shift.value, 0.0)


def directions(kind: Kind, values: ArrayLike, factual: ArrayLike | None = None) -> Floats:
    r"""Direction of each image's counterfactual value, (n,).

    ===============  =============================================================
    ``binary``       :math:`2a - 1`
    ``categorical``  1; the score is that of the level, see :func:`level_scores`
    ``continuous``   the sign of the value minus the mean of the factual column
    ===============  =============================================================
    """
    check_among("attribute kind", kind, ("binary", "categorical", "continuous"))
    if kind == "categorical":
        return np.ones(len(np.asarray(values)))
    column = np.asarray(values, dtype=np.float64)
    if kind == "binary":
        return 2 * column - 1
    if factual is None:
        expected, got, do = "its factual column", "None", "pass factual="
        raise InputError("directions of a continuous attribute", expected=expected, got=got, do=do)
    return np.sign(column - np.asarray(factual, dtype=np.float64).mean())


def level_scores(scores: ArrayLike, levels: ArrayLike) -> Floats:
    """The score of each image's own level, (n,)."""
    columns = np.asarray(scores, dtype=np.float64)
    return np.take_along_axis(columns, np.asarray(levels, dtype=np.int64)[:, None], axis=1)[:, 0]
