"""Which numbers a result file can hold: those that no measurement gives are refused.

Probabilities lie in [0, 1], those of all levels sum to 1, values of attributes are legal ones, and
two images of pixels in [-1, 1] are at most 2 apart.
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
from fcfg.support.errors import InputError, short

_ROUNDED = 1e-5  # of a number, which a file has in six digits
_Wrong: TypeAlias = tuple[str, str, object]  # what is wrong, what was expected, what came
_Test: TypeAlias = tuple[str, Callable[[Any], bool]]  # what is expected, in words and as a test


class Legal:
    """Checks entries against the attributes of their run.

    Args:
        space: The attributes.
    """

    def __init__(self, space: AttributeSpace) -> None:
        self._scores = {attribute.name: _score(attribute) for attribute in space}
        self._values = {attribute.name: _value(attribute) for attribute in space}
        self._checks = {"real": self._real, "row": self._row, "distance": _distance}

    def check(self, where: str, entry: Mapping[str, Any]) -> None:
        """Refuse an entry with a number that cannot be.

        Args:
            where: How a refusal names it.
            entry: Of kind real, row or distance, with all its fields.
        """
        wrong = self._checks[entry["kind"]](entry)
        if wrong is not None:
            what, expected, got = wrong
            raise InputError(
                f"{where}, {what}",
                expected=expected,
                got=short(got),
                do="take it from a copy; or remove the line, and run the same 'fcfg evaluate' "
                "again, which computes it anew",
            )

    def _real(self, entry: Mapping[str, Any]) -> _Wrong | None:
        apart = entry.get("unrelated")
        return (
            _columns("attributes", entry["attributes"], self._values)
            or _columns("scores", entry["scores"], self._scores)
            or _factors("factors", entry["factors"])
            or (None if apart is None else _unless(_MAE, "unrelated", apart))
        )

    def _row(self, entry: Mapping[str, Any]) -> _Wrong | None:
        back, truth = entry["reversal"], entry["truth"]
        return (
            _columns("target", entry["target"], self._values)
            or _columns("scores", entry["scores"], self._scores)
            or _factors("factors", entry["factors"])
            or _apart("change", entry["change"])
            or (None if back is None else _apart("reversal", back))
            or (None if truth is None else self._truth(truth))
            or _unless(_POSITIVE, "evaluations", entry["evaluations"])
            or _unless(_AMOUNT, "seconds", entry["seconds"])
        )

    def _truth(self, truth: object) -> _Wrong | None:
        keys = ("mae", "missed", "changed", "factors", "target")
        if not isinstance(truth, dict) or any(key not in truth for key in keys):
            return "truth", f"an object with {', '.join(keys)}", truth
        return (
            _unless(_MAE, "truth, mae", truth["mae"])
            or _unless(_AMOUNT, "truth, missed", truth["missed"])
            or _unless(_AMOUNT, "truth, changed", truth["changed"])
            or _factors("truth, factors", truth["factors"])
            or _columns("truth, target", truth["target"], self._values)
        )


def _distance(entry: Mapping[str, Any]) -> _Wrong | None:
    return _unless(_NUMBER, "value", entry["value"]) or _unless(_POSITIVE, "n", entry["n"])


def _columns(part: str, found: object, tests: Mapping[str, _Test]) -> _Wrong | None:
    if not isinstance(found, dict) or found.keys() != tests.keys():
        return part, f"a value for each of {', '.join(tests)}", found
    for name, test in tests.items():
        if not test[1](found[name]):
            return f"{part} of '{name}'", test[0], found[name]
    return None


def _factors(part: str, found: object) -> _Wrong | None:
    if isinstance(found, dict) and all(map(_is_number, found.values())):
        return None
    return part, "finite numbers by their names", found


def _apart(part: str, found: object) -> _Wrong | None:
    """Distances between two images, of which LPIPS may be missing."""
    if not isinstance(found, dict) or "mae" not in found or "lpips" not in found:
        return part, "an object with mae and lpips", found
    lpips = found["lpips"]
    return _unless(_MAE, f"{part}, mae", found["mae"]) or (
        None if lpips is None else _unless(_AMOUNT, f"{part}, lpips", lpips)
    )


def _unless(test: _Test, what: str, found: object) -> _Wrong | None:
    return None if test[1](found) else (what, test[0], found)


def _is_number(value: Any) -> bool:
    return (type(value) is float or type(value) is int) and math.isfinite(value)


def _is_probability(value: Any) -> bool:
    return _is_number(value) and 0 <= value <= 1


_NUMBER: _Test = "a finite number", _is_number
_AMOUNT: _Test = "a number of at least 0", lambda value: _is_number(value) and value >= 0
_POSITIVE: _Test = "a number above 0", lambda value: _is_number(value) and value > 0
_MAE: _Test = (
    "a mean absolute error from 0 to 2",
    lambda value: _is_number(value) and 0 <= value <= 2 + _ROUNDED,
)


def _score(attribute: AbstractAttribute) -> _Test:
    """What the judge may read of an attribute."""
    if isinstance(attribute, Binary):
        return "a probability", _is_probability
    if not isinstance(attribute, Categorical):
        return _value(attribute)
    count = len(attribute.levels)
    return (
        f"{count} probabilities that sum to 1",
        lambda value: (
            isinstance(value, list)
            and len(value) == count
            and all(map(_is_probability, value))
            and abs(sum(value) - 1) <= count * _ROUNDED
        ),
    )


def _value(attribute: AbstractAttribute) -> _Test:
    """What an attribute may be."""
    if isinstance(attribute, Categorical):
        levels = tuple(attribute.levels)
        return f"one of {', '.join(levels)}", lambda value: value in levels
    if not isinstance(attribute, Continuous):
        return "0 or 1", lambda value: type(value) is int and 0 <= value <= 1
    low, high = attribute.low, attribute.high
    room = _ROUNDED * max(abs(low), abs(high))
    return (
        f"a number from {low:g} to {high:g}",
        lambda value: _is_number(value) and low - room <= value <= high + room,
    )
