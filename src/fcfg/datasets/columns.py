"""From texts in a label file to columns of attributes, or to a refusal that names the files.

======================= ==================================================================
kind                    texts
======================= ==================================================================
binary                  ``0`` and ``1``, also ``0.0``, ``1.0``, and in any case ``false``,
                        ``true``, ``no``, ``yes``
categorical             the names of the levels, exactly
continuous              numbers in the range of the attribute
======================= ==================================================================

An empty text and ``nan`` mean that the value is missing, which is never legal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fcfg.causal.attributes import (
    AbstractAttribute,
    AttributeSpace,
    Binary,
    Categorical,
    Column,
    Continuous,
    Table,
)
from fcfg.causal.codes import BINARY_TEXTS, number
from fcfg.datasets.listing import listed
from fcfg.support.errors import InputError, nearest, quoted


@dataclass(frozen=True, eq=False)
class Reading:
    """What the texts of one attribute say; rows that are wrong hold 0."""

    column: Column
    missing: list[int]  #: rows without a value
    illegal: list[int]  #: rows with a value that the attribute cannot have


def is_missing(text: str) -> bool:
    """Whether a text means that there is no value.

    >>> is_missing(" "), is_missing("NaN"), is_missing("0")
    (True, True, False)
    """
    return text.strip().lower() in {"", "nan"}


def read_column(attribute: AbstractAttribute, texts: Sequence[str]) -> Reading:
    """Read the texts of an attribute without refusing any.

    >>> read_column(Binary("smiling"), ["1", "False", "", "2"])
    Reading(column=array([1, 0, 0, 0]), missing=[2], illegal=[3])
    """
    meaning = _meaning(attribute)
    known = {text: None if is_missing(text) else meaning(text.strip()) for text in set(texts)}
    missing = [row for row, text in enumerate(texts) if is_missing(text)]
    illegal = [row for row, text in enumerate(texts) if known[text] is None]
    illegal = sorted(set(illegal) - set(missing))
    kind = np.float64 if isinstance(attribute, Continuous) else np.int64
    values = np.array([known[text] or 0 for text in texts], dtype=kind)
    return Reading(attribute.column(values), missing, illegal)


def _meaning(attribute: AbstractAttribute) -> Callable[[str], float | None]:
    if isinstance(attribute, Binary):
        return lambda text: BINARY_TEXTS.get(text.lower())
    if isinstance(attribute, Categorical):
        codes = {level: code for code, level in enumerate(attribute.levels)}
        return codes.get
    assert isinstance(attribute, Continuous)
    low, high = attribute.low, attribute.high

    def within(text: str) -> float | None:
        value = number(text)
        return value if value is not None and low <= value <= high else None

    return within


def legal_values(attribute: AbstractAttribute) -> str:
    """What may stand in a label file, for a message."""
    if isinstance(attribute, Binary):
        return "0 or 1 (or true, false, yes, no)"
    if isinstance(attribute, Categorical):
        return f"one of {quoted(attribute.levels)}"
    assert isinstance(attribute, Continuous)
    return f"a number from {attribute.low:g} to {attribute.high:g}"


def read_table(
    space: AttributeSpace,
    columns: Mapping[str, Sequence[str]],
    names: Sequence[str],
    where: str,
) -> Table:
    """Read the columns of all attributes, or refuse them by attribute and file.

    Args:
        space: The attributes.
        columns: Texts by the name of the attribute.
        names: Of the files, for messages.
        where: The label file, for messages.
    """
    table: Table = {}
    for attribute in space:
        if attribute.name not in columns:
            raise missing_column(where, attribute.name, columns)
        texts = columns[attribute.name]
        reading = read_column(attribute, texts)
        if reading.missing:
            raise InputError(
                f"attribute '{attribute.name}' in {where}",
                expected="a value for every image",
                got=f"none for {listed([names[row] for row in reading.missing])}",
                do="fill in the values, or remove the rows",
            )
        if reading.illegal:
            first = reading.illegal[0]
            raise InputError(
                f"attribute '{attribute.name}' in {where}",
                expected=legal_values(attribute),
                got=f"'{texts[first]}' for '{names[first]}'"
                + (f" and {len(reading.illegal) - 1} more" if reading.illegal[1:] else ""),
                do="correct the values, or the declaration of the attribute",
            )
        table[attribute.name] = reading.column
    return table


def missing_column(where: str, name: str, columns: Mapping[str, object]) -> InputError:
    """The refusal of a column that is not there."""
    return InputError(
        where,
        expected=f"a column '{name}'",
        got=f"columns {quoted(columns)}",
        do=nearest(name, columns),
    )
