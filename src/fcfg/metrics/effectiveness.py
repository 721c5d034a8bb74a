r"""Effectiveness: whether images show the values that the intervention set (method, §5).

The judge's scores on counterfactual images are compared with the *counterfactual* attributes. For
classes the measure is the area under the ROC curve: the probability that an image with the class
has a higher score than an image without it, with ties counted half:

.. math:: \mathrm{AUROC} = P(s_1 > s_0) + \tfrac12 P(s_1 = s_0).

If every image with the class has a higher score than every image without it, so they have in every
resample, and the bootstrap has no width. The interval is then Wilson's, of as many pairs of such
images as there can be without an image, or a patient or person, in common. The area is a mean over
all ways to form such pairs, and by Hoeffding's argument no more uncertain than a share of this
number of independent trials. It is wide rather than narrow.

References:
    Probability inequalities for sums of bounded random variables (Hoeffding, 1963), §5.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fcfg.metrics.intervals import Bootstrap, Estimate, Floats, check_column, mean
from fcfg.support.errors import InputError

#: Smallest number of images for an AUROC; its interval is too wide for fewer.
MIN_IMAGES = 200


def auroc(
    scores: ArrayLike, labels: ArrayLike, bootstrap: Bootstrap, *, few: bool = False
) -> Estimate:
    """Area under the ROC curve, from 0 to 1; 0.5 is chance.

    With scores of several levels it is that of each level against the others, averaged over the
    levels that occur.

    >>> auroc([0.1, 0.4, 0.4, 0.8], [0, 0, 1, 1], Bootstrap(4), few=True).value
    0.875

    Args:
        scores: Scores that rise with the probability of label 1, (n,), or of each level,
            (n, levels).
        labels: Level of each image, 0 to levels - 1, (n,); at least two must occur.
        bootstrap: Bootstrap over the same images.
        few: Whether to allow fewer than :data:`MIN_IMAGES`.
    """
    if bootstrap.n < MIN_IMAGES and not few:
        got = f"{bootstrap.n}: too few images for a metric"
        do = "evaluate more images, or pass few=True"
        raise InputError("AUROC", expected=f"at least {MIN_IMAGES} images", got=got, do=do)
    given = np.asarray(scores, dtype=np.float64)
    if given.ndim == 2 and given.shape[1] < 2:
        expected, do = "shape (n, levels), at least two levels", "give one column as (n,)"
        raise InputError("scores", expected=expected, got=f"shape {given.shape}", do=do)
    levels = dict(enumerate(given.T)) if given.ndim == 2 else {1: given}
    for column in levels.values():
        check_column("scores", column, bootstrap)
    label, last = check_column("labels", labels, bootstrap), max(levels)
    found = np.unique(label).tolist()
    if len(found) < 2 or not set(found) <= set(range(last + 1)):
        expected = f"at least two levels, numbered 0 to {last}"
        do = "an AUROC of one class has no value; choose images of several"
        raise InputError("labels", expected=expected, got=f"{found[:5]}", do=do)

    def average(weights: Floats) -> Floats:
        areas = [auroc_of_rows(column, label == k, weights) for k, column in levels.items()]
        with np.errstate(invalid="ignore"):  # a row of weights with a single level has none
            return np.nansum(areas, axis=0) / np.isfinite(areas).sum(axis=0)

    pairs = min(bootstrap.disjoint_pairs(label == k) for k in levels if k in found)
    return bootstrap.estimate(average).off_ceiling(pairs)


def auroc_of_rows(scores: Floats, is_one: NDArray[np.bool_], weights: Floats) -> Floats:
    """AUROC for each row of weights of the images, (rows, n); NaN where it has a single class."""
    of_image = weights.T  # one image a row, as resamples are laid out: whole rows are fast to pick
    one, zero = np.flatnonzero(is_one), np.flatnonzero(~is_one)
    zero = zero[np.argsort(scores[zero], kind="stable")]
    below = np.zeros((len(zero) + 1, len(weights)))  # weight of the first zeros
    for k, image in enumerate(zero):  # row by row: a cumulative sum over images goes by columns
        np.add(below[k], of_image[image], out=below[k + 1])
    first, last = (np.searchsorted(scores[zero], scores[one], side) for side in ("left", "right"))
    ones = of_image[one]
    beaten = np.einsum("ij,ij->j", ones, below[first] + below[last]) / 2  # of equal scores, half
    with np.errstate(invalid="ignore"):
        return beaten / (ones.sum(axis=0) * below[-1])


def mean_absolute_error(values: ArrayLike, targets: ArrayLike, bootstrap: Bootstrap) -> Estimate:
    """Mean absolute error of the judge's predictions, in the unit of the attribute."""
    predicted = check_column("values", values, bootstrap)
    target = check_column("targets", targets, bootstrap)
    return mean(np.abs(predicted - target), bootstrap)


def correlation(
    scores: ArrayLike, values: ArrayLike, bootstrap: Bootstrap, *, ranked: bool = True
) -> Estimate | None:
    r"""Correlation of scores with values, from -1 to 1; None if either is constant.

    .. math:: r = \frac{\sum_l \mathrm{cov}(s_l, v_l)}
        {\sqrt{\sum_l \mathrm{var}(s_l) \sum_l \mathrm{var}(v_l)}}

    :math:`s_l` are the ranks of the scores, as in an AUROC, or the scores themselves. Unlike an
    AUROC it is meaningful for few images and for attributes of every kind.

    >>> correlation([0.1, 0.1, 0.9, 0.9], [0, 0, 1, 1], Bootstrap(4)).value
    1.0

    Args:
        scores: Score of each image, (n,), or of each level, (n, levels).
        values: Values of the attribute, or indicators of its levels, in the same shape.
        bootstrap: Bootstrap over the same images.
        ranked: Whether to replace scores by their ranks.
    """
    s, v = (np.asarray(c, dtype=np.float64).reshape(bootstrap.n, -1) for c in (scores, values))
    if any(np.ptp(columns, axis=0).max() == 0 for columns in (s, v)):
        return None
    s = _ranks(s) if ranked else s
    s, v = ((columns - columns.mean(axis=0)) / np.ptp(columns) for columns in (s, v))
    return bootstrap.estimate(lambda weights: _correlations(s, v, weights))


def _ranks(columns: Floats) -> Floats:
    """Ranks within each column; ties share their mean rank."""
    ranks = np.empty_like(columns)
    for level, column in enumerate(columns.T):
        _, inverse, counts = np.unique(column, return_inverse=True, return_counts=True)
        ranks[:, level] = (counts.cumsum() - counts / 2)[inverse]
    return ranks


def _correlations(scores: Floats, values: Floats, weights: Floats) -> Floats:
    """Correlation for each row of weights (rows, n); NaN where a row has no spread."""
    columns = [*_products(scores, values), np.ones(len(scores)), scores, values]
    sums = weights @ np.column_stack(columns)  # all at once: the weights are read a single time
    squares, means = np.split(sums / sums[:, 3:4], [4], axis=1)
    covariances = squares[:, :3].T - _products(*np.split(means, 2, axis=1))
    spread = covariances[0] * covariances[1]
    return covariances[2] / np.sqrt(np.where(spread > 1e-20, spread, np.nan))


def _products(one: Floats, other: Floats) -> Floats:
    """Products of two tables of columns, row by row: each with itself, then with the other."""
    return np.stack([(a * b).sum(axis=1) for a, b in ((one, one), (other, other), (one, other))])
