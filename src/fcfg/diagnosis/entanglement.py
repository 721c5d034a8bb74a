"""Entanglement: which attributes come together, in the data and in the judge's readings."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Float
from torch import Tensor, nn

from fcfg.causal.attributes import AttributeSpace, Table
from fcfg.judge import AttributeJudge
from fcfg.metrics import Bootstrap, Estimate, correlation


class Association(NamedTuple):
    """Correlation of a variable with another one, and with the judge's score of the other one."""

    data: Estimate
    reading: Estimate | None  #: None without a judge


#: By pair of variables; those of one attribute, and constant ones, have no association.
Associations: TypeAlias = dict[tuple[str, str], Association]


def measure_associations(
    space: AttributeSpace,
    attributes: Table,
    images: Float[Tensor, "image channel *size"],
    judge: nn.Module | None,
) -> Associations:
    """Correlate the attributes of real images with each other and with what a judge reads.

    A categorical attribute counts as one variable for each level, such as 'hair: grey'.
    """
    bootstrap = Bootstrap(len(images))
    variables = [(number, attribute.name) for attribute in space for number in attribute.numbers]
    values = space.encode(attributes).astype(np.float64)
    scores = None
    if isinstance(judge, AttributeJudge):
        read = judge.read(images).scores
        scores = np.concatenate([read[n].reshape(len(images), -1) for n in space.names], axis=1)
    found: Associations = {}
    for i, (a, owner) in enumerate(variables):
        for j, (b, other) in enumerate(variables):
            data, reading = (
                None
                if table is None
                else correlation(table[:, j], values[:, i], bootstrap, ranked=False)
                for table in (values, scores)
            )
            if owner != other and data is not None:
                found[a, b] = Association(data, reading)
    return found
