r"""Estimates over images, with bootstrap intervals (method, §5).

Images are drawn with replacement, as many as there are, :math:`R` times; the 2.5 % and 97.5 %
quantiles of the statistic over the draws bound its interval. One :class:`Bootstrap` serves every
statistic on the same images, so that a difference is *paired*: each draw sees the same images on
both sides, and what they have in common cancels.

References:
    An introduction to the bootstrap (Efron and Tibshirani, 1993).
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fcfg.support.errors import InputError, check_integer, check_is


@dataclass(frozen=True)
class Bootstrap:
    """Which images are drawn: made once, and shared by all statistics on the same images.

    >>> Bootstrap(3, resamples=2).counts.sum(axis=1)
    array([3., 3.])

    Args:
        n: Number of images.
        resamples: Number of draws.
        seed: Of the draws.
    """

    n: int
    _: KW_ONLY
    resamples: int = 2000
    seed: int = 0

    def __post_init__(self) -> None:
        check_integer("bootstrap, n", self.n, 1, 10**7, do="give the number of images")
        check_integer("bootstrap, resamples", self.resamples, 2, 10**7, do="2000 is the default")
        check_integer("bootstrap, seed", self.seed, 0, 2**63 - 1, do="0 is the default")

    @cached_property
    def counts(self) -> NDArray[np.float64]:
        """How often each image is drawn, (resamples, n)."""
        rng = np.random.default_rng(self.seed)
        drawn = rng.multinomial(self.n, np.full(self.n, 1 / self.n), size=self.resamples)
        return drawn.astype(np.float64)


@dataclass(frozen=True, eq=False)
class Estimate:
    """A statistic of images, and what it would have been on other draws of them.

    >>> bootstrap = Bootstrap(4, resamples=100)
    >>> ours, theirs = mean([1, 2, 3, 4], bootstrap), mean([0, 1, 2, 3], bootstrap)
    >>> difference = ours - theirs
    >>> difference.value, difference.low, difference.high, difference.excludes_zero
    (1.0, 1.0, 1.0, True)
    """

    value: float  #: on the images themselves
    replicates: NDArray[np.float64] = field(repr=False)
    """On each draw, (resamples,); NaN where a draw has none, such as an AUROC of one class."""
    n: int  #: images

    @cached_property
    def _bounds(self) -> tuple[float, float]:
        low, high = np.nanquantile(self.replicates, [0.025, 0.975])
        return float(low), float(high)

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

    def __sub__(self, other: Estimate) -> Estimate:
        """The paired difference: both must come from one bootstrap on the same images."""
        check_is("difference", other, Estimate, "an Estimate on both sides")
        ours, theirs = (f"{len(e.replicates)} draws of {e.n} images" for e in (self, other))
        if ours != theirs:
            raise InputError(
                "difference",
                expected="two estimates of one bootstrap",
                got=f"{ours} and {theirs}",
                do="estimate both on the same images",
            )
        return Estimate(self.value - other.value, self.replicates - other.replicates, self.n)

    def scaled(self, factor: float) -> Estimate:
        """The same in another unit, such as 100 for an AUROC in percent."""
        return Estimate(self.value * factor, self.replicates * factor, self.n)

    def to_json(self) -> dict[str, float | int]:
        """Value, interval and number of images, for a result file."""
        return {"value": self.value, "low": self.low, "high": self.high, "n": self.n}


def mean(values: ArrayLike, bootstrap: Bootstrap) -> Estimate:
    """The mean over images.

    Args:
        values: One for each image, (n,).
        bootstrap: Of the same images.
    """
    return ratio(values, np.ones(bootstrap.n), bootstrap)


def ratio(numerators: ArrayLike, denominators: ArrayLike, bootstrap: Bootstrap) -> Estimate:
    """A ratio of sums over images, such as the error of all changed pixels over their change.

    >>> ratio([1.0, 3.0], [2.0, 6.0], Bootstrap(2)).value
    0.5

    Args:
        numerators: One for each image, (n,).
        denominators: One for each image, (n,), none negative and not all 0.
        bootstrap: Of the same images.
    """
    over, under = (
        check_column(name, column, bootstrap)
        for name, column in (("values", numerators), ("denominators", denominators))
    )
    if under.min() < 0 or under.sum() == 0:
        raise InputError(
            "denominators",
            expected="numbers of at least 0, not all of them 0",
            got=f"{under.min():g} to {under.max():g}",
            do="a ratio of nothing has no value; leave it out",
        )
    with np.errstate(invalid="ignore"):  # a draw of zeros alone is NaN, and ignored
        replicates = (bootstrap.counts @ over) / (bootstrap.counts @ under)
    return Estimate(float(over.sum() / under.sum()), replicates, bootstrap.n)


def check_column(name: str, values: ArrayLike, bootstrap: Bootstrap) -> NDArray[np.float64]:
    """Return one finite number for each image of a bootstrap, or refuse."""
    column = np.asarray(values, dtype=np.float64)
    if column.shape != (bootstrap.n,):
        raise InputError(
            name,
            expected=f"one number for each of {bootstrap.n} images",
            got=f"shape {column.shape}",
            do="make the bootstrap of the same images",
        )
    if not np.isfinite(column).all():
        raise InputError(
            name,
            expected="finite numbers",
            got=f"{int((~np.isfinite(column)).sum())} of {bootstrap.n} NaN or infinite",
            do="look for images that overflowed, and leave them out of both sides",
        )
    return column
