r"""Estimates over images, with bootstrap intervals (method, §5).

The :math:`n` images are resampled with replacement :math:`R` times; the 2.5 % and 97.5 % quantiles
of the statistic over the resamples bound its interval. One :class:`Bootstrap` serves all
statistics on the same images, which makes differences *paired*: both sides see the same images in
every resample, and their common variation cancels. Where several images are of one patient or
person, the groups are resampled, each with all of its images.

A share of 1 is 1 in every resample, though it was seen in :math:`n` images alone, and so is an
AUROC of 1. Such an estimate at the ceiling, or at 0, has the interval of Wilson instead. In a
difference, it adds to the interval of the resamples in squares, as Newcombe's does.

References:
    An introduction to the bootstrap (Efron and Tibshirani, 1993). Probable inference, the law of
    succession, and statistical inference (Wilson, 1927). Interval estimation for the difference
    between independent proportions (Newcombe, 1998).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fcfg.support.errors import InputError, check_integer, check_is

Floats: TypeAlias = NDArray[np.float64]
Z = 1.959963984540054  #: the 97.5 % quantile of the standard normal distribution


@dataclass(frozen=True)
class Bootstrap:
    """Resamples of images, shared by all statistics on the same images.

    >>> Bootstrap(3, resamples=2).counts.sum(axis=1)
    array([3., 3.])
    """

    n: int  #: number of images
    _: KW_ONLY
    resamples: int = 2000
    seed: int = 0
    groups: Sequence[int] | None = None
    """Number of the patient or person of each image, (n,): groups are resampled, not images."""

    def __post_init__(self) -> None:
        check_integer("bootstrap, n", self.n, 1, 10**7, do="give the number of images")
        check_integer("bootstrap, resamples", self.resamples, 2, 10**7, do="2000 is the default")
        check_integer("bootstrap, seed", self.seed, 0, 2**63 - 1, do="0 is the default")
        if self.groups is not None and len(self.groups) != self.n:
            expected, do = f"one for each of {self.n} images", "number the groups of all images"
            got = f"{len(self.groups)}"
            raise InputError("bootstrap, groups", expected=expected, got=got, do=do)

    @cached_property
    def owners(self) -> NDArray[np.int64]:
        """Group of each image, (n,), in the order of their first images; or each has its own."""
        if self.groups is None:
            return np.arange(self.n)
        _, first, own = np.unique(self.groups, return_index=True, return_inverse=True)
        return np.argsort(np.argsort(first))[own]

    @cached_property
    def counts(self) -> Floats:
        """Number of times each image occurs in each resample, (resamples, n), image by image."""
        rng, count = np.random.default_rng(self.seed), int(self.owners.max()) + 1
        drawn = rng.multinomial(count, np.full(count, 1 / count), size=self.resamples)
        drawn = drawn if self.groups is None else drawn[:, self.owners]
        return drawn.astype(np.float64, order="F")

    @cached_property
    def sizes(self) -> Floats:
        """Number of images of each resample, (resamples,)."""
        return self.counts.sum(axis=1)

    def disjoint_pairs(self, is_one: NDArray[np.bool_]) -> int:
        """Number of pairs of an image of these and another one that share no group."""
        one, zero = np.unique(self.owners[is_one]), np.unique(self.owners[~is_one])
        return max(1, min(len(one), len(zero), len(np.union1d(one, zero)) // 2))

    def estimate(self, statistic: Callable[[Floats], Floats]) -> Estimate:
        """Evaluate a statistic on the images and on all resamples.

        Args:
            statistic: Function from weights of images, (rows, n), to one value per row.
        """
        value = statistic(np.ones((1, self.n)))
        return Estimate(float(value[0]), statistic(self.counts), self.n)


@dataclass(frozen=True, eq=False)
class Estimate:
    """A statistic of images, with its values on bootstrap resamples.

    >>> bootstrap = Bootstrap(4, resamples=100)
    >>> ours, theirs = mean([1, 2, 3, 4], bootstrap), mean([0, 1, 2, 3], bootstrap)
    >>> difference = ours - theirs
    >>> difference.value, difference.low, difference.high, difference.excludes_zero
    (1.0, 1.0, 1.0, True)
    """

    value: float  #: value on the images themselves
    replicates: Floats = field(repr=False)
    """Value on each resample, (resamples,); NaN if undefined, such as an AUROC of one class."""
    n: int  #: number of images
    beyond: tuple[float, float] = field(default=(0.0, 0.0), repr=False)
    """How far below and above the value its interval reaches by what no resample shows."""

    @cached_property
    def _bounds(self) -> tuple[float, float]:
        low, high = map(float, np.nanquantile(self.replicates, [0.025, 0.975]))
        below, above = self.beyond
        if below or above:
            low = self.value - math.hypot(max(self.value - low, 0.0), below)
            high = self.value + math.hypot(max(high - self.value, 0.0), above)
        return low, high

    @property
    def low(self) -> float:
        """Lower end of the 95 % interval."""
        return self._bounds[0]

    @property
    def high(self) -> float:
        """Upper end of the 95 % interval."""
        return self._bounds[1]

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval lies on one side of zero."""
        return self.low > 0 or self.high < 0

    @property
    def p_value(self) -> float:
        """Two-sided p-value of zero, by the normal distribution with the spread over resamples.

        Resamples can be counted only down to one in 2,000, too coarse for many comparisons.
        """
        if self.value == 0:
            return 1.0
        toward = self.beyond[0] if self.value > 0 else self.beyond[1]
        spread = math.hypot(float(np.nanstd(self.replicates, ddof=1)), toward / Z)
        return math.erfc(abs(self.value) / spread / math.sqrt(2)) if spread else 0.0

    def __sub__(self, other: Estimate) -> Estimate:
        """The paired difference of two estimates from the same bootstrap."""
        check_is("difference", other, Estimate, "an Estimate on both sides")
        ours, theirs = (f"{len(e.replicates)} draws of {e.n} images" for e in (self, other))
        if ours != theirs:
            expected, do = "two estimates of one bootstrap", "estimate both on the same images"
            raise InputError("difference", expected=expected, got=f"{ours} and {theirs}", do=do)
        (below, above), (under, over) = self.beyond, other.beyond
        beyond = math.hypot(below, over), math.hypot(above, under)
        value = self.value - other.value
        return Estimate(value, self.replicates - other.replicates, self.n, beyond)

    def __abs__(self) -> Estimate:
        distance = Estimate(abs(self.value), np.abs(self.replicates), self.n)
        below, above = self.beyond if self.value >= 0 else self.beyond[::-1]
        if self.low < 0 < self.high:  # no distance is below 0
            spread = max(distance.value - distance.low, 0.0)
            below, above = math.sqrt(distance.value**2 - spread**2), max(below, above)
        return replace(distance, beyond=(below, above)) if any(self.beyond) else distance

    def scaled(self, factor: float) -> Estimate:
        """Multiply by a factor above 0, such as 100 for an AUROC in percent."""
        below, above = self.beyond
        beyond = below * factor, above * factor
        return Estimate(self.value * factor, self.replicates * factor, self.n, beyond)

    def off_ceiling(self, count: int) -> Estimate:
        """Give a share of 0 or 1 the interval of Wilson, for this number of independent trials."""
        if self.value not in (0.0, 1.0):
            return self
        low, high = wilson(self.value, count)
        return replace(self, beyond=(self.value - low, high - self.value))

    def to_json(self) -> dict[str, float | int]:
        """Value, interval and number of images, for a result file."""
        return {"value": self.value, "low": self.low, "high": self.high, "n": self.n}


