"""Columns that name what several images belong to, such as a patient or a person."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from fcfg.causal.codes import number

_NAMES = re.compile(
    r"(patient|person|people|subject|participant|individual|identity|celebrity|proband|volunteer"
    r"|donor|client|user|animal|case|study|mrn|pid|uid)s?[ _.-]?(id|no|nr|num|number|name|code)?"
)
_LEVELS = 10  # distinct values of an attribute with levels
_FEWEST = 50  # distinct values; fewer may be levels, or a quantity of few patients
_EACH = 1.5  # fewest rows of each value, on average
_BLOCKS = 1.05  # most blocks of equal values in successive rows, for each value
_STEPS = 2  # numbers that are farther apart, in steps, leave gaps that a quantity would not
_NUMBERED = 300  # more integers without a gap, in order, are no ages, years or grey values


def is_identifiers_name(name: str, count: int) -> bool:
    """Whether a column has a name that identifiers have.

    >>> [is_identifiers_name(n, 40) for n in ("scan_id", "PatientID", "person", "patient_age")]
    [True, True, True, False]

    Args:
        name: Name of the column.
        count: Number of distinct values; a ``case`` of few values may be an attribute.
    """
    name = name.lower()
    by_words = count > _LEVELS and _NAMES.fullmatch(name) is not None
    return name == "id" or name.endswith("_id") or by_words


def names_several(texts: Sequence[str]) -> bool:
    """Whether values seem to name what several rows belong to.

    They are many, repeated, and either integers with gaps, or equal in successive rows. Ages,
    years and counts have few gaps; a table that is sorted by one of them has it in blocks, too.

    >>> patients = [str(7 * n**2) for n in range(60) for row in range(3)]
    >>> ages = [str(20 + n % 60) for n in range(90)]
    >>> names_several(patients), names_several(ages), names_several(sorted(ages))
    (True, False, False)

    Args:
        texts: Values in the order of the rows.
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
