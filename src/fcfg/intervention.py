"""What ``do`` may say of one attribute, and the column it stands for.

A value for all images, a column with one value for each, a function of the factual column, or a
text:

================== ============================================================================
text               meaning
================== ============================================================================
``40``, ``=40``    the value itself; ``=-3`` is a negative value
``+5``, ``-5``     5 more or less than it was; where the attribute can be negative, write ``-=5``
``+10%``, ``-5%``  a tenth more, a twentieth less
``*1.5``           one and a half times as much
``flip``           the other value of a binary attribute, which may also be ``true``, ``false``,
                   ``yes`` or ``no``
================== ============================================================================

A level of a categorical attribute is its name, whatever the name looks like.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from fcfg.attributes import AbstractAttribute, Binary, Column, Continuous
from fcfg.codes import BINARY_TEXTS
from fcfg.errors import InputError

Intervention: TypeAlias = ArrayLike | Callable[[Column], ArrayLike]

FLIP = "flip"
_OPERATORS = ("+=", "-=", "+", "-", "*", "=")


def intervened(attribute: AbstractAttribute, value: Intervention, factual: Column) -> Column:
    """The counterfactual column of a target.

    >>> from fcfg.attributes import Binary, Continuous
    >>> intervened(Binary("smiling"), lambda smiling: 1 - smiling, np.array([0, 1, 1]))
    array([1, 0, 0])
    >>> intervened(Continuous("age", 0, 100), "+10%", np.array([20.0, 50.0]))
    array([22., 55.])

    Args:
        attribute: The target.
        value: A value, a column, a function that is given a copy of the factual column, or a
            text such as '+10%'.
        factual: The factual column.
    """
    subject = f"intervention on '{attribute.name}'"
    if isinstance(value, str):
        value = from_text(attribute, value)
    if callable(value):
        value = value(factual.copy())
    try:
        column = attribute.parse(value)
    except InputError as error:
        raise error.about(subject, "correct what do= gives, or clip it") from error
    if np.ndim(value) == 0:
        column = np.repeat(column, len(factual))
    if len(column) != len(factual):
        raise InputError(
            subject,
            expected=f"one value or {len(factual)}",
            got=len(column),
            do="give one value for each row",
        )
    return column


def from_text(attribute: AbstractAttribute, text: str) -> Intervention:
    """What a text asks for: a value, or a function of the factual column.

    A text that means nothing is returned as it is, for the attribute to refuse.

    >>> from fcfg.attributes import Continuous
    >>> from_text(Continuous("age", 0, 100), "=40")
    40.0

    Args:
        attribute: The target.
        text: One of the texts above.
    """
    word = text.strip()
    if isinstance(attribute, Binary):
        return flip if word == FLIP else BINARY_TEXTS.get(word.lower(), text)
    if not isinstance(attribute, Continuous):
        return text
    operator = next((sign for sign in _OPERATORS if word.startswith(sign)), "")
    amount = word.removeprefix(operator)
    is_share = amount.endswith("%") and operator in ("+", "-", "+=", "-=")
    number = _number(amount.removesuffix("%") if is_share else amount, text)
    if isinstance(number, str):
        return text
    if operator in ("", "="):
        return number
    if operator == "-" and not is_share and attribute.low < 0:
        raise InputError(
            f"intervention on '{attribute.name}'",
            expected=f"'={word}' for the value {word}, or '-={amount}' for a decrease",
            got=f"'{word}', which may mean either",
            do="write one of them",
        )
    change = -number if operator.startswith("-") else number
    if operator == "*":
        return lambda column: column * number
    if is_share:
        return lambda column: column * (1 + change / 100)
    return lambda column: column + change


def flip(column: Column) -> Column:
    """The other value of a binary attribute."""
    return 1 - column


def _number(word: str, otherwise: str) -> float | str:
    try:
        return float(word)
    except ValueError:
        return otherwise
