r"""The criterion of a calibration: the judge should read what it reads on real images.

.. math:: J(\omega) = \frac{1}{n} \sum_d n_d \left( D_d(\omega)
    + \frac{1}{4 \sqrt\pi} \sum_g \frac{n_{dg}}{n_d K} \, m_{dg}(\omega)^2 \right)

:math:`D_d` is the energy distance between two distributions of the judge's reading: on
counterfactuals that set the attribute to value d, and on real images that have it, in standard
deviations of the latter. :math:`m_{dg}` is the mean shift of the reading of an attribute that
should stay, in standard deviations of the real reading, over the images g that have one value of
it; there are K such attributes. A mean over both values would miss that all faces look older.
What changes in one image and not on average is mostly noise of the judge, and costs nothing: the
square of the mean is estimated by products of two different images.

The energy distance compares whole distributions, so a mean that fits with too small a spread does
not win. It grows linearly with outliers, and it is smooth and convex around its minimum, where the
distance of means or the Wasserstein distance have a corner. A shift of :math:`\delta` standard
deviations costs about :math:`\delta^2 / \sqrt\pi`, four times as much as the same off-target
shift: a weaker push towards the target is a poor way to keep other attributes.

Each image's readings are interpolated linearly between the measured weights, the criterion is
evaluated on a fine grid, and its minimum is the weight. Images are resampled for the interval.

Matching distributions, with one weight for both directions and with other attributes in view, can
leave answers that show an attribute less clearly than real images do: where the judge is unsure of
it, as of age, the weight is uncertain. :func:`sufficient_weight` raises it.

References:
    Energy statistics: a class of statistics based on distances (Székely and Rizzo, 2013).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from fcfg.metrics import auroc_of_rows
from fcfg.pipeline.calibration import WeightEstimate

_FINE = 60  # intervals of the fine grid
_OTHERS = 0.25  # cost of a shift of what should stay, relative to one of the target
_UNSURE = 0.025  # share of resamples in which real images may be told apart better

Weights: TypeAlias = Float[np.ndarray, "weights"]  # measured, ascending
Fine: TypeAlias = Float[np.ndarray, "fine"]  # to evaluate
Counts: TypeAlias = Float[np.ndarray, "rows image"]  # how often an image counts, in each resample
Values: TypeAlias = Float[np.ndarray, "fine rows"]  # of the criterion, or of a part of it


@dataclass(frozen=True, eq=False)
class Shifts:
    """What happens to the reading of an attribute that should stay, on images with one value."""

    rows: NDArray[np.int64]  #: numbers of these images
    values: Float[np.ndarray, "weights image"]  #: in standard deviations of the real reading

    def mean_square(self, weights: Weights, at: Fine, counts: Counts) -> Values:
        """Return the square of the mean shift, by products of two different images."""
        own, values = counts[:, self.rows], interpolated(weights, self.values, at)
        pairs = (values @ own.T) ** 2 - values**2 @ own.T
        n = own.sum(axis=1)
        return pairs / (n * (n - 1)).clip(1)


@dataclass(frozen=True, eq=False)
class Side:
    """The readings of one direction: counterfactuals with a value, and real images that have it.

    Readings are in standard deviations of those on real images.
    """

    weights: Weights
    rows: NDArray[np.int64] = field(repr=False)  #: numbers of the images with counterfactuals
    read: Float[np.ndarray, "weights image"] = field(repr=False)
    others: tuple[Shifts, ...] = field(repr=False)  #: of what should stay
    real_rows: NDArray[np.int64] = field(repr=False)  #: numbers of the real images
    real: Float[np.ndarray, "real"] = field(repr=False)
    sd: float  #: that standard deviation, in the judge's unit

    def read_at(self, at: Fine) -> Float[np.ndarray, "fine image"]:
        """Return the readings between the measured weights."""
        return interpolated(self.weights, self.read, at)

    def terms(self, at: Fine, counts: Counts) -> Terms:
        """Evaluate the parts of the criterion at some weights."""
        own, real = counts[:, self.rows], counts[:, self.real_rows]
        distance = np.stack([energy_distance(x, self.real, own, real) for x in self.read_at(at)])
        squares = [len(o.rows) * o.mean_square(self.weights, at, counts) for o in self.others]
        size = max(1, sum(len(other.rows) for other in self.others))
        off_target = np.sum([0 * distance, *squares], axis=0) / size
        return Terms(len(self.rows), distance, off_target)


@dataclass(frozen=True, eq=False)
class Terms:
    """The parts of the criterion of one direction, for every row of counts of the images."""

    images: int
    distance: Values
    off_target: Values  #: mean square shift of what should stay


def energy_distance(
    x: Float[np.ndarray, "n"],
    y: Float[np.ndarray, "m"],
    x_weights: Float[np.ndarray, "rows n"],
    y_weights: Float[np.ndarray, "rows m"],
) -> Float[np.ndarray, "rows"]:
    r"""Return the energy distance of weighted samples, :math:`2 \int (F - G)^2`."""
    values = np.concatenate([x, y])
    order = values.argsort()
    x_share, y_share = (w / w.sum(axis=1, keepdims=True).clip(1) for w in (x_weights, y_weights))
    gaps = np.concatenate([x_share, -y_share], axis=1)[:, order].cumsum(axis=1)[:, :-1]
    return 2 * gaps**2 @ np.diff(values[order])


def criterion(terms: Sequence[Terms]) -> Values:
    """Return J over some directions."""
    return over_directions(terms, lambda t: t.distance + _OTHERS * t.off_target / np.sqrt(np.pi))


def over_directions(terms: Sequence[Terms], part: Callable[[Terms], Values]) -> Values:
    """Return the mean of a part over directions, weighted by their images."""
    images = sum(term.images for term in terms)
    return np.sum([term.images / images * part(term) for term in terms], axis=0)


def choose_weights(
    sides: Sequence[Side], counts: Counts
) -> tuple[WeightEstimate, list[WeightEstimate]]:
    """Return the weight with the smallest criterion over all directions, and that of each."""
    fine = np.linspace(sides[0].weights[0], sides[0].weights[-1], _FINE + 1)
    counts = np.concatenate([np.ones((1, counts.shape[1])), counts])
    terms = [side.terms(fine, counts) for side in sides]

    def estimate(terms: Sequence[Terms]) -> WeightEstimate:
        found = lowest(fine, criterion(terms))
        low, high = np.quantile(found[1:], [0.025, 0.975])
        return WeightEstimate(weight=rounded(found[0]), low=rounded(low), high=rounded(high))

    return estimate(terms), [estimate([term]) for term in terms]


def lowest(
    weights: Weights, values: Float[np.ndarray, "weights rows"]
) -> Float[np.ndarray, "rows"]:
    """Return the weight with the smallest value of each row, by the parabola around it."""
    best = values.argmin(axis=0)
    found = weights[best].copy()
    (inner,) = ((best > 0) & (best < len(weights) - 1)).nonzero()
    x = [weights[best[inner] + i] for i in (-1, 0, 1)]
    f = [values[best[inner] + i, inner] for i in (-1, 0, 1)]
    left, right = (x[1] - x[0]) * (f[1] - f[2]), (x[1] - x[2]) * (f[1] - f[0])
    found[inner] -= ((x[1] - x[0]) * left - (x[1] - x[2]) * right) / (left - right) / 2
    return found


def interpolated(
    weights: Weights, values: Float[np.ndarray, "weights image"], at: Fine
) -> Float[np.ndarray, "fine image"]:
    """Return the values of every image between the measured weights."""
    return np.stack([np.interp(at, weights, column) for column in values.T], axis=1)


def rounded(number: float) -> float:
    """Round to three digits."""
    return float(f"{number:.3g}")


@dataclass(frozen=True, eq=False)
class Separation:
    """AUROC of the judge's log-odds of value 1, for every row of counts of the images."""

    real: Float[np.ndarray, "rows"]
    answers: Float[np.ndarray, "fine rows"]

    @classmethod
    def of(cls, sides: Sequence[Side], at: Fine, counts: Counts) -> Separation:
        """Evaluate answers at some weights, and real images, by the directions to 0 and to 1."""
        zero, one = sides
        is_real_one = np.repeat([False, True], [len(zero.real), len(one.real)])
        is_one = np.repeat([False, True], [len(zero.rows), len(one.rows)])
        # Readings are log-odds of the value that an image should have.
        real = np.concatenate([-zero.sd * zero.real, one.sd * one.real])
        low, high = (side.sd * side.read_at(at) for side in (zero, one))
        real_counts = counts[:, np.concatenate([zero.real_rows, one.real_rows])]
        own = counts[:, np.concatenate([zero.rows, one.rows])]
        readings = np.concatenate([-low, high], axis=1)
        answers = np.stack([auroc_of_rows(reading, is_one, own) for reading in readings])
        return cls(auroc_of_rows(real, is_real_one, real_counts), answers)

    @property
    def is_sufficient(self) -> NDArray[np.bool_]:
        """Whether answers at a weight are told apart as well as real images, in most resamples.

        The first row of counts is that of the images themselves, and no resample.
        """
        ahead = (self.answers - self.real)[:, 1:]
        return np.nanquantile(ahead, _UNSURE, axis=1) >= 0


def sufficient_weight(
    sides: Sequence[Side], counts: Counts, chosen: WeightEstimate, own: Sequence[WeightEstimate]
) -> WeightEstimate:
    """Return the smallest weight, from the chosen one on, at which answers are clear enough.

    It is at most the largest weight that a direction may need by itself, by its ``own`` estimate.
    """
    most = max(chosen.weight, *(estimate.high for estimate in own))
    at = np.linspace(chosen.weight, most, 41)
    counts = np.concatenate([np.ones((1, counts.shape[1])), counts])
    enough = Separation.of(sides, at, counts).is_sufficient
    found = float(at[enough.argmax()]) if enough.any() else most
    return chosen.model_copy(update={"weight": rounded(found)})
