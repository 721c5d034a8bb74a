"""Guesses what a column of a label file holds: an attribute, names of patients, or neither."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from fcfg.causal.attributes import AbstractAttribute, Binary, attribute_from_config
from fcfg.causal.codes import BINARY_TEXTS, number
from fcfg.datasets.columns import is_missing, parse_column
from fcfg.support.errors import InputError

_LEVELS = 20  # a column with more distinct strings holds names, not levels
_INTEGERS = 10  # a column with more distinct integers holds a quantity, not levels
_ROWS_EACH = 5  # fewest rows per integer, on average, for integers to be levels

_NAMES = re.compile(
    r"(patient|person|people|subject|participant|individual|identity|celebrity|proband|volunteer"
    r"|donor|client|user|animal|case|study|mrn|pid|uid)s?[ _.-]?(id|no|nr|num|number|name|code)?"
)
_FEWEST = 50  # distinct values; fewer may be levels, or a quantity of few patients
_EACH = 1.5  # fewest rows of each value, on average
_BLOCKS = 1.05  # most blocks of equal values in successive rows, for each value
_STEPS = 2  # numbers that are farther apart, in steps, leave gaps that a quantity would not
_NUMBERED = 300  # more integers without a gap, in order, are no ages, years or grey values


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
    by_words = len(values) > _INTEGERS and _NAMES.fullmatch(name.lower())  # 'case' may have levels
    if by_words or name.lower() == "id" or name.lower().endswith("_id"):
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
    if all(number(text.replace(",", ".")) is not None for text in values):
        return None, "numbers with decimal commas; write points"
    lowered = {text.lower() for text in values}
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
    low, high = distinct[0], distinct[-1]
    span = (high - low) or 2 * max(1.0, abs(low))
    try:  # wider by a twentieth on both sides, to round numbers
        step = 10.0 ** math.floor(math.log10(span / 20))
        low = round(math.floor((low - span / 20) / step) * step, 12)
        high = round(math.ceil((high + span / 20) / step) * step, 12)
    except (ValueError, OverflowError):  # too large, or too close to each other
        return None, why
    return {"kind": "continuous", "low": low, "high": high} if low < high else None, why


def names_several(texts: Sequence[str]) -> bool:
    """Whether values, in the order of the rows, seem to name what several rows belong to.

    They are many, repeated, and either integers with gaps, or equal in successive rows. Ages,
    years and counts have few gaps; a table that is sorted by one of them has it in blocks, too.
    """
    counts = Counter(texts)
    if len(counts) <= _FEWEST or len(texts) < _EACH * len(counts):
        return False
    in_blocks = 1 + sum(a != b for a, b in pairwise(texts)) <= _BLOCKS * len(counts)
    values = [number(text) for text in texts]
    integers = [int(value) for value in values if value is not None and value.is_integer()]
    if len(integers) < len(texts):
        return in_blocks and values.count(None) == len(texts)
    ascending = sorted(integers)
    gaps = {before: after - before for before, after in pairwise(sorted(set(integers)))}
    step = math.gcd(*gaps.values())
    typical = sorted(gaps.get(value, step) for value in integers)[len(integers) // 2]
    numbered = max(gaps.values()) == step and len(gaps) > _NUMBERED
    in_order = integers in (ascending, ascending[::-1])
    return typical > _STEPS * step or (in_blocks and (numbered or not in_order))
