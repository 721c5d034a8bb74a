"""The schema of result files: the fields of every line, and their legal values.

Probabilities lie in [0, 1] and sum to 1 over the levels of an attribute, values of attributes lie
in their range, and two images with pixels in [-1, 1] are at most 2 apart. Other numbers do not
come from a measurement and are refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from fcfg.causal.attributes import (
    AbstractAttribute,
    AttributeSpace,
    Binary,
    Categorical,
    Continuous,
)
from fcfg.causal.graph import CausalGraph
from fcfg.support.errors import InputError, quoted, short

JSON: TypeAlias = dict[str, Any]
SCHEMA = 1
#: Kinds of lines, and the fields that identify a line of each kind.
KEYS = {
    "run": (),
    "real": ("image",),
    "row": ("do", "guidance", "image"),
    "distance": ("do", "guidance", "metric"),
    "minimality": ("do", "guidance"),
}
#: Fields of headers that older files lack, and the values they imply.
_HEADER_DEFAULTS: JSON = {"grid": "uniform", "continuous": "permuted"}
_OPTIONAL = ("unrelated", "repeated")  # fields of other lines that some files lack
_ROUNDING = 1e-5  # files keep six digits of a number

#: Advice for a line that was changed or holds an illegal value.
RECOMPUTE = (
    "take it from a copy; or remove the line, and run the same 'fcfg evaluate' again, which "
    "computes it anew"
)

_Problem: TypeAlias = tuple[str, str, object]  # the field, what was expected, what was found
Check: TypeAlias = Callable[[str, Any], _Problem | None]


def entry_checks(space: AttributeSpace, count: int) -> dict[str, dict[str, Check]]:
    """Return the check of every field, by kind of line.

    Args:
        space: Attributes of the run.
        count: Number of its images.
    """
    values = _object({attribute.name: _legal_value(attribute) for attribute in space})
    scores = _object({attribute.name: _legal_score(attribute) for attribute in space})
    distances = _object({"mae": _MAE, "lpips": _or_none(_AMOUNT)})
    errors: dict[str, Check] = {"mae": _MAE, "missed": _AMOUNT, "changed": _AMOUNT}
    truth = _object({**errors, "factors": _FACTORS, "target": values})
    keys = {kind: dict.fromkeys(names, _STRING) for kind, names in KEYS.items()}
    read = {"scores": scores, "factors": _FACTORS}
    return {
        "real": {**keys["real"], "attributes": values, **read, "unrelated": _or_none(_MAE)},
        "row": {
            **keys["row"],
            "target": values,
            **read,
            "change": distances,
            "reversal": _or_none(distances),
            "repeated": _or_none(distances),
            "truth": _or_none(truth),
            "evaluations": _POSITIVE,
            "seconds": _AMOUNT,
        },
        "distance": {**keys["distance"], "value": _NUMBER, "n": _POSITIVE},
        "minimality": {**keys["minimality"], "values": _shares(count)},
    }


def check_entry(where: str, entry: JSON, checks: Mapping[str, Mapping[str, Check]]) -> None:
    """Refuse a line of an unknown kind, without all its fields, or with an illegal value."""
    kind = entry.get("kind")
    if not isinstance(kind, str) or kind not in checks:
        raise not_an_entry(where, f"the kind {kind!r}" if kind else "an object without a kind")
    fields = checks[kind]
    missing = [name for name in fields if name not in entry and name not in _OPTIONAL]
    if missing:
        raise not_an_entry(where, f"a {kind} without {quoted(missing)}")
    _check_fields(where, entry, fields, do=RECOMPUTE)


def checked_header(where: str, header: JSON) -> tuple[JSON, AttributeSpace]:
    """Check a header; return it with the fields that older files lack, and its attributes."""
    do = "give a file that 'fcfg evaluate' wrote"
    if header.get("schema") != SCHEMA:
        raise InputError(
            where,
            expected=f"schema {SCHEMA}",
            got=header.get("schema"),
            do="use the version of fcfg that wrote it",
        )
    missing = [name for name in _HEADER if name not in header]
    if missing:
        expected = f"a header with {quoted(_HEADER)}"
        raise InputError(where, expected=expected, got=f"none of {quoted(missing)}", do=do)
    _check_fields(where, header, _HEADER, do=do)
    try:
        space = AttributeSpace.from_config(header["attributes"])
        nodes = CausalGraph(header["graph"]).nodes
    except InputError as error:
        raise error.about(f"{where}, {str(error).split(':')[0]}", error.do) from error
    if set(nodes) != set(space.names):
        expected = f"a graph of the attributes {quoted(space.names)}"
        raise InputError(f"{where}, graph", expected=expected, got=quoted(nodes), do=do)
    return _HEADER_DEFAULTS | header, space


def not_an_entry(where: str, got: str) -> InputError:
    """Return the refusal of a line that is not an entry."""
    return InputError(
        where,
        expected=f"a JSON object of kind {', '.join(KEYS)}, with all its fields",
        got=got,
        do="name a folder of 'fcfg evaluate', or remove this line and run it again",
    )


def _check_fields(where: str, entry: JSON, checks: Mapping[str, Check], do: str) -> None:
    for name, check in checks.items():
        problem = check(name, entry.get(name))
        if problem is not None:
            field, expected, got = problem
            raise InputError(f"{where}, {field}", expected=expected, got=short(got), do=do)


def _is_number(value: Any, low: float = -math.inf, high: float = math.inf) -> bool:
    return type(value) in (float, int) and math.isfinite(value) and low <= value <= high


def _is_list(value: object, kind: type) -> bool:
    return isinstance(value, list) and all(isinstance(part, kind) for part in value)


def _check(expected: str, is_legal: Callable[[Any], bool]) -> Check:
    return lambda field, value: None if is_legal(value) else (field, expected, value)


def _number(expected: str, low: float = -math.inf, high: float = math.inf) -> Check:
    return _check(expected, lambda value: _is_number(value, low, high))


def _shares(count: int) -> Check:
    return _check(
        f"{count} numbers from 0 to 1, or null",
        lambda value: (
            isinstance(value, list)
            and len(value) == count
            and all(part is None or _is_number(part, 0, 1 + _ROUNDING) for part in value)
        ),
    )


def _or_none(check: Check) -> Check:
    return lambda field, value: None if value is None else check(field, value)


def _object(checks: Mapping[str, Check]) -> Check:
    """Check an object with exactly these fields."""

    def check(field: str, value: Any) -> _Problem | None:
        if not isinstance(value, dict) or value.keys() != checks.keys():
            return field, f"an object with {', '.join(checks)}", value
        problems = (part(f"{field}, {name}", value[name]) for name, part in checks.items())
        return next(filter(None, problems), None)

    return check


_STRING = _check("a string", lambda value: isinstance(value, str))
_NUMBER = _number("a finite number")
_AMOUNT = _number("a number of at least 0", 0)
_POSITIVE = _number("a number above 0", math.ulp(0.0))
_PROBABILITY = _number("a probability", 0, 1)
_MAE = _number("a mean absolute error from 0 to 2", 0, 2 + _ROUNDING)
_FACTORS = _check(
    "finite numbers by their names",
    lambda value: isinstance(value, dict) and all(map(_is_number, value.values())),
)
_HEADER: dict[str, Check] = {
    "experiment": _STRING,
    "images": _check(
        "a list of different strings",
        lambda value: _is_list(value, str) and len(set(value)) == len(value),
    ),
    "attributes": _check(
        "an object of objects",
        lambda value: isinstance(value, dict) and _is_list(list(value.values()), dict),
    ),
    "graph": _check(
        "an object of lists",
        lambda value: isinstance(value, dict) and _is_list(list(value.values()), list),
    ),
    "questions": _check(
        "a list of pairs of strings",
        lambda value: (
            _is_list(value, list) and all(len(pair) == 2 and _is_list(pair, str) for pair in value)
        ),
    ),
}


def _legal_score(attribute: AbstractAttribute) -> Check:
    """Check what the judge may read of an attribute."""
    if isinstance(attribute, Binary):
        return _PROBABILITY
    if not isinstance(attribute, Categorical):
        return _legal_value(attribute)
    count = len(attribute.levels)
    return _check(
        f"{count} probabilities that sum to 1",
        lambda value: (
            isinstance(value, list)
            and len(value) == count
            and all(_is_number(part, 0, 1) for part in value)
            and abs(sum(value) - 1) <= count * _ROUNDING
        ),
    )


def _legal_value(attribute: AbstractAttribute) -> Check:
    """Check a value of an attribute."""
    if isinstance(attribute, Categorical):
        levels = tuple(attribute.levels)
        return _check(f"one of {', '.join(levels)}", lambda value: value in levels)
    if not isinstance(attribute, Continuous):
        return _check("0 or 1", lambda value: type(value) is int and 0 <= value <= 1)
    low, high = attribute.low, attribute.high
    margin = _ROUNDING * max(abs(low), abs(high))
    return _number(f"a number from {low:g} to {high:g}", low - margin, high + margin)
