"""What numbers and texts stand for; columns of positions that know which levels they point to.

A plain number says little where the levels are numbers themselves: of '1', '2', '3', is 1 the
first level or the second? A column that the package made leaves no such question: it carries its
levels through slices and arithmetic. Some functions lose them, such as ``np.concatenate`` and
``np.where``; what they give is a plain column again.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Texts for the values of a binary attribute, in lower case; any case is read.
BINARY_TEXTS: dict[str, int] = {
    **dict.fromkeys(("0", "0.0", "false", "no"), 0),
    **dict.fromkeys(("1", "1.0", "true", "yes"), 1),
}


class Codes(np.ndarray[Any, np.dtype[np.int64]]):
    """Positions in a list of levels, with the list.

    >>> codes = Codes.of(np.array([2, 0, 1]), ("1", "2", "3"))
    >>> codes[:2], ((codes + 1) % 3)[0].item(), codes[:2].levels
    (Codes([2, 0]), 0, ('1', '2', '3'))
    """

    levels: tuple[str, ...]  #: none where they got lost

    @classmethod
    def of(cls, positions: NDArray[Any], levels: tuple[str, ...]) -> Codes:
        """Positions in levels, which share memory with the array they came in.

        Args:
            positions: Whole numbers from 0.
            levels: Names of the levels, in order.
        """
        codes = positions.astype(np.int64, copy=False).view(cls)
        codes.levels = levels
        return codes

    def __array_finalize__(self, obj: object) -> None:
        """Take over the levels of what this array was made from."""
        self.levels = getattr(obj, "levels", ())


def levels_of(values: object) -> tuple[str, ...]:
    """The levels that a column carries; none for any other values.

    A comparison of codes is a column of truth values, and no longer one of codes.
    """
    return values.levels if isinstance(values, Codes) and values.dtype.kind == "i" else ()


def are_other_numbers(levels: tuple[str, ...]) -> bool:
    """Whether a number could mean one level by its name and another by its position.

    >>> are_other_numbers(("1", "2")), are_other_numbers(("0", "1")), are_other_numbers(("a", "b"))
    (True, False, False)
    """
    return any(number(level) not in (None, position) for position, level in enumerate(levels))


def number(text: str) -> float | None:
    """A finite number, or nothing."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
