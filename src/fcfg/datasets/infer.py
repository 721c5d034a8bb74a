"""Attributes guessed from the columns of a table: a start, to be read and corrected."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fcfg.causal.attributes import AbstractAttribute, AttributeSpace, Binary, attribute_from_config
from fcfg.causal.codes import number
from fcfg.datasets.columns import is_missing, read_column
from fcfg.support.errors import InputError

_LEVELS = 20  # more different texts than these are names, not levels
_WHOLE = 10  # more different whole numbers than these are a quantity, not levels
_EACH = 5  # rows that an integer has on average where it is a level


@dataclass(frozen=True)
class Guess:
    """What a column seems to be, and why."""

    attribute: AbstractAttribute | None  #: none where it looks like no attribute
    why: str
    named: bool = True  #: whether an attribute may have the name of the column


def inferred_space(guesses: Mapping[str, Guess]) -> AttributeSpace | None:
    """The attributes among some guesses; nothing where there is none."""
    attributes = [guess.attribute for guess in guesses.values() if guess.attribute is not None]
    return AttributeSpace(attributes) if attributes else None


def inferred(name: str, texts: Sequence[str]) -> Guess:
    """Guess the attribute in a column.

    0 and 1 are binary, a few whole numbers that recur categorical, other numbers continuous, a
    few texts categorical. Nothing is guessed of what looks like an identifier or a free text.

    >>> inferred("hair", ["dark", "fair", "dark"]).attribute
    Categorical(name='hair', levels=('dark', 'fair'))
    >>> inferred("age", ["21", "60.5"])
    Guess(attribute=Continuous(name='age', low=19.0, high=63.0), why='2 different numbers from 21
    to 60.5', named=True)
    >>> inferred("stars", ["1", "3", "2"] * 5).attribute
    Categorical(name='stars', levels=('1', '2', '3'))
    >>> inferred("patient_id", ["7", "8"])
    Guess(attribute=None, why='an identifier, by its name', named=True)
    """
    present = [text.strip() for text in texts if not is_missing(text)]
    if name.lower() == "id" or name.lower().endswith("_id"):
        return Guess(None, "an identifier, by its name")
    kind, why = _kind(sorted(set(present)), len(present))
    try:
        return Guess(None if kind is None else attribute_from_config(name, kind), why)
    except InputError as error:  # a name that no attribute may have
        return Guess(None, f"expected {error.expected}", named=False)


def _kind(values: Sequence[str], rows: int) -> tuple[dict[str, Any] | None, str]:
    """The kind of attribute whose different values these are, in so many rows; and why."""
    if not values:
        return None, "no values"
    if not read_column(Binary("0 or 1"), values).illegal:
        return {"kind": "binary"}, f"only {' and '.join(values)}"
    numbers = {text: value for text in values if (value := number(text)) is not None}
    if len(numbers) == len(values):
        return _numeric(numbers, rows)
    if len(values) == 1:
        return None, "always the same text"
    few = len(values) <= min(_LEVELS, max(2, rows // 2))
    levels = {"kind": "categorical", "levels": list(values)}
    return levels if few else None, f"{len(values)} different texts in {rows} rows"


def _numeric(numbers: Mapping[str, float], rows: int) -> tuple[dict[str, Any] | None, str]:
    different = sorted(set(numbers.values()))
    whole = all(value.is_integer() for value in different)
    if whole and 1 < len(different) == len(numbers) <= min(_WHOLE, rows // _EACH):
        levels = sorted(numbers, key=lambda text: numbers[text])
        why = f"{len(levels)} different whole numbers in {rows} rows"
        return {"kind": "categorical", "levels": levels}, why
    why = f"{len(different)} different numbers from {different[0]:g} to {different[-1]:g}"
    try:
        low, high = _padded(different[0], different[-1])
    except (ValueError, OverflowError):  # too large, or too close to each other
        return None, why
    return {"kind": "continuous", "low": low, "high": high} if low < high else None, why


def _padded(low: float, high: float) -> tuple[float, float]:
    """A range with a twentieth to spare on both sides, at round numbers."""
    span = (high - low) or 2 * max(1.0, abs(low))
    step = 10.0 ** math.floor(math.log10(span / 20))
    return (
        round(math.floor((low - span / 20) / step) * step, 12),
        round(math.ceil((high + span / 20) / step) * step, 12),
    )
