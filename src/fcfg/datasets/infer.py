"""Attributes guessed from the columns of a table: a start, to be read and corrected."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from fcfg.attributes import AbstractAttribute, AttributeSpace, Binary, Categorical, Continuous
from fcfg.codes import number
from fcfg.datasets.columns import is_missing, read_column
from fcfg.errors import InputError

_LEVELS = 20  # more different texts than these are names, not levels


def inferred_space(columns: Mapping[str, Sequence[str]]) -> AttributeSpace | None:
    """Attributes for the columns that look like some; nothing where none does."""
    guesses = [inferred(name, texts) for name, texts in columns.items()]
    attributes = [guess for guess in guesses if guess is not None]
    return AttributeSpace(attributes) if attributes else None


def inferred(name: str, texts: Sequence[str]) -> AbstractAttribute | None:
    """Guess an attribute: 0 and 1 are binary, numbers continuous, a few texts categorical.

    Nothing is guessed of what looks like an identifier or a free text.

    >>> inferred("hair", ["dark", "fair", "dark"])
    Categorical(name='hair', levels=('dark', 'fair'))
    >>> inferred("age", ["21", "60.5"])
    Continuous(name='age', low=19.0, high=63.0)
    >>> inferred("patient_id", ["7", "8"]) is None
    True
    """
    values = sorted({text.strip() for text in texts if not is_missing(text)})
    if not values or name.lower() == "id" or name.lower().endswith("_id"):
        return None
    try:
        if not read_column(Binary(name), values).illegal:
            return Binary(name)
        numbers = [number(value) for value in values]
        known = [value for value in numbers if value is not None]
        if len(known) == len(values):
            return Continuous(name, *_padded(min(known), max(known)))
        few = len(values) <= min(_LEVELS, max(2, len(texts) // 2))
        return Categorical(name, tuple(values)) if few and len(values) > 1 else None
    except InputError:  # a name that no attribute may have
        return None


def _padded(low: float, high: float) -> tuple[float, float]:
    """A range with a twentieth to spare on both sides, at round numbers."""
    span = (high - low) or 2 * max(1.0, abs(low))
    step = 10.0 ** math.floor(math.log10(span / 20))
    return (
        round(math.floor((low - span / 20) / step) * step, 12),
        round(math.ceil((high + span / 20) / step) * step, 12),
    )
