r"""Effectiveness: does the image show what the intervention asked for (method, §5)?

The judge's scores on counterfactual images are held against the *counterfactual* attributes. For
classes the measure is the area under the ROC curve, the share of pairs (one image with the class,
one without) whose scores are in order, ties counted half:

.. math:: \mathrm{AUROC} = P(s_1 > s_0) + \tfrac12 P(s_1 = s_0).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fcfg.metrics.intervals import Bootstrap, Estimate, check_column, mean
from fcfg.support.errors import InputError

#: Fewer images than this give an AUROC whose interval says nothing.
MIN_IMAGES = 200


def auroc(
    scores: ArrayLike, labels: ArrayLike, bootstrap: Bootstrap, *, few: bool = False
) -> Estimate:
    """Area under the ROC curve, from 0 to 1; 0.5 is chance.

    >>> auroc([0.1, 0.4, 0.4, 0.8], [0, 0, 1, 1], Bootstrap(4), few=True).value
    0.875

    Args:
        scores: Higher where the label is likelier 1, (n,).
        labels: 0 or 1, (n,), of both kinds.
        bootstrap: Of the same images.
        few: Allow fewer than :data:`MIN_IMAGES`.
    """
    _check_number(bootstrap, few)
    score = check_column("scores", scores, bootstrap)
    label = check_column("labels", labels, bootstrap)
    kinds = np.unique(label)
    if kinds.tolist() != [0, 1]:
        raise InputError(
            "labels",
            expected="both 0 and 1, and nothing else",
            got=f"{kinds[:5].tolist()}",
            do="an AUROC of one class has no value; choose images of both",
        )
    value, replicates = (
        _areas(score, label == 1, weights)
        for weights in (np.ones((1, bootstrap.n)), bootstrap.counts)
    )
    return Estimate(float(value[0]), replicates, bootstrap.n)


def macro_auroc(
    scores: ArrayLike, labels: ArrayLike, bootstrap: Bootstrap, *, few: bool = False
) -> Estimate:
    """AUROC of each level against the rest, averaged over the levels that occur.

    Args:
        scores: Of every level, (n, levels).
        labels: Which level it is, 0 to levels - 1, (n,), of at least two kinds.
        bootstrap: Of the same images.
        few: Allow fewer than :data:`MIN_IMAGES`.
    """
    _check_number(bootstrap, few)
    columns = np.asarray(scores, dtype=np.float64)
    if columns.ndim != 2 or columns.shape[1] < 2:
        raise InputError(
            "scores",
            expected="shape (n, levels), at least two levels",
            got=f"shape {columns.shape}",
            do="use auroc for one column",
        )
    for column in columns.T:
        check_column("scores", column, bootstrap)
    label = check_column("labels", labels, bootstrap)
    levels = np.unique(label)
    if len(levels) < 2 or not set(levels.tolist()) <= set(range(columns.shape[1])):
        raise InputError(
            "labels",
            expected=f"at least two levels, numbered 0 to {columns.shape[1] - 1}",
            got=f"{levels[:5].tolist()}",
            do="an AUROC of one class has no value; choose images of several",
        )
    value, replicates = (
        _macro(columns, label, weights)
        for weights in (np.ones((1, bootstrap.n)), bootstrap.counts)
    )
    return Estimate(float(value[0]), replicates, bootstrap.n)


def mean_absolute_error(values: ArrayLike, targets: ArrayLike, bootstrap: Bootstrap) -> Estimate:
    """Mean distance of what the judge reads from the counterfactual value, in its own unit.

    Args:
        values: What is read, (n,).
        targets: What was asked for, (n,).
        bootstrap: Of the same images.
    """
    read, asked = (
        check_column(name, column, bootstrap)
        for name, column in (("values", values), ("targets", targets))
    )
    return mean(np.abs(read - asked), bootstrap)


def correlation(scores: ArrayLike, values: ArrayLike, bootstrap: Bootstrap) -> Estimate | None:
    r"""How scores rise with what they are scores of, from -1 to 1; 0 is chance, None is no spread.

    .. math:: r = \frac{\sum_l \mathrm{cov}(s_l, v_l)}
        {\sqrt{\sum_l \mathrm{var}(s_l) \sum_l \mathrm{var}(v_l)}}

    Scores count by their ranks :math:`s_l`, as in an AUROC; unlike that, it says something of few
    images, and of attributes of all kinds.

    >>> correlation([0.1, 0.1, 0.9], [0, 0, 1], Bootstrap(3)).value
    1.0

    Args:
        scores: One for each image, (n,), or one for each of its levels, (n, levels).
        values: Of the same shape: what the attribute is, or 1 for the level that it is, else 0.
        bootstrap: Of the same images.
    """
    s, v = (np.asarray(c, dtype=np.float64).reshape(bootstrap.n, -1) for c in (scores, values))
    if any(np.ptp(columns, axis=0).max() == 0 for columns in (s, v)):
        return None
    s, v = ((columns - columns.mean(axis=0)) / np.ptp(columns) for columns in (_ranks(s), v))
    one, replicates = (
        _correlations(s, v, weights) for weights in (np.ones((1, bootstrap.n)), bootstrap.counts)
    )
    return Estimate(float(one[0]), replicates, bootstrap.n)


def _ranks(columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Places in order, column by column; equal numbers share theirs."""
    ranks = np.empty_like(columns)
    for level, column in enumerate(columns.T):
        _, place, counts = np.unique(column, return_inverse=True, return_counts=True)
        ranks[:, level] = (counts.cumsum() - counts / 2)[place]
    return ranks


def _correlations(
    scores: NDArray[np.float64], values: NDArray[np.float64], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """One for each row of weights (rows, n); NaN where a row has no spread."""
    share = weights / weights.sum(axis=1, keepdims=True)

    def covariance(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
        return share @ (a * b).sum(axis=1) - ((share @ a) * (share @ b)).sum(axis=1)

    spread = covariance(scores, scores) * covariance(values, values)
    return covariance(scores, values) / np.sqrt(np.where(spread > 1e-20, spread, np.nan))


def _check_number(bootstrap: Bootstrap, few: bool) -> None:
    if bootstrap.n < MIN_IMAGES and not few:
        raise InputError(
            "AUROC",
            expected=f"at least {MIN_IMAGES} images",
            got=f"{bootstrap.n}: too few images for a metric",
            do="evaluate more images, or pass few=True",
        )


def _areas(
    scores: NDArray[np.float64], is_one: NDArray[np.bool_], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """AUROC for each row of weights (rows, n); NaN where a row has one class."""
    order = np.argsort(scores, kind="stable")
    ranked, is_one, weights = scores[order], is_one[order], weights[:, order]
    starts = np.flatnonzero(np.r_[True, ranked[1:] > ranked[:-1]])  # of runs of equal scores
    ones, zeros = (np.add.reduceat(weights * kind, starts, axis=1) for kind in (is_one, ~is_one))
    below = zeros.cumsum(axis=1) - zeros / 2
    with np.errstate(invalid="ignore"):
        return (ones * below).sum(axis=1) / (ones.sum(axis=1) * zeros.sum(axis=1))


def _macro(
    scores: NDArray[np.float64], labels: NDArray[np.float64], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Mean of the levels' areas for each row of weights; NaN where a row has one level."""
    areas = np.stack(
        [_areas(column, labels == level, weights) for level, column in enumerate(scores.T)]
    )
    with np.errstate(invalid="ignore"):
        return np.nansum(areas, axis=0) / np.isfinite(areas).sum(axis=0)