def mean(values: ArrayLike, bootstrap: Bootstrap) -> Estimate:
    """The mean over images."""
    column = check_column("values", values, bootstrap)
    replicates = (bootstrap.counts @ column) / bootstrap.sizes
    return Estimate(float(column.sum() / bootstrap.n), replicates, bootstrap.n)


def wilson(share: float, n: int) -> tuple[float, float]:
    r"""The ends of Wilson's 95 % interval of a share :math:`p` of n trials.

    .. math:: \frac{p + z^2 / 2n \pm z \sqrt{p (1 - p) / n + z^2 / 4n^2}}{1 + z^2 / n}
    """
    middle = share + Z**2 / (2 * n)
    reach = Z * math.sqrt(share * (1 - share) / n + Z**2 / (4 * n**2))
    low, high = ((middle + sign * reach) / (1 + Z**2 / n) for sign in (-1, 1))
    return max(low, 0.0), min(high, 1.0)


def holm(p_values: Sequence[float], level: float = 0.05) -> list[bool]:
    """Which of several hypotheses are rejected, with at most this chance of a single false one.

    The smallest p-value is compared with level / m, the next with level / (m - 1), and so on until
    one is too large (A simple sequentially rejective multiple test procedure, Holm, 1979).

    >>> holm([0.04, 0.01, 0.03])
    [False, True, False]
    """
    rejected = [False] * len(p_values)
    for done, number in enumerate(np.argsort(p_values, kind="stable")):
        if p_values[number] > level / (len(p_values) - done):
            break
        rejected[number] = True
    return rejected


def average(estimates: Iterable[Estimate | None]) -> Estimate | None:
    """The mean of those estimates there are, on the same images; None if there are none."""
    given = [estimate for estimate in estimates if estimate is not None]
    if not given:
        return None
    value = float(np.mean([estimate.value for estimate in given]))
    sides = zip(*(estimate.beyond for estimate in given), strict=True)
    below, above = (float(np.mean(side)) for side in sides)  # at least as wide as in squares
    replicates = np.mean([e.replicates for e in given], axis=0)
    return Estimate(value, replicates, given[0].n, (below, above))


def ratio(numerators: ArrayLike, denominators: ArrayLike, bootstrap: Bootstrap) -> Estimate:
    """A ratio of sums over images, such as the error on changed pixels over their change.

    >>> ratio([1.0, 3.0], [2.0, 6.0], Bootstrap(2)).value
    0.5

    Denominators are not negative, and not all 0.
    """
    over = check_column("values", numerators, bootstrap)
    under = check_column("denominators", denominators, bootstrap)
    if under.min() < 0 or under.sum() == 0:
        expected = "numbers of at least 0, not all of them 0"
        got = f"{under.min():g} to {under.max():g}"
        do = "a ratio of nothing has no value; leave it out"
        raise InputError("denominators", expected=expected, got=got, do=do)
    with np.errstate(invalid="ignore"):  # a resample of zeros only is NaN, and ignored
        replicates = (bootstrap.counts @ over) / (bootstrap.counts @ under)
    return Estimate(float(over.sum() / under.sum()), replicates, bootstrap.n)


def check_column(name: str, values: ArrayLike, bootstrap: Bootstrap) -> Floats:
    """Return finite numbers, one for each image of a bootstrap, or refuse them."""
    column = np.asarray(values, dtype=np.float64)
    if column.shape != (bootstrap.n,):
        expected = f"one number for each of {bootstrap.n} images"
        do = "make the bootstrap of the same images"
        raise InputError(name, expected=expected, got=f"shape {column.shape}", do=do)
    if not np.isfinite(column).all():
        got = f"{int((~np.isfinite(column)).sum())} of {bootstrap.n} NaN or infinite"
        do = "look for images that overflowed, and exclude them from both sides"
        raise InputError(name, expected="finite numbers", got=got, do=do)
    return column
