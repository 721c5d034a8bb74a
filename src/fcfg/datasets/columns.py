"""Columns of a label file: parse their strings, or guess what kind of attribute they hold.

======================= ==================================================================
kind                    strings
======================= ==================================================================
binary                  ``0`` and ``1``, also ``0.0``, ``1.0``, and in any case ``false``,
                        ``true``, ``no``, ``yes``; or the names of its two levels, exactly
categorical             names of the levels, exactly
continuous              numbers in the range of the attribute
======================= ==================================================================

An empty string, ``nan``, ``NA``, ``N/A``, ``null`` or ``?`` is a missing value, which is never
valid.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fcfg.causal.attributes import (
    AbstractAttribute,
    AttributeSpace,
    Binary,
    Categorical,
    Column,
    Continuous,
    Table,
    attribute_from_config,
)
from fcfg.causal.codes import BINARY_TEXTS, binary_code, number
from fcfg.datasets.identifiers import is_identifiers_name, names_several
from fcfg.support.csv_files import check_columns
from fcfg.support.errors import InputError, joined, listed, quoted

_MISSING = {"", "nan", "na", "n/a", "null", "?"}
_LEVELS = 20  # a column with more distinct strings holds names, not levels
_INTEGERS = 10  # a column with more distinct integers holds a quantity, not levels
_ROWS_EACH = 5  # fewest rows per integer, on average, for integers to be levels


@dataclass(frozen=True, eq=False)
class ParsedColumn:
    """Values of one attribute; invalid rows hold 0."""

    column: Column
    missing: list[int]  #: rows without a value
    illegal: list[int]  #: rows with a value that the attribute cannot have


def is_missing(text: str) -> bool:
    """Whether a string stands for a missing value.

    >>> is_missing(" "), is_missing("NaN"), is_missing("NA"), is_missing("0")
    (True, True, True, False)
    """
    return text.strip().lower() in _MISSING


def parse_column(attribute: AbstractAttribute, texts: Sequence[str]) -> ParsedColumn:
    """Parse the strings of an attribute, and report the rows that are invalid.

    >>> parse_column(Binary("smiling"), ["1", "False", "", "2"])
    ParsedColumn(column=array([1, 0, 0, 0]), missing=[2], illegal=[3])
    """
    parse = _parser(attribute)
    values = {text: parse(text.strip()) for text in set(texts)}  # a level may be called NA
    invalid = [row for row, text in enumerate(texts) if values[text] is None]
    missing = [row for row in invalid if is_missing(texts[row])]
    dtype = np.float64 if isinstance(attribute, Continuous) else np.int64
    column = attribute.column(np.array([values[text] or 0 for text in texts], dtype=dtype))
    return ParsedColumn(column, missing, sorted(set(invalid) - set(missing)))


def _parser(attribute: AbstractAttribute) -> Callable[[str], float | None]:
    if isinstance(attribute, Binary):
        return lambda text: binary_code(text, attribute.levels)
    if isinstance(attribute, Categorical):
        return {level: code for code, level in enumerate(attribute.levels)}.get
    assert isinstance(attribute, Continuous)
    low, high = attribute.low, attribute.high

    def within(text: str) -> float | None:
        value = number(text)
        return value if value is not None and low <= value <= high else None

    return within


def legal_values(attribute: AbstractAttribute) -> str:
    """Describe the values that a label file may hold, for messages."""
    if isinstance(attribute, Binary):
        return quoted(attribute.levels) if attribute.levels else "0 or 1 (or true, false, yes, no)"
    if isinstance(attribute, Categorical):
        return f"one of {quoted(attribute.levels)}"
    assert isinstance(attribute, Continuous)
    return f"a number from {attribute.low:g} to {attribute.high:g}"


def parse_table(
    space: AttributeSpace, columns: Mapping[str, Sequence[str]], names: Sequence[str], where: str
) -> Table:
    """Parse the columns of all attributes, or refuse them by attribute and file.

    Args:
        space: Attributes to parse.
        columns: Strings by name of the attribute.
        names: File names, for messages.
        where: Name of the label file, for messages.
    """
    check_columns(where, space.names, columns)
    table: Table = {}
    faults: list[InputError] = []
    for attribute in space:
        texts, subject = columns[attribute.name], f"attribute '{attribute.name}' in {where}"
        parsed = parse_column(attribute, texts)
        if parsed.missing:
            fault = InputError(
                subject,
                expected="a value for every image",
                got=f"none for {listed([names[row] for row in parsed.missing])}",
                do="fill in the values, or leave the rows out; a folder's 'missing: drop' does",
            )
            faults.append(fault)
        if parsed.illegal:
            first = parsed.illegal[0]
            fault = InputError(
                subject,
                expected=legal_values(attribute),
                got=f"'{texts[first]}' for '{names[first]}'"
                + (f" and {len(parsed.illegal) - 1} more" if parsed.illegal[1:] else ""),
                do="correct the values, or the declaration of the attribute",
            )
            faults.append(fault)
        table[attribute.name] = parsed.column
    if faults:
        raise joined(faults)
    return table


@dataclass(frozen=True)
class Guess:
    """The attribute that a column seems to hold, and the reason."""

    attribute: AbstractAttribute | None  #: None if the column does not look like an attribute
    why: str
    legal_name: bool = True  #: whether an attribute may have the name of the column
    odd: tuple[str, ...] = ()  #: texts in a column of numbers
    question: str = ""  #: what to ask, if it may name a patient or person with several images


def guess_attribute(name: str, texts: Sequence[str]) -> Guess:
    """Guess the attribute in a column, as a start for the user to correct.

    0 and 1 are binary, a few recurring integers categorical, other numbers continuous, a few
    recurring strings categorical, or binary if there are two. Identifiers and free text are not
    attributes.

    >>> guess_attribute("sex", ["M", "F", "M"]).attribute.to_config()
    {'kind': 'binary', 'levels': ['F', 'M']}
    >>> guess_attribute("age", ["21", "60.5"])
    Guess(attribute=Continuous(name='age', low=19.0, high=63.0), why='2 different numbers from 21
    to 60.5', legal_name=True, odd=(), question='')
    >>> guess_attribute("stars", ["1", "3", "2"] * 5).attribute
    Categorical(name='stars', levels=('1', '2', '3'))
    >>> guess_attribute("patient_id", ["7", "8"])
    Guess(attribute=None, why='an identifier, by its name', legal_name=True, odd=(), question='')
    """
    present = [text.strip() for text in texts if not is_missing(text)]
    values = sorted(set(present))
    found = f"{len(values)} values in {len(present)} rows"
    if is_identifiers_name(name, len(values)):
        question = f"{found}, left out" if len(values) < len(present) else ""
        return Guess(None, "an identifier, by its name", question=question)
    question = f"{found}, an attribute otherwise" if names_several(present) else ""
    kind, why = _guess_kind(values, len(present))
    texts = tuple(text for text in values if number(text) is None)
    odd = texts if kind != {"kind": "binary"} and 2 * len(texts) <= len(values) else ()
    try:
        attribute = None if kind is None else attribute_from_config(name, kind)
        return Guess(attribute, why, odd=odd, question=question)
    except InputError as error:  # a name that no attribute may have
        return Guess(None, f"expected {error.expected}", legal_name=False)


def _guess_kind(values: Sequence[str], rows: int) -> tuple[dict[str, Any] | None, str]:
    """Guess the configuration of an attribute from its distinct values; also give the reason."""
    if not values:
        return None, "no values"
    if not parse_column(Binary("0 or 1"), values).illegal:
        return {"kind": "binary"}, f"only {' and '.join(values)}"
    numbers = {text: value for text in values if (value := number(text)) is not None}
    if len(numbers) == len(values):
        return _guess_numeric(numbers, rows)
    if len(values) == 1:
        return None, "always the same text"
    lowered = {text.lower() for text in values}
    if all(number(text.replace(",", ".")) is not None for text in values):
        return None, "numbers with decimal commas; write points"
    if len(values) == 2 and len(numbers) == 0 and not BINARY_TEXTS.keys() & lowered:
        return {"kind": "binary", "levels": list(values)}, f"only {' and '.join(values)}"
    few = len(values) <= min(_LEVELS, max(2, rows // 2))
    levels = {"kind": "categorical", "levels": list(values)}
    return levels if few else None, f"{len(values)} different texts in {rows} rows"


def _guess_numeric(numbers: Mapping[str, float], rows: int) -> tuple[dict[str, Any] | None, str]:
    distinct = sorted(set(numbers.values()))
    integers = all(value.is_integer() for value in distinct)
    if integers and 1 < len(distinct) == len(numbers) <= min(_INTEGERS, rows // _ROWS_EACH):
        levels = sorted(numbers, key=lambda text: numbers[text])
        why = f"{len(levels)} different integers in {rows} rows"
        return {"kind": "categorical", "levels": levels}, why
    why = f"{len(distinct)} different numbers from {distinct[0]:g} to {distinct[-1]:g}"
    try:
        low, high = _padded(distinct[0], distinct[-1])
    except (ValueError, OverflowError):  # too large, or too close to each other
        return None, why
    return {"kind": "continuous", "low": low, "high": high} if low < high else None, why


def _padded(low: float, high: float) -> tuple[float, float]:
    """Widen a range by a twentieth on both sides, to round numbers."""
    span = (high - low) or 2 * max(1.0, abs(low))
    step = 10.0 ** math.floor(math.log10(span / 20))
    return (
        round(math.floor((low - span / 20) / step) * step, 12),
        round(math.ceil((high + span / 20) / step) * step, 12),
    )
