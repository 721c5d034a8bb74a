"""Codes of categorical values, and what strings and numbers mean as values.

A plain number is ambiguous where levels are numbers themselves: among '1', '2', '3', is 1 the
first level or the second? Columns made by this package are not ambiguous: they carry their levels
through slices and arithmetic. Some functions, such as ``np.concatenate`` and ``np.where``, lose
them and return a plain column.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fcfg.support.errors import InputError, short

#: Strings for the values of a binary attribute, in lower case; any case is read.
BINARY_TEXTS: dict[str, int] = {
    **dict.fromkeys(("0", "0.0", "false", "no"), 0),
    **dict.fromkeys(("1", "1.0", "true", "yes"), 1),
}


def binary_code(text: str, levels: Sequence[str] = ()) -> int | None:
    """Return the value of a binary attribute that a string means; None if it means none.

    >>> binary_code("True"), binary_code("F", ["F", "M"]), binary_code("2")
    (1, 0, None)
    """
    return levels.index(text) if text in levels else BINARY_TEXTS.get(text.lower())


class Codes(np.ndarray[Any, np.dtype[np.int64]]):
    """Positions in a list of levels, with the list."""

    levels: tuple[str, ...]  #: empty if they were lost

    @classmethod
    def of(cls, positions: NDArray[Any], levels: tuple[str, ...]) -> Codes:
        """Return positions with their levels; memory is shared with ``positions``."""
        codes = positions.astype(np.int64, copy=False).view(cls)
        codes.levels = levels
        return codes

    def __array_finalize__(self, obj: object) -> None:
        """Copy the levels of the array that this one is made from."""
        self.levels = getattr(obj, "levels", ())


def levels_of(values: object) -> tuple[str, ...]:
    """Return the levels that a column carries; empty for other values.

    A comparison of codes is a column of booleans and carries no levels.
    """
    return values.levels if isinstance(values, Codes) and values.dtype.kind == "i" else ()


def are_other_numbers(levels: tuple[str, ...]) -> bool:
    """Whether a number could mean one level by its name and another by its position."""
    return any(number(level) not in (None, position) for position, level in enumerate(levels))


def checked_levels(name: str, given: object, count: int | None = None) -> tuple[str, ...]:
    """Return the levels of an attribute, or refuse them.

    If their number is given, levels may not be numbers other than their positions.
    """
    levels: tuple[Any, ...] = tuple(given) if isinstance(given, list | tuple) else ()
    names = {level for level in levels if isinstance(level, str) and level}
    wrong = count is not None and (len(levels) != count or are_other_numbers(levels))
    if len(names) < max(2, len(levels)) or wrong:
        unquoted = any(isinstance(level, Real) for level in levels)  # also YAML's yes and no
        several = "at least two different levels, each a string, in a list"
        expected = several if count is None else "a list of names of 0 and 1"
        do = "quote every level" if unquoted else "name every level once"
        raise InputError(f"attribute '{name}'", expected=expected, got=short(given), do=do)
    return levels


def number(text: str) -> float | None:
    """Read a finite number; None for any other string."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
