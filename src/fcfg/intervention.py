"""What ``do`` may say of one attribute, and the column it stands for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from fcfg.attributes import AbstractAttribute, Column
from fcfg.errors import InputError

Intervention: TypeAlias = ArrayLike | Callable[[Column], ArrayLike]


def intervened(attribute: AbstractAttribute, value: Intervention, factual: Column) -> Column:
    """The column of a target: a value for all rows, a value for each, or a function.

    >>> from fcfg.attributes import Binary
    >>> intervened(Binary("smiling"), lambda smiling: 1 - smiling, np.array([0, 1, 1]))
    array([1, 0, 0])

    Args:
        attribute: The target.
        value: What it is set to; a function is given a copy of the factual column.
        factual: What it was.
    """
    subject = f"intervention on '{attribute.name}'"
    if callable(value):
        value = value(factual.copy())
    try:
        column = attribute.parse(value)
    except InputError as error:
        raise error.about(subject, "correct what do= gives, or clip it") from error
    if np.ndim(value) == 0:
        column = np.repeat(column, len(factual))
    if len(column) != len(factual):
        raise InputError(
            subject,
            expected=f"one value or {len(factual)}",
            got=len(column),
            do="give one value for each row",
        )
    return column
