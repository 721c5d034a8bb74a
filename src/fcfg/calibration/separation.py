"""How well the judge tells the two values of an attribute apart: on answers, and on real images.

The criterion matches distributions, with one weight for both directions and with other attributes
in view. Where the judge is unsure of an attribute, as of age, its weight is uncertain, and answers
can show the attribute less clearly than real images do. :func:`sufficient_weight` raises it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from fcfg.calibration.criterion import Counts, Fine, Side, rounded
from fcfg.metrics import auroc_of_rows
from fcfg.pipeline.calibration import WeightEstimate

_UNSURE = 0.025  # share of resamples in which real images may be told apart better


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
