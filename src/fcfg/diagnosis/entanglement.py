"""Entanglement: which attributes come together, in the data and in the judge's readings.

An attribute that comes with another in the data is read with it, too, even by a perfect judge. If
the judge reads more of it than the data have, a change that it reports may not be one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from fcfg.causal.attributes import AttributeSpace, Categorical, Table
from fcfg.judge import AttributeJudge
from fcfg.metrics import Bootstrap, Estimate, correlation

Matrix: TypeAlias = dict[tuple[str, str], Estimate]


@dataclass(frozen=True, eq=False)
class Entanglement:
    """Correlations of attributes with each other and with what the judge reads.

    A categorical attribute counts as one variable for each level. Pairs with a constant variable
    have no correlation.
    """

    variables: tuple[str, ...]
    data: Matrix = field(repr=False)  #: of every variable with every other, in the data
    readings: Matrix = field(repr=False)  #: of a variable, first, with the reading of another

    def to_json(self) -> dict[str, Any]:
        """All numbers, for a file."""
        return {
            "variables": list(self.variables),
            **{
                name: [{"of": a, "with": b, **estimate.to_json()} for (a, b), estimate in found]
                for name, found in (
                    ("data", self.data.items()),
                    ("readings", self.readings.items()),
                )
            },
        }


def measure_entanglement(
    judge: AttributeJudge,
    images: Float[Tensor, "image channel height width"],
    attributes: Table,
    *,
    batch_size: int = 256,
) -> Entanglement:
    """Correlate the attributes of real images with each other and with the judge's scores.

    Args:
        judge: The judge.
        images: Real images.
        attributes: Their attributes, parsed.
        batch_size: Number of images per call of the judge.
    """
    space, scores = judge.space, judge.read(images, batch_size=batch_size).scores
    variables, bootstrap = tuple(_variables(space)), Bootstrap(len(images))
    values = space.encode(attributes).astype(np.float64)
    read = np.concatenate([scores[n].reshape(len(images), -1) for n in space.names], axis=1)

    def matrix(columns: NDArray[np.float64]) -> Matrix:
        found = {
            (a, b): correlation(columns[:, j], values[:, i], bootstrap, ranked=False)
            for i, a in enumerate(variables)
            for j, b in enumerate(variables)
        }
        return {pair: estimate for pair, estimate in found.items() if estimate is not None}

    return Entanglement(variables, matrix(values), matrix(read))


def _variables(space: AttributeSpace) -> Iterator[str]:
    for attribute in space:
        levels = attribute.levels if isinstance(attribute, Categorical) else ("",)
        yield from (f"{attribute.name}: {level}" if level else attribute.name for level in levels)
